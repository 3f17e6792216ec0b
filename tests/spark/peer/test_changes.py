"""Deletes and updates change the same rows as delta-spark's, by marking rows and by rewriting files."""

from __future__ import annotations

import pytest
from side_by_side import Pair

CREATE = (
    "CREATE TABLE {{t}} (id BIGINT, v STRING, n INT, s STRUCT<x: INT, y: STRING>, p INT) USING delta "
    "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = '{dv}', "
    "'delta.enableChangeDataFeed' = 'true')"
)
FILL = (
    "INSERT INTO {t} SELECT id, concat('v', id), if(id % 4 = 0, NULL, int(id)), "
    "named_struct('x', int(id), 'y', 'y'), id % 3 FROM range(12)"
)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_are_changed_alike(pair: Pair, vectors: str) -> None:
    pair.run(
        CREATE.format(dv=vectors),
        FILL,
        "DELETE FROM {t} WHERE id = 3",
        "DELETE FROM {t} AS t WHERE t.n IS NULL AND t.p > 0",
        "DELETE FROM {t} WHERE p = 2",
        "DELETE FROM {t} WHERE id > 1000",
        "UPDATE {t} SET v = upper(v), n = n + 1 WHERE id BETWEEN 1 AND 7",
        "UPDATE {t} t SET t.s.x = t.id * 10, p = 9 WHERE t.id % 2 = 0",
        "UPDATE {t} SET n = 'no number'",
        "UPDATE {t} SET missing = 1",
        "UPDATE {t} SET v = NULL",
    )
    ours, theirs = pair.changes(1)
    assert ours == theirs
    pair.exchange("DELETE FROM {t} WHERE id = 9", "UPDATE {t} SET n = -1 WHERE p = 0")
    mine, other = pair.operations()
    assert mine == other
    pair.run("DELETE FROM {t}")
