"""Merges made up at random do what a merge in plain Python does: rows, change feed, metrics and refusals."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from merge_model import (
    CONDITIONS,
    PAIR_TESTS,
    SOURCE_TESTS,
    TARGET_TESTS,
    ModelClause,
    RepeatedError,
    merge_model,
)
from small_tables import FEED, TableMaker, changes_of, contents

from distributary.spark.errors import RepeatedMatchError
from distributary.spark.merge import execute_merge
from distributary.spark.merge_clauses import MergeClause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_rows = st.tuples(
    st.one_of(st.none(), st.integers(0, 5)), st.one_of(st.none(), st.integers(0, 4)), st.sampled_from("abc")
)
_target = st.lists(st.lists(_rows, max_size=4), min_size=1, max_size=3)
_source = st.lists(_rows, max_size=5, unique_by=lambda row: row[0])


def _clauses(kind: str, tests: dict[str, Any], actions: list[tuple[str, tuple[Any, ...]]]) -> Any:
    one = st.tuples(st.sampled_from(list(tests)), st.sampled_from(actions))
    conditional = st.lists(one, max_size=1).map(
        lambda found: [ModelClause(kind, action, test, values) for test, (action, values) in found]
    )
    last = st.one_of(st.none(), st.sampled_from(actions)).map(
        lambda found: [] if found is None else [ModelClause(kind, found[0], None, found[1])]
    )
    return st.tuples(conditional, last).map(lambda both: [*both[0], *both[1]])


_matched = _clauses(
    "matched",
    PAIR_TESTS,
    [
        ("update", (("v", "s.v"),)),
        ("update", (("v", "t.v + s.v"), ("id", "7"))),
        ("update_all", ()),
        ("delete", ()),
    ],
)
_not_matched = _clauses(
    "not_matched", SOURCE_TESTS, [("insert_all", ()), ("insert", (("id", "s.id"), ("v", "7")))]
)
_by_source = _clauses(
    "not_matched_by_source", TARGET_TESTS, [("delete", ()), ("update", (("v", "coalesce(t.v, 0) - 1"),))]
)
_all_clauses = st.tuples(_matched, _not_matched, _by_source).map(
    lambda kinds: [c for kind in kinds for c in kind]
)

_UPSERT = [ModelClause("matched", "update_all"), ModelClause("not_matched", "insert_all")]
_DELETE = [ModelClause("matched", "delete"), ModelClause("not_matched_by_source", "delete", "t.v > 1")]


@pytest.mark.parametrize(("vectors", "feed"), [(True, False), (False, True)])
@settings(
    max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, derandomize=True
)
@given(files=_target, source=_source, condition=st.sampled_from(list(CONDITIONS)), clauses=_all_clauses)
@example([[(1, 1, "a"), (2, 2, "b")], [(None, 3, "a")]], [(1, 9, "c"), (5, 5, "b")], "t.id = s.id", _UPSERT)
@example([[(1, 1, "a"), (1, 2, "b")], [(3, 3, "a")]], [(1, 9, "c")], "t.id = s.id", _DELETE)
def test_any_merge_does_what_the_model_does(
    spark: SparkSession, vectors: bool, feed: bool, files: Any, source: Any, condition: str, clauses: Any
) -> None:
    if not clauses:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = TableMaker(Path(folder), vectors)(*filter(None, files), properties=FEED if feed else None)
        frame = spark.createDataFrame(source, "id int, v int, p string").alias("s")
        asked = [MergeClause(c.kind, c.action, c.condition, dict(c.values)) for c in clauses]
        before = contents(path)
        try:
            expected = merge_model([row for file in files for row in file], source, condition, clauses)
        except RepeatedError:
            with pytest.raises(RepeatedMatchError):
                execute_merge(spark, path, frame, condition, asked, target_alias="t")
            assert contents(path) == before
            return
        done = execute_merge(spark, path, frame, condition, asked, target_alias="t")
        assert contents(path) == sorted(expected.rows, key=repr)
        assert done["numSourceRows"] == len(source)
        counted = (done.rows_updated, done.rows_deleted, done.rows_inserted)
        assert counted == (expected.updated, expected.deleted, expected.inserted)
        assert done.committed == bool(expected.changes)
        if feed and done.committed:
            assert changes_of(path, done.version) == sorted(expected.changes, key=repr)
