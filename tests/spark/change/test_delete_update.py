"""Deleting and updating rows, by deletion vectors or by rewriting: rows, change feed, rules, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf
from small_tables import FEED, TableMaker, changes_of, contents, last_operation

import distributary as ds
from distributary.delta.errors import AppendOnlyError, ConstraintViolationError
from distributary.delta.log.snapshot import load_snapshot
from distributary.delta.schema.data_types import INTEGER, StructField, StructType
from distributary.errors import InvalidInputError, UnknownColumnError
from distributary.spark.delete_update import delete, update
from distributary.storage.object_store import open_store

if TYPE_CHECKING:
    from peers.process import Peer
    from pyspark.sql import SparkSession

ONE = [(1, 10, "a"), (2, 20, "b"), (3, None, "a")]
TWO = [(4, 40, "b"), (5, 50, "c")]


def test_delete_by_a_condition_takes_just_those_rows(
    spark: SparkSession, make: TableMaker, deltalake: Peer
) -> None:
    """RF-051, CDF-005: rows that are unknown to the condition stay; the feed has what was deleted."""
    path = make(ONE, TWO, properties=FEED)
    done = delete(spark, path, "v > 10 and id < 5")
    assert contents(path) == [(1, 10, "a"), (3, None, "a"), (5, 50, "c")]
    assert changes_of(path, done.version) == [("delete", 2, 20, "b"), ("delete", 4, 40, "b")]
    assert (done.rows_deleted, done["numDeletionVectorsAdded"]) == (2, 2 if make.vectors else 0)
    assert done["numCopiedRows"] == (0 if make.vectors else 3)
    again = delete(spark, path, sf.col("id").isin(1, 5))
    assert again.rows_deleted == 2
    assert contents(path) == [(3, None, "a")] == deltalake_rows(deltalake, path)
    name, parameters, metrics = last_operation(path)
    assert (name, parameters["predicate"]) == ("DELETE", '["(id IN (1, 5))"]')
    assert metrics["numDeletedRows"] == "2"


def test_delete_without_a_match_commits_nothing(spark: SparkSession, make_vectors: TableMaker) -> None:
    path = make_vectors(ONE)
    done = delete(spark, path, "id = 99")
    assert (done.committed, done.version) == (False, ds.DeltaTable(path).version())


def test_delete_of_whole_files_reads_no_rows(spark: SparkSession, make: TableMaker) -> None:
    """A condition on partitions, or none, takes files by the log alone: the data need not even be there."""
    path = make([*ONE, *TWO], partition_by=["p"], properties=FEED)
    store = open_store(path)
    files = load_snapshot(store).files.adds()
    for add in files:
        store.delete(add.path)
    done = delete(spark, path, "p in ('a', 'c')")
    assert (done["numRemovedFiles"], done.rows_deleted, done["numAddedChangeFiles"]) == (2, 3, 0)
    assert delete(spark, path).rows_deleted == 2
    assert load_snapshot(store).files.num_files == 0


def test_update_gives_new_values_and_keeps_the_rest(
    spark: SparkSession, make: TableMaker, deltalake: Peer
) -> None:
    path = make(ONE, TWO, properties=FEED)
    done = update(spark, path, {"v": "v + id", "P": sf.lit("z")}, "t.id in (2, 3, 4)", alias="t")
    assert contents(path) == [(1, 10, "a"), (2, 22, "z"), (3, None, "z"), (4, 44, "z"), (5, 50, "c")]
    assert changes_of(path, done.version)[:3] == [
        ("update_postimage", 2, 22, "z"),
        ("update_postimage", 3, None, "z"),
        ("update_postimage", 4, 44, "z"),
    ]
    assert (done.rows_updated, done["numCopiedRows"]) == (3, 0 if make.vectors else 2)
    every = update(spark, path, {"v": "'5'"})
    assert (every.rows_updated, {row[1] for row in contents(path)}) == (5, {5})
    assert contents(path) == deltalake_rows(deltalake, path)


def test_update_of_a_field_makes_the_struct_where_it_was_null(
    spark: SparkSession, make_vectors: TableMaker
) -> None:
    schema = pa.schema([("id", pa.int32()), ("s", pa.struct([("x", pa.int32()), ("y", pa.string())]))])
    path = make_vectors([(1, {"x": 1, "y": "q"}), (2, None)], schema=schema)
    update(spark, path, {"s.x": "id * 10"})
    assert contents(path) == [(1, {"x": 10, "y": "q"}), (2, {"x": 20, "y": None})]
    for wrong in ({"s.z": "1"}, {"s.x": "1", "s": "null"}, {"s": "named_struct('x', 1)"}):
        with pytest.raises((InvalidInputError, ds.DistributaryError)):
            update(spark, path, wrong)


def test_constraints_hold_after_an_update(spark: SparkSession, make: TableMaker) -> None:
    """CN-050: a row that breaks a rule fails the update, and nothing is committed."""
    table = ds.DeltaTable(make(ONE[:2], TWO))
    table.alter.add_constraint("low", "v < 100")
    with pytest.raises(ConstraintViolationError, match="low"):
        update(spark, table.uri, {"v": "v * 3"}, "id = 5")
    assert update(spark, table.uri, {"v": "v + 1"}, "id = 4").committed
    assert (4, 41, "b") in contents(table.uri)


def test_generated_columns_follow_what_they_are_made_of(spark: SparkSession, make: TableMaker) -> None:
    path = make()
    twice = StructField("twice", INTEGER, metadata={"delta.generationExpression": "id * 2"})
    table = ds.DeltaTable.create(
        f"{path}-generated",
        StructType((StructField("id", INTEGER), twice)),
        properties={"delta.enableDeletionVectors": str(make.vectors).lower()},
    )
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int32())}))
    update(spark, table.uri, {"id": "id + 10"}, "id < 3")
    assert contents(table.uri) == [(11, 22), (12, 24), (3, 6)]


def test_files_with_deleted_rows_keep_their_statistics_loosely(
    spark: SparkSession, make_vectors: TableMaker
) -> None:
    """LR-044: the number of physical rows stays, bounds stay right and are no longer tight."""
    path = make_vectors(ONE)
    delete(spark, path, "id = 1")
    add = load_snapshot(open_store(path)).files.adds()[0]
    stats = msgspec.json.decode(add.stats or "")
    assert (stats["numRecords"], stats["tightBounds"], stats["minValues"]["id"]) == (3, False, 1)
    assert add.deletion_vector is not None
    assert (add.deletion_vector.storage_type, add.deletion_vector.cardinality) == ("u", 1)
    assert delete(spark, path, "id > 1")["numRemovedFiles"] == 1


def test_what_cannot_be_changed_is_refused(spark: SparkSession, make_vectors: TableMaker) -> None:
    """CN-001"""
    path = make_vectors(ONE, properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError):
        delete(spark, path, "id = 1")
    with pytest.raises(AppendOnlyError):
        update(spark, path, {"v": "1"})
    open_path = make_vectors(ONE)
    with pytest.raises(UnknownColumnError):
        update(spark, open_path, {"nope": "1"})
    for condition in ("rand() < 0.5", "id in (select 1)", "id + 1"):
        with pytest.raises(InvalidInputError):
            delete(spark, open_path, condition)
    with pytest.raises(InvalidInputError):
        update(spark, open_path, {})


def deltalake_rows(peer: Peer, path: str) -> list[tuple[object, ...]]:
    """What deltalake reads of a table."""
    return sorted((tuple(row.values()) for row in peer.rows(path).to_pylist()), key=repr)
