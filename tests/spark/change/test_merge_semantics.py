"""What the clauses of a merge mean beyond the model: stars, schema evolution, sources, rules, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf
from small_tables import FEED, TableMaker, changes_of, contents, last_operation

import distributary as ds
from distributary.delta.errors import AppendOnlyError, ConstraintViolationError, SchemaMismatchError
from distributary.errors import InvalidInputError, UnknownColumnError
from distributary.spark.merge import execute_merge
from distributary.spark.merge_clauses import MergeClause
from distributary.spark.table_scan import read_table

if TYPE_CHECKING:
    from peers.process import Peer
    from pyspark.sql import DataFrame, SparkSession

    from distributary.spark.row_changes import ChangeMetrics

ONE = [(1, 10, "a"), (2, 20, "b")]
TWO = [(3, 30, "a"), (4, 40, "c")]
UPDATE_ALL = MergeClause("matched", "update_all")
INSERT_ALL = MergeClause("not_matched", "insert_all")


def merge(path: str, source: DataFrame, *clauses: MergeClause, **options: Any) -> ChangeMetrics:
    """A merge on equal ids."""
    return execute_merge(
        source.sparkSession, path, source.alias("s"), "t.id = s.id", clauses, target_alias="t", **options
    )


def test_a_source_in_another_order_and_case_is_matched_by_name(
    spark: SparkSession, make: TableMaker, deltalake: Peer
) -> None:
    path = make(ONE, TWO)
    source = spark.createDataFrame([("x", 3, "33"), ("y", 9, "99")], "P string, Id long, V string")
    done = merge(path, source, UPDATE_ALL, INSERT_ALL)
    expected = [(1, 10, "a"), (2, 20, "b"), (3, 33, "x"), (4, 40, "c"), (9, 99, "y")]
    assert contents(path) == expected
    assert sorted((tuple(row.values()) for row in deltalake.rows(path).to_pylist()), key=repr) == expected
    assert done["numTargetRowsCopied"] == (0 if make.vectors else 1)
    name, parameters, metrics = last_operation(path)
    assert (name, parameters["matchedPredicates"]) == ("MERGE", '[{"actionType":"update"}]')
    assert (metrics["numTargetRowsInserted"], metrics["numOutputRows"]) == ("1", "2" if make.vectors else "3")


def test_a_merge_that_only_inserts_touches_no_file(spark: SparkSession, make_vectors: TableMaker) -> None:
    """Also in an append-only table, and without change files, since its adds are all that happened."""
    path = make_vectors(ONE, TWO, properties={**FEED, "delta.appendOnly": "true"})
    source = spark.createDataFrame([(1, 0, "z"), (7, 70, "z"), (8, 1, "z")], "id int, v int, p string")
    done = merge(path, source, MergeClause("not_matched", "insert", "s.v > 10", {"id": "s.id", "v": "-s.v"}))
    assert (done.rows_inserted, done["numTargetFilesRemoved"], done["numTargetChangeFilesAdded"]) == (1, 0, 0)
    assert changes_of(path, done.version) == [("insert", 7, -70, None)]
    with pytest.raises(AppendOnlyError):
        merge(path, source, UPDATE_ALL)


def test_schema_evolution_brings_new_columns_and_keeps_what_the_source_lacks(
    spark: SparkSession, make: TableMaker
) -> None:
    path = make(ONE, properties=FEED)
    first = spark.sql("select 2 id, named_struct('x', 1, 'y', 'q') extra union all select 5, null")
    with pytest.raises(SchemaMismatchError):
        merge(path, first, UPDATE_ALL)
    done = merge(path, first, UPDATE_ALL, INSERT_ALL, schema_evolution=True)
    x, z = {"x": 1, "y": "q"}, {"x": 9, "y": "q", "w": 0.5}
    assert contents(path) == [(1, 10, "a", None), (2, 20, "b", x), (5, None, None, None)]
    assert ("update_preimage", 2, 20, "b", None) in changes_of(path, done.version)
    second = spark.sql("select 2 id, named_struct('x', 9, 'w', 0.5d) extra")
    merge(path, second, UPDATE_ALL, schema_evolution=True)
    assert contents(path)[1] == (2, 20, "b", z)
    third = spark.sql("select 1 id, 'new' note, 5 unused")
    merge(path, third, MergeClause("matched", "update", None, {"note": "s.note"}), schema_evolution=True)
    assert ds.DeltaTable(path).snapshot().schema.names == ("id", "v", "p", "extra", "note")


def test_a_source_that_differs_each_time_is_taken_once(spark: SparkSession, make_vectors: TableMaker) -> None:
    """The keys that match and those that are inserted come from one reading of the source."""
    path = make_vectors([(number, 0, "a") for number in range(20)], properties=FEED)
    source = spark.range(40).select(
        sf.col("id").cast("int").alias("id"),
        (sf.rand() * 1000).cast("int").alias("v"),
        sf.lit("r").alias("p"),
    )
    done = merge(path, source.orderBy(sf.rand()).limit(30), UPDATE_ALL, INSERT_ALL)
    assert done.rows_updated + done.rows_inserted == 30
    rows = {row[0]: row for row in contents(path)}
    after = [row for row in changes_of(path, done.version) if row[0] != "update_preimage"]
    assert all(rows[row[1]] == row[1:] for row in after)


def test_a_table_can_be_merged_with_itself(spark: SparkSession, make: TableMaker) -> None:
    path = make(ONE, TWO)
    itself = read_table(spark, path).filter("id > 1")
    done = merge(
        path,
        itself,
        MergeClause("matched", "update", None, {"v": "t.v + s.v"}),
        MergeClause("not_matched_by_source", "delete"),
    )
    assert (done.rows_updated, done.rows_deleted) == (3, 1)
    assert contents(path) == [(2, 40, "b"), (3, 60, "a"), (4, 80, "c")]


def test_partitioned_tables_keep_rows_in_their_partitions(spark: SparkSession, make: TableMaker) -> None:
    path = make([*ONE, *TWO], partition_by=["p"])
    source = spark.createDataFrame([(1, 1, "c"), (6, 6, "d")], "id int, v int, p string")
    merge(path, source, UPDATE_ALL, INSERT_ALL)
    assert contents(path) == [(1, 1, "c"), (2, 20, "b"), (3, 30, "a"), (4, 40, "c"), (6, 6, "d")]


def test_rules_hold_for_every_row_that_a_merge_writes(spark: SparkSession, make_vectors: TableMaker) -> None:
    path = make_vectors(ONE)
    ds.DeltaTable(path).alter.add_constraint("low", "v < 100")
    source = spark.createDataFrame([(9, 500, "z")], "id int, v int, p string")
    with pytest.raises(ConstraintViolationError, match="low"):
        merge(path, source, UPDATE_ALL, INSERT_ALL)
    assert contents(path) == ONE


def test_clauses_that_make_no_sense_are_refused(spark: SparkSession, make_vectors: TableMaker) -> None:
    path = make_vectors(ONE)
    source = spark.createDataFrame([(9, 5, "z")], "id int, v int, p string")
    delete = MergeClause("matched", "delete")
    wrong = [
        (),
        (delete, UPDATE_ALL),
        (MergeClause("matched", "insert_all"),),
        (MergeClause("matched", "update"),),
        (MergeClause("matched", "delete", "rand() > 0.5"),),
        (MergeClause("not_matched", "insert_all", "s.v + 1"),),
    ]
    for clauses in wrong:
        with pytest.raises(InvalidInputError):
            merge(path, source, *clauses)
    with pytest.raises(UnknownColumnError):
        merge(path, source, MergeClause("matched", "update", None, {"nope": "1"}))
