"""The table that a change reads: one version of it, the files that may be touched, and how it is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from distributary.delta.commit.transaction import OnPhase
from distributary.delta.deletion_vectors import inline_descriptor, read_deletion_vector
from distributary.delta.errors import AppendOnlyError
from distributary.delta.log.actions import Add
from distributary.delta.log.active_files import FileBlock, FileSelection
from distributary.delta.log.checkpoint_rows import TableRows
from distributary.delta.log.file_columns import adds_to_table
from distributary.delta.log.protocol_support import features_of
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.append import WritePlan
from distributary.delta.parquet_footer import sound_footer
from distributary.delta.scan.file_pruning import FilePruner
from distributary.delta.scan.table_scan import file_access, partition_column
from distributary.delta.statistics.json_statistics import parse_file_statistics
from distributary.expressions.tree import Expression
from distributary.spark.cloud_connectors import check_connector
from distributary.spark.jvm import jvm_of
from distributary.spark.table_scan import FILE_ORDINAL, scan_snapshot
from distributary.spark.table_store import table_store
from distributary.storage.object_store import ObjectStore

StorageOptions = Mapping[str, str]


def nothing_happens(phase: str, version: int) -> None:
    """The phases of a commit that nobody watches."""
    del phase, version


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """One version of a table that is to be changed, and those of its files that may be touched."""

    spark: SparkSession
    store: ObjectStore
    snapshot: Snapshot
    files: FileSelection
    alias: str | None = None
    on_phase: OnPhase = nothing_happens

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        path: str,
        *,
        alias: str | None = None,
        storage_options: StorageOptions | None = None,
        on_phase: OnPhase | None = None,
    ) -> ChangedTable:
        """The latest version; refused where it cannot be written."""
        jvm_of(spark)
        store = table_store(spark, path, storage_options)
        check_connector(spark, store)
        snapshot = load_snapshot(store)
        snapshot.check_writable()
        return cls(spark, store, snapshot, snapshot.files, alias, on_phase or nothing_happens)

    @property
    def plan(self) -> WritePlan:
        """The table as it is, for writing to it."""
        state = self.snapshot
        return WritePlan(state.root, state, state.schema, state.metadata, state.protocol)

    @property
    def uses_deletion_vectors(self) -> bool:
        """Whether rows are marked as deleted; otherwise the files that hold them are written anew."""
        supported = "deletionVectors" in features_of(self.snapshot.protocol)
        return supported and self.snapshot.properties.enable_deletion_vectors

    @property
    def keeps_changes(self) -> bool:
        """Whether changed rows are written down for the change data feed."""
        return self.snapshot.properties.enable_change_data_feed

    def refuse_append_only(self, operation: str) -> None:
        """Refuse to change rows of a table that only takes new ones."""
        if self.snapshot.properties.append_only:
            raise AppendOnlyError(
                f"{self.store.root} is append-only (delta.appendOnly=true): {operation} would change or "
                "remove rows. Unset the property first if that is intended."
            )

    def narrowed(self, predicate: Expression | None) -> ChangedTable:
        """The same table with only the files that may hold rows satisfying a predicate of the engine.

        Spark leaves out more by what it pushes into the scan; these are the files that count as read.
        """
        state = self.snapshot
        pruner = FilePruner(state.schema, state.metadata.partitioning, state.mapping_mode)
        return replace(self, files=pruner.prune(self.files, predicate).files)

    def only(self, ordinals: Sequence[int]) -> ChangedTable:
        """The same table with only some of its files."""
        keep = np.zeros(self.files.num_files, np.bool_)
        keep[list(ordinals)] = True
        return replace(self, files=self.files.filter(keep))

    def with_files(self, blocks: Sequence[FileBlock]) -> ChangedTable:
        """The same table with the files of some blocks."""
        return replace(self, files=FileSelection(blocks))

    def rows(self, *, positions: bool = False, identity: bool = False) -> DataFrame:
        """The rows of the files, under the table's alias."""
        frame = scan_snapshot(
            self.spark, self.store, self.snapshot, self.files, positions=positions, identity=identity
        )
        return self.aliased(frame)

    def aliased(self, frame: DataFrame) -> DataFrame:
        """A frame of rows of the table under the table's alias."""
        return frame if self.alias is None else frame.alias(self.alias)

    def rows_without(self, rows: Sequence[BitMap64]) -> DataFrame:
        """The rows of the files but some, which are given for each file; with their identity."""
        kept: list[Add] = []
        for add, gone in zip(self.files.adds(), rows, strict=True):
            vector = inline_descriptor(self.deleted(add) | gone)
            kept.append(msgspec.structs.replace(add, deletion_vector=vector))
        files = FileSelection([FileBlock(TableRows(adds_to_table(kept)), None)])
        return scan_snapshot(self.spark, self.store, self.snapshot, files, identity=True)

    def deleted(self, add: Add) -> BitMap64:
        """The rows of a file that are deleted already."""
        if add.deletion_vector is None:
            return BitMap64()
        return read_deletion_vector(add.deletion_vector, file_access(self.store).read_range)

    def partitions(self) -> DataFrame:
        """The partition values of each file and its ordinal, as a small frame."""
        state = self.snapshot
        columns: dict[str, pa.Array] = {
            name: partition_column(self.files, state.schema, name, state.mapping_mode)
            for name in state.metadata.partitioning
        }
        columns[FILE_ORDINAL] = pa.array(np.arange(self.files.num_files, dtype=np.int32))
        return self.aliased(self.spark.createDataFrame(pa.table(columns)))

    def live_records(self) -> list[int]:
        """The rows of each file that are not deleted, from statistics or else from footers."""
        state = self.snapshot
        pruner = FilePruner(state.schema, state.metadata.partitioning, state.mapping_mode)
        counts: list[int | None] = pruner.prune(self.files, None).live_records().to_pylist()
        if None not in counts:
            return [count or 0 for count in counts]
        return [
            self.physical_records(add) - (add.deletion_vector.cardinality if add.deletion_vector else 0)
            for add in self.files.adds()
        ]

    def physical_records(self, add: Add) -> int:
        """The rows of a file with the deleted ones, from its statistics or else its footer."""
        known = (parse_file_statistics(add.stats) or {}).get("numRecords")
        if isinstance(known, int):
            return known
        return sound_footer(file_access(self.store).open_file(add.path, add.size)).num_rows
