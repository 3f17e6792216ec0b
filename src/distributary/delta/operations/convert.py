"""Convert: a directory of Parquet files becomes a Delta table in place.

No file is moved or rewritten: the first commit names them all, with the schema that their
footers have together, partition values from Hive-style directory names, and statistics.
Planning reads the footers and changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from distributary.delta.commit.partition_split import HIVE_NULL, log_path
from distributary.delta.commit.protocol_upgrade import required_protocol
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import CommitResult, commit
from distributary.delta.errors import DataFileError, SchemaMismatchError, TableExistsError
from distributary.delta.log.actions import Add, Metadata
from distributary.delta.log.log_segment import list_log
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import STRING, DataType, StructField, StructType, schema_to_json
from distributary.delta.schema.partition_values import parse_partition_value
from distributary.delta.schema.schema_evolution import merge_schemas, without_reserved_metadata
from distributary.delta.statistics.collection import IndexedColumn, indexed_columns
from distributary.delta.statistics.existing_file import statistics_of
from distributary.delta.table_properties import TableProperties
from distributary.errors import InvalidInputError
from distributary.storage.base_store import ObjectMeta
from distributary.storage.object_store import ObjectStore

_FILES_AT_ONCE = 4

Progress = Callable[[int], None]


class ConvertPlan(msgspec.Struct, frozen=True):
    """The files that make up the table, and its schema."""

    root: str
    schema: StructType
    partitioning: tuple[str, ...]
    files: tuple[ObjectMeta, ...]

    def __str__(self) -> str:
        parts = f", partitioned by {', '.join(self.partitioning)}" if self.partitioning else ""
        size = sum(file.size for file in self.files)
        return f"{self.root}: {len(self.files):,} Parquet files, {size:,} bytes{parts}"


def plan_convert(store: ObjectStore, *, partition_types: Mapping[str, DataType] | None = None) -> ConvertPlan:
    """Look at the files of a directory; partition columns are strings where no type is given."""
    if list_log(store).latest_version >= 0:
        raise TableExistsError(f"{store.root} is a Delta table already")
    files = tuple(meta for meta in store.list_all() if _is_data_file(meta.path))
    if not files:
        raise InvalidInputError(f"there are no Parquet files below {store.root}")
    types = dict(partition_types or {})
    partitioning = _partition_names(files, store.root)
    unknown = sorted(set(types) - set(partitioning))
    if unknown:
        raise InvalidInputError(
            f"{unknown[0]} is no directory level of {store.root}: it has {', '.join(partitioning) or 'none'}"
        )
    columns = [StructField(name, types.get(name, STRING)) for name in partitioning]
    schema = StructType((*_file_schema(store, files, partitioning).fields, *columns))
    return ConvertPlan(store.root, schema, partitioning, files)


def execute_convert(
    store: ObjectStore,
    plan: ConvertPlan,
    *,
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> CommitResult:
    """Commit the first version of the table."""
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_to_json(plan.schema),
        name=name,
        partition_columns=list(plan.partitioning),
        configuration=dict(properties or {}),
        created_time=max(file.last_modified for file in plan.files),
    )
    adds = list(_adds(store, plan, TableProperties.from_configuration(metadata.properties), progress))
    operation = Operation(
        "CONVERT",
        {"numFiles": len(adds), "partitionedBy": list(plan.partitioning), "collectStats": True},
        {"numConvertedFiles": len(adds)},
    )
    protocol = required_protocol(None, metadata, plan.schema)
    return commit(store, None, StagedCommit(operation, (protocol, metadata, *adds)))


def _is_data_file(path: str) -> bool:
    names = path.split("/")
    return names[-1].endswith(".parquet") and not any(name.startswith(("_", ".")) for name in names)


def _levels(path: str) -> list[tuple[str, str]]:
    """The partition columns and values that the directories of a path name."""
    pairs = [segment.partition("=") for segment in path.split("/")[:-1]]
    return [(unquote(name), unquote(value)) for name, equals, value in pairs if equals]


def _partition_names(files: Sequence[ObjectMeta], root: str) -> tuple[str, ...]:
    found = {tuple(name for name, _ in _levels(file.path)) for file in files}
    if len(found) > 1:
        forms = " and ".join(sorted("/".join(names) or "(none)" for names in found)[:2])
        raise InvalidInputError(f"the files below {root} have different partition directories: {forms}")
    return found.pop()


def _open(store: ObjectStore, file: ObjectMeta) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(store.open_file(file.path, file.size), pre_buffer=store.is_remote)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(file, error) from error


def _statistics(store: ObjectStore, file: ObjectMeta, columns: Sequence[IndexedColumn]) -> str:
    try:
        return statistics_of(store.open_file(file.path, file.size), columns, pre_buffer=store.is_remote)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: ObjectMeta, error: Exception) -> DataFileError:
    return DataFileError(f"{file.path} is no readable Parquet file: {error}")


def _file_schema(
    store: ObjectStore, files: Sequence[ObjectMeta], partitioning: tuple[str, ...]
) -> StructType:
    """The columns of all files together; none of them may be a partition column too."""
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        schemas = pool.map(lambda file: delta_schema(_open(store, file).schema_arrow), files)
        merged: StructType | None = None
        for file, schema in zip(files, schemas, strict=True):
            plain = _nullable(without_reserved_metadata(schema))
            try:
                merged = plain if merged is None else merge_schemas(merged, plain, allow_widening=False)
            except SchemaMismatchError as error:
                raise SchemaMismatchError(f"{file.path} does not fit the files before it: {error}") from error
    assert merged is not None
    both = sorted(set(partitioning) & set(merged.names))
    if both:
        raise InvalidInputError(f"{both[0]} is a column of the files and a partition directory; rename one")
    return merged


def _nullable(schema: StructType) -> StructType:
    return StructType(tuple(StructField(f.name, f.data_type, True, f.metadata) for f in schema.fields))


def _adds(
    store: ObjectStore, plan: ConvertPlan, properties: TableProperties, progress: Progress | None
) -> Iterator[Add]:
    columns = indexed_columns(plan.schema, plan.partitioning, ColumnMappingMode.NONE, properties)

    def add(file: ObjectMeta) -> Add:
        return Add(
            path=log_path(file.path),
            partition_values=_partition_values(file.path, plan.schema),
            size=file.size,
            modification_time=file.last_modified,
            data_change=True,
            stats=_statistics(store, file, columns),
        )

    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        for found in pool.map(add, plan.files):
            if progress is not None:
                progress(1)
            yield found


def _partition_values(path: str, schema: StructType) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for name, text in _levels(path):
        value = None if text in (HIVE_NULL, "") else text
        parse_partition_value(value, schema.field(name).data_type, column=name)
        values[name] = value
    return values
