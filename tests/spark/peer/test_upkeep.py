"""Optimize, z-order, purge, vacuum, restore, history and details: the same rows, schemas and words."""

from __future__ import annotations

from side_by_side import Pair, Step

from distributary.delta.table import DeltaTable

CREATE = (
    "CREATE TABLE {t} (id BIGINT NOT NULL COMMENT 'the id', v STRING, p INT) USING delta PARTITIONED BY (p) "
    "COMMENT 'a table' TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'who' = 'us')"
)


def insert(first: int) -> str:
    return f"INSERT INTO {{t}} SELECT id, concat('v', id), id % 2 FROM range({first}, {first + 4})"


def test_upkeep_keeps_rows_and_answers_alike(pair: Pair) -> None:
    pair.run(
        CREATE,
        insert(0),
        insert(4),
        insert(8),
        "DELETE FROM {t} WHERE id IN (1, 2, 9)",
        "OPTIMIZE {t} WHERE p = 0",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id = 5",
        "REORG TABLE {t} APPLY (PURGE)",
        "OPTIMIZE {t} ZORDER BY (id, v)",
        "OPTIMIZE {t} WHERE id = 3",
        "OPTIMIZE {t} ZORDER BY (p)",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "RESTORE TABLE {t} TO VERSION AS OF 99",
    )
    pair.exchange("OPTIMIZE {t}")
    ours, theirs = pair.operations()
    assert ours == theirs
    for text in ("DESCRIBE HISTORY {t} LIMIT 2", "DESCRIBE DETAIL {t}"):
        ours, theirs = pair.both(text)
        assert ours["schema"] == theirs["schema"]
        assert len(ours["rows"]) == len(theirs["rows"])
    same = ("format", "name", "description", "partitionColumns", "clusteringColumns", "numFiles")
    assert {key: ours["rows"][0][key] for key in same} == {key: theirs["rows"][0][key] for key in same}
    for text in ("DESCRIBE TABLE {t}", "SHOW COLUMNS IN {t}"):
        ours, theirs = pair.both(text)
        assert ours == theirs


def test_metrics_have_the_schema_of_delta_spark(pair: Pair) -> None:
    pair.run(CREATE, insert(0), insert(4))
    for text in ("OPTIMIZE {t}", "RESTORE TABLE {t} TO VERSION AS OF 1", "VACUUM {t} DRY RUN"):
        ours, theirs = pair.both(text)
        assert ours["schema"] == theirs["schema"], text
        assert len(ours["rows"]) == len(theirs["rows"]), text


def test_vacuumed_tables_are_read_and_changed_by_the_other(pair: Pair) -> None:
    pair.run(
        Step("SELECT id, id % 2 AS p FROM range(6)", {"partition_by": ["p"]}),
        Step("SELECT id, id % 2 AS p FROM range(6, 9)", {"mode": "overwrite"}),
    )
    for text in ("VACUUM {t} RETAIN 0 HOURS DRY RUN", "VACUUM {t} RETAIN 0 HOURS"):
        with pair.short_retention_allowed():
            ours, theirs = pair.both(text)
        assert ours["schema"] == theirs["schema"]
        assert ours["rows"]
    active = DeltaTable(pair.ours).snapshot().files().num_rows
    assert len(list(pair.ours.rglob("*.parquet"))) == active
    pair.exchange("DELETE FROM {t} WHERE id = 7")
