"""Constraints, generated columns, NOT NULL, defaults, column mapping and ALTER TABLE act alike."""

from __future__ import annotations

from side_by_side import Pair


def test_rules_refuse_and_fill_alike(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE {t} (id BIGINT NOT NULL, at TIMESTAMP, "
        "day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), twice BIGINT GENERATED ALWAYS AS (id * 2), "
        "v VARCHAR(3)) USING delta PARTITIONED BY (day)",
        "INSERT INTO {t} (id, at, v) VALUES (1, TIMESTAMP '2024-01-31 12:00:00Z', 'abc')",
        "INSERT INTO {t} (id, at, day, twice) "
        "VALUES (2, TIMESTAMP '2024-01-31 12:00:00Z', DATE '2024-01-31', 4)",
        "INSERT INTO {t} (id, twice) VALUES (3, 5)",
        "INSERT INTO {t} (at) VALUES (NULL)",
        "INSERT INTO {t} (id, v) VALUES (4, 'long')",
        "ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 100)",
        "ALTER TABLE {t} ADD CONSTRAINT none CHECK (id < 0)",
        "INSERT INTO {t} (id) VALUES (100)",
        "INSERT INTO {t} (id) VALUES (99)",
        "UPDATE {t} SET id = id + 1 WHERE id = 99",
        "UPDATE {t} SET id = 50, at = NULL WHERE id = 99",
        "MERGE INTO {t} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 200",
        "ALTER TABLE {t} DROP CONSTRAINT small",
        "INSERT INTO {t} (id) VALUES (100)",
        "ALTER TABLE {t} ALTER COLUMN at SET NOT NULL",
    )
    pair.exchange("INSERT INTO {t} (id) VALUES (7)")


def test_tables_are_altered_alike(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE {t} (id INT, v STRING, s STRUCT<x: INT>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {t} VALUES (1, 'a', named_struct('x', 1))",
        "ALTER TABLE {t} ADD COLUMNS (`odd name` INT COMMENT 'c' AFTER id, s.y STRING)",
        "INSERT INTO {t} VALUES (2, 20, 'b', named_struct('x', 2, 'y', 'z'))",
        "ALTER TABLE {t} RENAME COLUMN v TO text",
        "ALTER TABLE {t} DROP COLUMN `odd name`",
        "UPDATE {t} SET text = 'changed' WHERE id = 1",
        "DELETE FROM {t} WHERE text = 'b'",
        "ALTER TABLE {t} ALTER COLUMN id COMMENT 'number'",
        "ALTER TABLE {t} ALTER COLUMN text FIRST",
        "INSERT INTO {t} VALUES ('c', 3, NULL)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE {t} ALTER COLUMN text SET DEFAULT 'none'",
        "INSERT INTO {t} (id) VALUES (4)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "INSERT INTO {t} (id) VALUES (1099511627776)",
        "ALTER TABLE {t} ALTER COLUMN id TYPE STRING",
        "ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.enableTypeWidening')",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 3L AS id, 'n' AS fresh) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "OPTIMIZE {t}",
    )
    pair.exchange("UPDATE {t} SET s.x = 5", "INSERT INTO {t} (id, fresh) VALUES (9, 'f')")
    ours, theirs = pair.both("DESCRIBE TABLE {t}")
    assert ours == theirs


def test_tables_are_created_and_replaced_alike(pair: Pair) -> None:
    """By names, since delta-spark cannot replace a table that is named by its path."""
    pair.run(
        "CREATE TABLE {n} USING delta PARTITIONED BY (p) COMMENT 'c' LOCATION '{p}' "
        "AS SELECT id, id % 2 AS p FROM range(4)",
        "CREATE TABLE {n} (id INT) USING delta LOCATION '{p}'",
        "CREATE TABLE IF NOT EXISTS {n} (id INT) USING delta LOCATION '{p}'",
        "CREATE OR REPLACE TABLE {n} (a STRING NOT NULL, b DECIMAL(10, 2)) USING delta LOCATION '{p}'",
        "INSERT INTO {n} VALUES ('x', 1.5)",
        "CREATE OR REPLACE TABLE {n} USING delta LOCATION '{p}' AS SELECT 1 AS one",
        "INSERT INTO {n} SELECT one + 1 FROM {n}",
        "REPLACE TABLE {n} (z DATE) USING delta LOCATION '{p}'",
        "UPDATE {n} SET z = NULL",
    )
    pair.exchange("INSERT INTO {t} VALUES (DATE '2024-01-01')", "DELETE FROM {t}")
    ours, theirs = pair.operations()
    assert ours == theirs
