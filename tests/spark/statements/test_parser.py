"""Statements are read as written: every clause, quotes and comments respected, errors with their place."""

from __future__ import annotations

import pytest

from distributary.delta.schema.data_types import LONG, STRING, StructField, StructType
from distributary.spark.errors import StatementError
from distributary.spark.statements.parameters import with_parameters
from distributary.spark.statements.parser import parse_statement
from distributary.spark.statements.row_execution import with_defaults
from distributary.spark.statements.syntax import (
    AlterTable,
    AsOf,
    Assignment,
    CloneTable,
    ColumnDefinition,
    ConvertToDelta,
    CreateTable,
    Delete,
    Describe,
    DropTable,
    Generate,
    Insert,
    Merge,
    Optimize,
    Query,
    Restore,
    TableName,
    Update,
    Vacuum,
    WhenClause,
    split_version,
)

T = TableName(("delta", "/lake/t"))
AT = "delta.`/lake/t`"


def test_merge_with_every_clause_is_read() -> None:
    text = f"""
    -- a comment; with 'quotes'
    MERGE WITH SCHEMA EVOLUTION INTO {AT} AS t
    USING (SELECT * FROM s JOIN u ON s.id = u.id) s  /* WHEN MATCHED */
    ON t.id = s.id AND t.name <> 'WHEN MATCHED'
    WHEN MATCHED AND CASE WHEN s.gone THEN true ELSE false END THEN DELETE
    WHEN MATCHED THEN UPDATE SET t.a = s.a + 1, `b c` = concat(s.b, ',', 'x')
    WHEN NOT MATCHED BY TARGET AND s.id > 3 THEN INSERT (id, t.a) VALUES (s.id, if(s.a > 1, 1, 2))
    WHEN NOT MATCHED THEN INSERT *
    WHEN NOT MATCHED BY SOURCE AND t.a IS NULL THEN UPDATE SET a = 0
    WHEN NOT MATCHED BY SOURCE THEN DELETE;
    """
    assert parse_statement(text) == Merge(
        T,
        "t",
        "(SELECT * FROM s JOIN u ON s.id = u.id) s",
        "s",
        "t.id = s.id AND t.name <> 'WHEN MATCHED'",
        (
            WhenClause("matched", "delete", "CASE WHEN s.gone THEN true ELSE false END"),
            WhenClause(
                "matched",
                "update",
                None,
                (Assignment(("t", "a"), "s.a + 1"), Assignment(("b c",), "concat(s.b, ',', 'x')")),
            ),
            WhenClause(
                "not_matched",
                "insert",
                "s.id > 3",
                (Assignment(("id",), "s.id"), Assignment(("t", "a"), "if(s.a > 1, 1, 2)")),
            ),
            WhenClause("not_matched", "insert_all"),
            WhenClause("not_matched_by_source", "update", "t.a IS NULL", (Assignment(("a",), "0"),)),
            WhenClause("not_matched_by_source", "delete"),
        ),
        schema_evolution=True,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"update {AT} set a = 1, b = b || ';'",
            Update(T, None, (Assignment(("a",), "1"), Assignment(("b",), "b || ';'"))),
        ),
        (
            "UPDATE orders o SET o.x.y = 2 WHERE o.id = 1",
            Update(TableName(("orders",)), "o", (Assignment(("o", "x", "y"), "2"),), "o.id = 1"),
        ),
        (f"DELETE FROM {AT}", Delete(T)),
        (f"DELETE FROM {AT} t WHERE t.a IN (1, 2)", Delete(T, "t", "t.a IN (1, 2)")),
        (f"TRUNCATE TABLE {AT}", Delete(T)),
        (f"INSERT INTO {AT} VALUES (1, 'a')", Insert(T, "VALUES (1, 'a')")),
        (f"INSERT INTO TABLE {AT} (b, a) SELECT 1, 2", Insert(T, "SELECT 1, 2", columns=("b", "a"))),
        (f"INSERT INTO {AT} (SELECT 1)", Insert(T, "(SELECT 1)")),
        (
            f"INSERT OVERWRITE {AT} BY NAME SELECT 1 AS a",
            Insert(T, "SELECT 1 AS a", overwrite=True, by_name=True),
        ),
        (
            f"INSERT INTO {AT} REPLACE WHERE d > '2024' AND e = 1 SELECT 1",
            Insert(T, "SELECT 1", replace_where="d > '2024' AND e = 1"),
        ),
        (
            f"INSERT OVERWRITE TABLE {AT} PARTITION (p = 'x', q) SELECT 1",
            Insert(T, "SELECT 1", overwrite=True, partition=(("p", "'x'"), ("q", None))),
        ),
        (f"OPTIMIZE {AT}", Optimize(T)),
        (f"OPTIMIZE {AT} WHERE day >= '2024' ZORDER BY (a, b.c)", Optimize(T, "day >= '2024'", ("a", "b.c"))),
        ("OPTIMIZE '/lake/t' ZORDER BY a, b", Optimize(T, None, ("a", "b"))),
        (f"REORG TABLE {AT} WHERE p = 1 APPLY (PURGE)", Optimize(T, "p = 1", purge=True)),
        (f"VACUUM {AT}", Vacuum(T)),
        (f"VACUUM {AT} RETAIN 0.5 HOURS DRY RUN", Vacuum(T, 0.5, dry_run=True)),
        ("VACUUM '/lake/t' RETAIN 24 HOURS", Vacuum(T, 24.0)),
        (f"RESTORE TABLE {AT} TO VERSION AS OF 3", Restore(T, AsOf(version=3))),
        (
            f"RESTORE {AT} TO TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY;",
            Restore(T, AsOf(timestamp="current_timestamp() - INTERVAL 1 DAY")),
        ),
        (f"DESCRIBE DETAIL {AT}", Describe(T, "detail")),
        (f"DESC HISTORY {AT} LIMIT 3", Describe(T, "history", 3)),
        (f"DESCRIBE TABLE EXTENDED {AT}", Describe(T, "table_extended")),
        (f"DESCRIBE {AT} a.b", Describe(T, "column", detail="a.b")),
        (
            f"SHOW TBLPROPERTIES {AT} ('delta.appendOnly')",
            Describe(T, "properties", detail="delta.appendOnly"),
        ),
        (f"SHOW COLUMNS IN {AT}", Describe(T, "columns")),
        (
            "CONVERT TO DELTA parquet.`/x` PARTITIONED BY (p int, q string)",
            ConvertToDelta("/x", "p int, q string"),
        ),
        (f"GENERATE symlink_format_manifest FOR TABLE {AT}", Generate(T, "symlink_format_manifest")),
        ("DROP TABLE IF EXISTS orders", DropTable(TableName(("orders",)), if_exists=True)),
        (
            f"CREATE TABLE delta.`/c` SHALLOW CLONE {AT} VERSION AS OF 2",
            CloneTable(TableName(("delta", "/c")), T, True, as_of=AsOf(version=2)),
        ),
    ],
)
def test_statement_is_read(text: str, expected: object) -> None:
    assert parse_statement(text) == expected


def test_create_table_with_every_part_is_read() -> None:
    text = """
    CREATE OR REPLACE TABLE orders (
      id BIGINT NOT NULL COMMENT 'it''s the id',
      price DECIMAL(10, 2) DEFAULT 0.0,
      parts STRUCT<a: INT, b: ARRAY<MAP<STRING, INT>>>,
      `odd name` varchar(10),
      day DATE GENERATED ALWAYS AS (CAST(at AS DATE)) COMMENT 'd'
    ) USING delta
    PARTITIONED BY (day) COMMENT "all orders" LOCATION '/lake/orders'
    TBLPROPERTIES ('delta.appendOnly' = 'true', owner.name = us, n = -3)
    AS SELECT 1
    """
    assert parse_statement(text) == CreateTable(
        TableName(("orders",)),
        "create_or_replace",
        (
            ColumnDefinition(("id",), "BIGINT", nullable=False, comment="it's the id"),
            ColumnDefinition(("price",), "DECIMAL(10, 2)", default="0.0"),
            ColumnDefinition(("parts",), "STRUCT<a: INT, b: ARRAY<MAP<STRING, INT>>>"),
            ColumnDefinition(("odd name",), "varchar(10)"),
            ColumnDefinition(("day",), "DATE", comment="d", generated="CAST(at AS DATE)"),
        ),
        "delta",
        "/lake/orders",
        ("day",),
        (),
        {"delta.appendOnly": "true", "owner.name": "us", "n": "-3"},
        "all orders",
        "SELECT 1",
    )


@pytest.mark.parametrize(
    ("change", "kind", "arguments"),
    [
        (
            "ADD COLUMNS (x int COMMENT 'c' AFTER y, z string FIRST)",
            "add_columns",
            {
                "columns": (
                    ColumnDefinition(("x",), "int", comment="c", after="y"),
                    ColumnDefinition(("z",), "string", first=True),
                )
            },
        ),
        ("ADD COLUMN a.b int", "add_columns", {"columns": (ColumnDefinition(("a", "b"), "int"),)}),
        ("DROP COLUMN x", "drop_columns", {"columns": (("x",),), "if_exists": False}),
        (
            "DROP COLUMNS IF EXISTS (x, y.z)",
            "drop_columns",
            {"columns": (("x",), ("y", "z")), "if_exists": True},
        ),
        ("RENAME COLUMN a.x TO y", "rename_column", {"column": ("a", "x"), "to": "y"}),
        ("ALTER COLUMN x TYPE bigint", "alter_column", {"column": ("x",), "type": "bigint"}),
        ("ALTER COLUMN x COMMENT 'c'", "alter_column", {"column": ("x",), "comment": "c"}),
        ("ALTER COLUMN x SET NOT NULL", "alter_column", {"column": ("x",), "nullable": False}),
        ("ALTER COLUMN x SET DEFAULT 1 + 1", "alter_column", {"column": ("x",), "default": "1 + 1"}),
        ("ALTER COLUMN x AFTER y", "alter_column", {"column": ("x",), "after": "y"}),
        (
            "CHANGE COLUMN x x bigint COMMENT 'c'",
            "alter_column",
            {"column": ("x",), "type": "bigint", "comment": "c"},
        ),
        ("ADD CONSTRAINT pos CHECK (id > (0))", "add_constraint", {"name": "pos", "expression": "id > (0)"}),
        ("DROP CONSTRAINT IF EXISTS pos", "drop_constraint", {"name": "pos", "if_exists": True}),
        (
            "SET TBLPROPERTIES (delta.appendOnly = true)",
            "set_properties",
            {"properties": {"delta.appendOnly": "true"}},
        ),
        (
            "UNSET TBLPROPERTIES IF EXISTS ('a', b.c)",
            "unset_properties",
            {"keys": ("a", "b.c"), "if_exists": True},
        ),
        ("CLUSTER BY (a, b)", "cluster_by", {"columns": ("a", "b")}),
        ("CLUSTER BY NONE", "cluster_by", {"columns": ()}),
        (
            "DROP FEATURE deletionVectors TRUNCATE HISTORY",
            "drop_feature",
            {"name": "deletionVectors", "truncate_history": True},
        ),
    ],
)
def test_change_of_a_table_is_read(change: str, kind: str, arguments: dict[str, object]) -> None:
    assert parse_statement(f"ALTER TABLE {AT} {change}") == AlterTable(T, kind, arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM delta.`/x` VERSION AS OF 3",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        "CREATE TABLE t (a int) USING parquet",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW v",
        "DESCRIBE QUERY SELECT 1",
        "SHOW TABLES",
        "SET x = 1",
    ],
)
def test_other_statement_is_left_to_spark(text: str) -> None:
    assert parse_statement(text) == Query(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("MERGE INTO t USING s ON a\nWHEN MATCHED THEN REMOVE", 2, 19, "UPDATE or DELETE"),
        ("MERGE INTO t USING s ON a", 1, 26, "WHEN"),
        ("UPDATE t SET a 1", 1, 16, "=="),
        ("DELETE t", 1, 8, "FROM"),
        ("RESTORE t TO 3", 1, 14, "VERSION AS OF"),
        ("OPTIMIZE t WHERE", 1, 17, "a condition"),
        ("VACUUM t RETAIN x HOURS", 1, 17, "a number of hours"),
        ("ALTER TABLE t EXPLODE", 1, 15, "ADD COLUMNS"),
        ("INSERT INTO t", 1, 14, "VALUES or SELECT"),
        ("CREATE TABLE delta.`/t` (a int) SOMEWHERE", 1, 33, "PARTITIONED BY"),
        ("DESCRIBE HISTORY t LIMIT few", 1, 26, "a whole number"),
    ],
)
def test_wrong_statement_is_refused_with_its_place(text: str, line: int, column: int, expected: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert expected in str(caught.value)
    assert str(caught.value).endswith("^")


def test_text_that_is_no_sql_is_refused() -> None:
    with pytest.raises(StatementError):
        parse_statement("DELETE FROM t WHERE a = 'open")


def test_parameters_become_literals_outside_of_quotes_and_types() -> None:
    text = "UPDATE t SET a = :a, b = ':a', c = v:a, d = cast(x as struct<a:int>) WHERE id = :id -- :a"
    found = with_parameters(text, {"a": "it's \\", "id": 2**40})
    assert found == (
        "UPDATE t SET a = 'it\\'s \\\\', b = ':a', c = v:a, d = cast(x as struct<a:int>) "
        "WHERE id = 1099511627776L -- :a"
    )
    assert with_parameters("SELECT ?, '?', ?", [None, True]) == "SELECT NULL, '?', true"


def test_version_at_the_end_of_a_path_is_split_off() -> None:
    assert split_version("/a/t@v12") == ("/a/t", AsOf(version=12))
    assert split_version("/a@b/t") == ("/a@b/t", None)
    path, older = split_version("/a/t@20240131120000123")
    assert (path, older) == ("/a/t", AsOf(timestamp="'2024-01-31T12:00:00.123'"))


def test_default_in_values_becomes_the_default_of_its_column() -> None:
    schema = StructType(
        (
            StructField("a", LONG, True, {"CURRENT_DEFAULT": "1 + 1"}),
            StructField("b", STRING),
            StructField("c", LONG),
        )
    )
    statement = parse_statement("INSERT INTO t (b, a) VALUES ('DEFAULT', default), (DEFAULT, f(1, 2)) AS x;")
    assert isinstance(statement, Insert)
    assert with_defaults(statement, schema) == "VALUES ('DEFAULT', 1 + 1), (NULL, f(1, 2)) AS x"
    plain = Insert(statement.table, "SELECT DEFAULT")
    assert with_defaults(plain, schema) == "SELECT DEFAULT"
