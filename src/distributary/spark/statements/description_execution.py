"""DESCRIBE and SHOW, carried out."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from distributary.delta.log.protocol_support import features_of
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.schema.schema_edits import column_path, exact_path, field_at
from distributary.errors import InvalidInputError
from distributary.spark.hadoop_paths import hadoop_uri
from distributary.spark.statements.places import engine_table, is_ours
from distributary.spark.statements.syntax import Describe
from distributary.spark.store_assignment import spark_type
from distributary.spark.table_description import detail_frame, history_frame

_COLUMNS = "col_name string, data_type string, comment string"
Row = tuple[str, str, str | None]


def run_describe(spark: SparkSession, statement: Describe) -> DataFrame | None:
    """DESCRIBE DETAIL, HISTORY, TABLE; SHOW TBLPROPERTIES and COLUMNS."""
    if statement.what not in ("detail", "history") and not is_ours(spark, statement.table):
        return None
    table = engine_table(spark, statement.table)
    if statement.what == "detail":
        return detail_frame(spark, table)
    if statement.what == "history":
        return history_frame(spark, table, statement.limit)
    state = table.snapshot().state
    if statement.what == "properties":
        return _properties(spark, state, statement.detail)
    if statement.what == "columns":
        return spark.createDataFrame([(name,) for name in state.schema.names], "col_name string")
    if statement.what == "column":
        return spark.createDataFrame(
            _one_column(state, statement.detail or ""), "info_name string, info_value string"
        )
    rows = _table_rows(state)
    if statement.what == "table_extended":
        rows += _extended_rows(state)
    return spark.createDataFrame(rows, _COLUMNS)


def _table_rows(state: Snapshot) -> list[Row]:
    rows = [_column(state, name) for name in state.schema.names]
    if state.metadata.partitioning:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [_column(state, name) for name in state.metadata.partitioning]
    return rows


def _column(state: Snapshot, name: str) -> Row:
    field = state.schema.field(name)
    return field.name, spark_type(field.data_type).simpleString(), field.metadata.get("comment")


def _extended_rows(state: Snapshot) -> list[Row]:
    metadata = state.metadata
    shown = ",".join(f"{key}={value}" for key, value in sorted(_all_properties(state).items()))
    rows: list[Row] = [("", "", ""), ("# Detailed Table Information", "", "")]
    if metadata.description is not None:
        rows.append(("Comment", metadata.description, ""))
    rows += [
        ("Location", hadoop_uri(state.root), ""),
        ("Provider", "delta", ""),
        ("Table Properties", f"[{shown}]", ""),
    ]
    return rows


def _one_column(state: Snapshot, text: str) -> list[tuple[str, str]]:
    field = field_at(state.schema, exact_path(state.schema, column_path(text)))
    return [
        ("col_name", field.name),
        ("data_type", spark_type(field.data_type).simpleString()),
        ("comment", str(field.metadata.get("comment", "NULL"))),
    ]


def _properties(spark: SparkSession, state: Snapshot, key: str | None) -> DataFrame:
    found = _all_properties(state)
    if key is not None and key not in found:
        raise InvalidInputError(f"{state.root} has no property {key}; it has {', '.join(sorted(found))}.")
    rows = sorted(found.items()) if key is None else [(key, found[key])]
    return spark.createDataFrame(rows, "key string, value string")


def _all_properties(state: Snapshot) -> dict[str, str]:
    """The table's properties with those that stand for its protocol, as delta-spark shows them."""
    protocol = state.protocol
    shown = {
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
    }
    if protocol.writer_features is not None:
        shown |= {f"delta.feature.{name}": "supported" for name in features_of(protocol)}
    return {**state.metadata.properties, **shown}
