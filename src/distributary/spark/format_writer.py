"""The writer behind format("distributary"): tasks write files, the driver commits them.

Options are delta-spark's: mergeSchema, overwriteSchema, replaceWhere (over partition columns),
partitionOverwriteMode, txnAppId and txnVersion, userMetadata; partitionBy (names with commas) for a new
table. The plan is made when the write begins and travels to the tasks; the commit rests on the version it was
made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType as SparkStruct

from distributary.delta.commit.data_file_writer import remove_data_files
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import ConstraintViolationError, TableNotFoundError
from distributary.delta.log.actions import Add
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.append import (
    Transaction,
    WritePlan,
    commit_files,
    plan_write,
    write_metrics,
    write_parameters,
    write_rows,
)
from distributary.delta.operations.create import define_table, plan_create
from distributary.delta.operations.overwrite import (
    check_partitioned,
    dynamically_replaced,
    region_of,
    replaced_files,
    stage_overwrite,
)
from distributary.delta.operations.row_stream import row_stream
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.delta.schema.schema_evolution import without_reserved_metadata
from distributary.errors import InvalidInputError
from distributary.expressions.arrow_evaluation import filter_mask
from distributary.expressions.tree import Expression
from distributary.spark.shipped_state import ShippedFiles
from distributary.spark.write_plan import nullable, unborn
from distributary.storage.object_store import ObjectStore, open_store


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of a write, read and checked."""

    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    dynamic: bool = False
    partition_by: tuple[str, ...] | None = None
    txn: Transaction | None = None
    user_metadata: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Read from options whose names are in lower case."""
        app, number = options.get("txnappid"), options.get("txnversion")
        if (app is None) != (number is None):
            raise InvalidInputError("txnAppId and txnVersion belong together: give both")
        partitions = options.get("partitionby")
        return cls(
            options.get("mergeschema", "").lower() == "true",
            options.get("overwriteschema", "").lower() == "true",
            options.get("replacewhere"),
            options.get("partitionoverwritemode", "").lower() == "dynamic",
            None if partitions is None else tuple(name.strip() for name in partitions.split(",")),
            None if app is None or number is None else (app, int(number)),
            options.get("usermetadata"),
        )


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files that one task wrote, as the JSON of their adds."""

    adds: bytes


class FormatWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame in one commit."""

    def __init__(
        self,
        path: str,
        schema: SparkStruct,
        overwrite: bool,
        options: Mapping[str, str],
        storage_options: Mapping[str, str],
    ) -> None:
        self._path, self._overwrite, self._storage_options = path, overwrite, dict(storage_options)
        self._options = WriteOptions.of(options)
        self._columns = schema.json()
        plan = self._plan(self._existing())
        self._is_done = plan.is_done
        # The writer is sent to the tasks: what they need is here, the log is not read again.
        self._version = plan.snapshot.version
        self._metadata, self._protocol = plan.metadata, plan.protocol
        self._domains = tuple(plan.snapshot.domains.values())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write the rows of one task to files; runs on executors."""
        if self._is_done:
            return WrittenFiles(b"[]")
        state = ShippedFiles(
            self._store().root, self._version, self._metadata, self._protocol, (), self._domains
        )
        snapshot = state.snapshot()
        plan = WritePlan(snapshot.root, snapshot, snapshot.schema, snapshot.metadata, snapshot.protocol)
        where = self._options.replace_where
        check = None if where is None else _Inside(region_of(plan, where))
        batches = _nonempty(iterator)
        rows = row_stream(pa.RecordBatchReader.from_batches(self._arrow(), batches))
        return WrittenFiles(msgspec.json.encode(write_rows(self._store(), plan, rows, check=check)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks; runs on the driver."""
        if self._is_done:
            return None
        store, adds = self._store(), _adds(messages)
        existing = None if self._version < 0 else load_snapshot(store, self._version)
        if existing is None:
            return self._commit_new(store, adds)
        plan = WritePlan(
            store.root,
            existing,
            parse_schema(self._metadata.schema_string or ""),
            self._metadata,
            self._protocol,
            self._options.txn,
        )
        commit_files(store, plan, self._staged(plan, adds))
        return None

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of tasks that succeeded, as far as the store allows; runs on the driver."""
        remove_data_files(self._store(), _adds(messages))

    def _store(self) -> ObjectStore:
        return open_store(self._path, self._storage_options or None)

    def _existing(self) -> Snapshot | None:
        try:
            return load_snapshot(self._store())
        except TableNotFoundError:
            return None

    def _schema(self) -> StructType:
        return nullable(without_reserved_metadata(parse_schema(self._columns)))

    def _arrow(self) -> pa.Schema:
        return arrow_schema(self._schema())

    def _plan(self, existing: Snapshot | None) -> WritePlan:
        options = self._options
        if existing is None:
            new = plan_create(self._store(), self._schema(), partition_by=options.partition_by or ())
            return unborn(new, options.txn)
        if self._overwrite and options.overwrite_schema:
            partitioning = options.partition_by or existing.metadata.partitioning
            table = define_table(
                existing.root, existing.protocol, existing.metadata, self._schema(), partitioning
            )
            return WritePlan(
                existing.root, existing, table.schema, table.metadata, table.protocol, options.txn
            )
        plan = plan_write(existing, self._arrow(), merge_schema=options.merge_schema, txn=options.txn)
        if self._overwrite and options.dynamic:
            check_partitioned(plan)
        if self._overwrite and options.replace_where is not None:
            replaced_files(plan, region_of(plan, options.replace_where))
        return plan

    def _staged(self, plan: WritePlan, adds: list[Add]) -> StagedCommit:
        options = self._options
        if not self._overwrite:
            parameters = write_parameters("Append", plan)
            operation = Operation("WRITE", parameters, write_metrics(adds), options.user_metadata)
            return StagedCommit(operation, (*plan.changes, *adds), blind_append=True)
        if options.dynamic:
            replaced = dynamically_replaced(plan, adds)
        else:
            where = options.replace_where
            replaced = replaced_files(plan, None if where is None else region_of(plan, where))
        return stage_overwrite(
            plan, adds, replaced, dynamic=options.dynamic, user_metadata=options.user_metadata
        )

    def _commit_new(self, store: ObjectStore, adds: list[Add]) -> None:
        state = ShippedFiles(store.root, -1, self._metadata, self._protocol).snapshot()
        plan = WritePlan(store.root, state, state.schema, state.metadata, state.protocol, self._options.txn)
        parameters = write_parameters("ErrorIfExists", plan)
        operation = Operation("WRITE", parameters, write_metrics(adds), self._options.user_metadata)
        commit(store, None, StagedCommit(operation, (plan.protocol, plan.metadata, *plan.changes, *adds)))


class _Inside(msgspec.Struct, frozen=True):
    """Refuses rows outside of what is replaced."""

    region: Expression

    def __call__(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows and not pc.all(filter_mask(self.region, rows)).as_py():
            raise ConstraintViolationError("replaceWhere", str(self.region), "other values")


def _adds(messages: list[WriterCommitMessage | None]) -> list[Add]:
    found: list[Add] = []
    for message in messages:
        if isinstance(message, WrittenFiles):
            found.extend(msgspec.json.decode(message.adds, type=list[Add]))
    return found


def _nonempty(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)
