"""What a write of a DataFrame makes of a table: its schema, metadata and protocol afterwards.

The same decisions as the engine's own (operations.append, operations.create), with Spark's store assignment
in place of Arrow's and without the closed list of expressions, since Spark evaluates any rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql import DataFrame, SparkSession

from distributary.delta.errors import SchemaMismatchError
from distributary.delta.log.actions import CommitActions, DomainMetadata
from distributary.delta.log.log_segment import LogSegment
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.append import Transaction, WritePlan, check_mapping
from distributary.delta.operations.create import CreatePlan, define_table, plan_create
from distributary.delta.schema.data_types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
)
from distributary.delta.schema.schema_evolution import merge_schemas, without_reserved_metadata
from distributary.delta.table_properties import ENABLE_TYPE_WIDENING
from distributary.errors import InvalidInputError
from distributary.spark.store_assignment import StoreAssignment
from distributary.storage.object_store import ObjectStore

_MOST_PROBLEMS = 5


def data_schema(frame: DataFrame) -> StructType:
    """The columns of a DataFrame, without what another table said about them.

    All are nullable, as in delta-spark: that a query gives no nulls does not ask for NOT NULL.
    """
    return nullable(without_reserved_metadata(parse_schema(frame.schema.json())))


def nullable(schema: StructType) -> StructType:
    """The schema with every column, element and value nullable."""
    fields = (StructField(f.name, _nullable_type(f.data_type), True, f.metadata) for f in schema.fields)
    return StructType(tuple(fields))


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return nullable(data_type)
        case ArrayType(element, _):
            return ArrayType(_nullable_type(element))
        case MapType(key, value, _):
            return MapType(_nullable_type(key), _nullable_type(value))
        case _:
            return data_type


def plan_new_table(
    store: ObjectStore,
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    txn: Transaction | None = None,
) -> WritePlan:
    """The plan of the first write to a table that is not there yet."""
    plan = plan_create(store, schema, partition_by=partition_by, properties=properties, check_rules=False)
    return unborn(plan, txn)


def unborn(
    plan: CreatePlan | WritePlan, txn: Transaction | None = None, domains: tuple[DomainMetadata, ...] = ()
) -> WritePlan:
    """A write plan on a table without any version: its snapshot is empty and has the version -1."""
    commit = CommitActions(version=-1, metadata=plan.metadata, protocol=plan.protocol, domains=domains)
    snapshot = Snapshot(plan.root, LogSegment(-1, None, (), None), None, [commit])
    return WritePlan(plan.root, snapshot, plan.schema, plan.metadata, plan.protocol, txn)


def plan_write(
    spark: SparkSession,
    snapshot: Snapshot,
    data: StructType,
    *,
    merge_schema: bool = False,
    txn: Transaction | None = None,
) -> WritePlan:
    """How rows with these columns will be written; refuses what the table does not take."""
    snapshot.check_writable()
    assignment = StoreAssignment(spark)
    if merge_schema:
        return _grown(snapshot, data, assignment, txn)
    problems = list(assignment.problems(snapshot.schema, data))
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        raise SchemaMismatchError(
            " ".join(problems[:_MOST_PROBLEMS]) + (f" And {more} more." if more > 0 else "")
        )
    return WritePlan(snapshot.root, snapshot, snapshot.schema, snapshot.metadata, snapshot.protocol, txn)


def plan_new_schema(
    snapshot: Snapshot,
    data: StructType,
    partition_by: Sequence[str] | None,
    txn: Transaction | None = None,
) -> WritePlan:
    """The table with the columns of the data in place of its own."""
    snapshot.check_writable()
    check_mapping(snapshot)
    partitioning = partition_by
    if partitioning is None:
        partitioning = snapshot.metadata.partitioning
        lost = [name for name in partitioning if data.find(name) is None]
        if lost:
            raise InvalidInputError(
                f"the table is partitioned by {lost[0]}, which the data lacks: give partition_by too"
            )
    table = define_table(
        snapshot.root, snapshot.protocol, snapshot.metadata, data, partitioning, check_rules=False
    )
    return WritePlan(snapshot.root, snapshot, table.schema, table.metadata, table.protocol, txn)


def with_properties(plan: WritePlan, properties: Mapping[str, str]) -> WritePlan:
    """The plan with more table properties, and the protocol that they need."""
    metadata = msgspec.structs.replace(
        plan.metadata, configuration={**plan.metadata.properties, **properties}
    )
    table = define_table(
        plan.root, plan.protocol, metadata, plan.schema, plan.metadata.partitioning, check_rules=False
    )
    return WritePlan(plan.root, plan.snapshot, table.schema, table.metadata, table.protocol, plan.txn)


def _grown(
    snapshot: Snapshot, data: StructType, assignment: StoreAssignment, txn: Transaction | None
) -> WritePlan:
    """The table with the columns that the data brings along."""
    widen = snapshot.properties.get(ENABLE_TYPE_WIDENING)
    settled = assignment.settled(snapshot.schema, data, widen=widen)
    assert isinstance(settled, StructType)
    merged = merge_schemas(snapshot.schema, settled, allow_widening=widen)
    if merged == snapshot.schema:
        return WritePlan(snapshot.root, snapshot, snapshot.schema, snapshot.metadata, snapshot.protocol, txn)
    check_mapping(snapshot)
    metadata, partitioning = snapshot.metadata, snapshot.metadata.partitioning
    table = define_table(snapshot.root, snapshot.protocol, metadata, merged, partitioning, check_rules=False)
    return WritePlan(snapshot.root, snapshot, table.schema, table.metadata, table.protocol, txn)
