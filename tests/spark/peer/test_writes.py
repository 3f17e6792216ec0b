"""Appends and every kind of overwrite give the same table as delta-spark's, readable both ways."""

from __future__ import annotations

from side_by_side import Pair, Step

PARTS = "SELECT id, concat('v', id) AS v, id % 3 AS p FROM range({0}, {1})"


def rows(first: int, last: int) -> str:
    return PARTS.format(first, last)


def test_appends_and_overwrites_of_partitions_end_equal(pair: Pair) -> None:
    partitioned = {"partition_by": ["p"]}
    pair.run(
        Step(rows(0, 9), partitioned),
        Step(rows(9, 12), {"mode": "append"}),
        Step("SELECT 7L AS id, 'n' AS v, 1L AS p", {"mode": "overwrite", "partition_overwrite": "dynamic"}),
        Step("SELECT 8L AS id, 'r' AS v, 2L AS p", {"mode": "overwrite", "replace_where": "p = 2"}),
        Step("SELECT 1L AS id, 'bad' AS v, 0L AS p", {"mode": "overwrite", "replace_where": "p = 2"}),
        Step(
            "SELECT 3L AS id, 'd' AS v, 0L AS p", {"mode": "overwrite", "replace_where": "id < 4 AND p = 0"}
        ),
        Step(rows(0, 3), {"mode": "error"}),
        Step(rows(0, 3), {"mode": "ignore"}),
        Step("SELECT 50L AS id, 0L AS p", {"mode": "append"}),
        Step(rows(20, 24), {"mode": "overwrite"}),
    )
    pair.exchange("INSERT INTO {t} VALUES (100, 'x', 7)", "INSERT OVERWRITE {t} SELECT 1, 'y', 2")
    ours, theirs = pair.operations()
    assert ours == theirs


def test_schema_grows_and_is_replaced_alike(pair: Pair) -> None:
    pair.run(
        Step("SELECT 1 AS id, 'a' AS v, named_struct('x', 1) AS s", {"mode": "append"}),
        Step("SELECT 2 AS id, 1.5D AS extra", {"mode": "append"}),
        Step("SELECT 2 AS id, 1.5D AS extra", {"mode": "append", "merge_schema": True}),
        Step("SELECT 3 AS id, named_struct('x', 2, 'y', 'z') AS s", {"mode": "append", "merge_schema": True}),
        Step("SELECT 2147483648L AS id", {"mode": "append"}),
        Step("SELECT 4L AS id, 'text' AS extra", {"mode": "append", "merge_schema": True}),
        Step("SELECT 'only' AS other", {"mode": "overwrite"}),
        Step(
            "SELECT 'only' AS other, 5 AS id",
            {"mode": "overwrite", "overwrite_schema": True, "partition_by": ["id"]},
        ),
    )
    pair.exchange("INSERT INTO {t} (id, other) VALUES (6, 'more')")


def test_inserts_end_equal(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE {t} (id BIGINT, v STRING, d DATE, p INT) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 'a', DATE '2024-01-01', 1), (2, NULL, NULL, 2)",
        "INSERT INTO {t} (p, id) SELECT 3, id FROM range(3, 6)",
        "INSERT INTO {t} BY NAME SELECT 2 AS p, 'named' AS v, 9L AS id",
        "INSERT INTO {t} SELECT 1",
        "INSERT INTO {t} VALUES ('no number', 'a', NULL, 1)",
        "INSERT INTO {t} REPLACE WHERE p = 2 SELECT 20, 'r', NULL, 2",
        "INSERT OVERWRITE {t} PARTITION (p = 3) SELECT 30, 's', NULL",
        "INSERT INTO {t} SELECT id, v, d, 5 FROM {t} WHERE id < 10",
        "INSERT OVERWRITE {t} SELECT id * 2, v, d, p FROM {t}",
    )
    pair.exchange()
