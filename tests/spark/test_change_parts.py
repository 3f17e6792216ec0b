"""The parts of a change that need no Spark: bitmaps, names, statistics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.log.actions import Add
from distributary.errors import InvalidInputError
from distributary.spark.assignments import split_name
from distributary.spark.merge_clauses import MergeClause, allows_repeated_matches
from distributary.spark.row_changes import FileChanges, loosened, removed
from distributary.spark.touched_rows import bucket_rows


@given(st.sets(st.integers(0, 32767), max_size=50), st.integers(0, 1 << 40))
def test_a_bitmap_of_spark_gives_back_its_rows(places: set[int], bucket: int) -> None:
    bits = np.zeros(32768, np.uint8)
    bits[list(places)] = 1
    packed = np.packbits(bits, bitorder="little").tobytes()
    assert bucket_rows(bucket, packed).tolist() == [(bucket << 15) + place for place in sorted(places)]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ("a",)),
        (" a . b ", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`tick``ed`", ("tick`ed",)),
        ("x.`y z`", ("x", "y z")),
    ],
)
def test_names_are_split_at_their_points(name: str, parts: tuple[str, ...]) -> None:
    assert split_name(name) == parts


@pytest.mark.parametrize("name", ["", "a.", ".a", "a..b", "`a", "`a`b"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        split_name(name)


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, '{"numRecords":5,"tightBounds":false}'),
        ("{}", '{"tightBounds":false}'),
        ('{"numRecords":5,"minValues":{"d":0.10000000000000000001}}',
         '{"tightBounds":false,"numRecords":5,"minValues":{"d":0.10000000000000000001}}'),
        ('{"numRecords":5,"tightBounds": true}', '{"numRecords":5,"tightBounds":false}'),
        ('{"numRecords":5,"minValues":{"s":"\\"tightBounds\\":true"}}',
         '{"tightBounds":false,"numRecords":5,"minValues":{"s":"\\"tightBounds\\":true"}}'),
    ],
)  # fmt: skip
def test_loosened_statistics_keep_every_digit(stats: str | None, expected: str) -> None:
    assert loosened(Add("f", {}, 1, 1, True, stats=stats), 5) == expected


def test_which_source_row_matches_matters_unless_rows_are_deleted_anyway() -> None:
    delete = MergeClause("matched", "delete")
    some = MergeClause("matched", "delete", "t.v > 1")
    insert = MergeClause("not_matched", "insert_all")
    assert [allows_repeated_matches(asked) for asked in ([delete, insert], [insert], [some])] == [
        True,
        True,
        False,
    ]


def test_vectors_are_counted_as_they_come_and_go() -> None:
    add = Add("f", {}, 10, 1, True)
    changes = FileChanges(marked=(add,), removes=removed([add, Add("g", {}, 3, 1, True)]))
    assert changes.vector_counts("num") == {
        "numDeletionVectorsAdded": 1,
        "numDeletionVectorsRemoved": 0,
        "numDeletionVectorsUpdated": 0,
    }
    assert [remove.path for remove in changes.removed_files] == ["g"]
