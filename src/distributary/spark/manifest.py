"""Manifests: lists of a table's data files for engines that read plain Parquet (Presto, Athena, Redshift).

As delta-spark's `GENERATE symlink_format_manifest`: below `_symlink_format_manifest`, one file called
`manifest` a partition, each line the place of a data file. A manifest shows the version that it was made
of. Tables with deletion vectors or mapped columns are refused, since such engines would misread them.
"""

from __future__ import annotations

from distributary.delta.commit.partition_split import partition_directory
from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.table import DeltaTable
from distributary.spark.hadoop_paths import hadoop_path

DIRECTORY = "_symlink_format_manifest"


def write_manifests(table: DeltaTable) -> int:
    """Write the manifests of the latest version; gives how many."""
    snapshot = table.snapshot().state
    _refuse(snapshot)
    names = list(snapshot.metadata.partitioning)
    lines: dict[str, list[str]] = {} if names else {"": []}
    for add in snapshot.files.adds():
        values = add.partition_values or {}
        folder = partition_directory(names, tuple(values.get(name) for name in names))
        lines.setdefault(folder, []).append(hadoop_path(table.store, add.path))
    kept = {f"{DIRECTORY}/{folder}manifest" for folder in lines}
    for folder, paths in lines.items():
        text = "".join(f"{path}\n" for path in sorted(paths))
        table.store.put(f"{DIRECTORY}/{folder}manifest", text.encode())
    for found in list(table.store.list_all(DIRECTORY)):
        if found.path not in kept:
            table.store.delete(found.path)
    return len(lines)


def _refuse(snapshot: Snapshot) -> None:
    if any(vector is not None for vector in snapshot.files.deletion_vectors()):
        raise UnsupportedFeatureError(
            f"{snapshot.root} has deletion vectors, which readers of manifests do not know: they would show "
            "deleted rows. Purge them first (REORG TABLE … APPLY (PURGE)).",
            features=("deletionVectors",),
        )
    if snapshot.mapping_mode is not ColumnMappingMode.NONE:
        raise UnsupportedFeatureError(
            f"{snapshot.root} maps its columns, which readers of manifests do not know.",
            features=("columnMapping",),
        )
