"""Merges of many combinations of clauses give the same rows and counts as delta-spark's."""

from __future__ import annotations

import itertools

import pytest
from side_by_side import Pair

MATCHED = (
    "",
    "WHEN MATCHED THEN UPDATE SET *",
    "WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET t.v = s.v, n = t.n + s.n",
    "WHEN MATCHED AND t.n > 3 THEN UPDATE SET n = NULL, v = lower(t.v) WHEN MATCHED AND t.n < 2 THEN DELETE",
)
NOT_MATCHED = (
    "",
    "WHEN NOT MATCHED THEN INSERT *",
    "WHEN NOT MATCHED AND s.n % 2 = 0 THEN INSERT (id, n) VALUES (s.id, s.n * 100) "
    "WHEN NOT MATCHED AND s.id > 10 THEN INSERT *",
)
BY_SOURCE = (
    "",
    "WHEN NOT MATCHED BY SOURCE AND t.n > 8 THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE AND t.v = 'v1' THEN UPDATE SET v = concat(t.v, '!') "
    "WHEN NOT MATCHED BY SOURCE AND t.id % 5 = 4 THEN DELETE",
)
CREATE = (
    "CREATE TABLE {{t}} (id BIGINT, v STRING, n INT) USING delta "
    "TBLPROPERTIES ('delta.enableDeletionVectors' = '{dv}')"
)
SOURCE = (
    "(SELECT id, if(id % 4 = 1, NULL, concat('s', id)) AS v, int(id % 7) AS n "
    "FROM range({first}, {last}, {step})) s"
)


def merges() -> list[str]:
    """A statement for each choice of clauses of two or three kinds, over other source rows each time."""
    found: list[str] = []
    combinations = [c for c in itertools.product(MATCHED, NOT_MATCHED, BY_SOURCE) if sum(map(bool, c)) >= 2]
    for at, clauses in enumerate(combinations):
        source = SOURCE.format(first=at % 5, last=at + 9, step=1 + at % 3)
        found.append(f"MERGE INTO {{t}} t USING {source} ON t.id = s.id {' '.join(filter(None, clauses))}")
    return found


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_every_combination_of_clauses_changes_the_same_rows(pair: Pair, vectors: str) -> None:
    chosen = merges()[::6] if vectors == "true" else merges()[3::6]
    pair.run(
        CREATE.format(dv=vectors),
        "INSERT INTO {t} SELECT id, concat('v', id % 3), int(id) FROM range(10)",
        *chosen,
    )
    pair.exchange("MERGE INTO {t} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")


def test_hard_cases_of_merges_end_alike(pair: Pair) -> None:
    """Two source rows for one row fail, null keys match nothing, `<=>` matches them, the schema grows."""
    pair.run(
        CREATE.format(dv="true"),
        "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (NULL, 'c', 3)",
        "MERGE INTO {t} t USING (SELECT explode(array(1L, 1L)) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = 0",
        "MERGE INTO {t} t USING (SELECT explode(array(1L, 1L)) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING (SELECT CAST(NULL AS BIGINT) AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'null')",
        "MERGE INTO {t} t USING (SELECT CAST(NULL AS BIGINT) AS id, 'one' AS w) s "
        "ON t.id <=> s.id AND t.v = 'c' WHEN MATCHED THEN UPDATE SET v = s.w",
        "MERGE INTO {t} t USING (SELECT 2L AS id, 'new' AS v, 5 AS n, true AS extra) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT explode(array(2L, 8L)) AS id, true AS extra) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO {t} t USING {t} s ON t.id = s.id AND t.id = 8 WHEN MATCHED THEN UPDATE SET v = s.id",
        "MERGE INTO {t} USING (SELECT 2L AS key) ON id = key WHEN MATCHED THEN DELETE",
    )
    pair.exchange()
