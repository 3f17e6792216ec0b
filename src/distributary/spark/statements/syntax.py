"""The statements that are carried out here, as values; expressions and queries are texts for Spark."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

_VERSION_IN_PATH: Final = re.compile(r"(?P<path>.*)@(?:[vV](?P<version>\d+)|(?P<moment>\d{17}))", re.DOTALL)


class TableName(msgspec.Struct, frozen=True):
    """A table as a statement names it: ``delta.`path` `` or a registered name."""

    parts: tuple[str, ...]

    @property
    def path(self) -> str | None:
        """The path, where the table is named by it."""
        return self.parts[1] if len(self.parts) == 2 and self.parts[0].lower() == "delta" else None

    @property
    def qualifier(self) -> str | None:
        """What qualifies its columns where it has no alias; nothing for a path."""
        return None if self.path is not None else self.parts[-1]

    def __str__(self) -> str:
        return ".".join(f"`{part}`" if not part.isidentifier() else part for part in self.parts)


class AsOf(msgspec.Struct, frozen=True):
    """An older version: a number, or the text of an expression that gives a time."""

    version: int | None = None
    timestamp: str | None = None


class Assignment(msgspec.Struct, frozen=True):
    """One column and the text of its value."""

    column: tuple[str, ...]
    value: str


ClauseKind = Literal["matched", "not_matched", "not_matched_by_source"]
ClauseAction = Literal["update", "update_all", "delete", "insert", "insert_all"]


class WhenClause(msgspec.Struct, frozen=True):
    """One WHEN … THEN of a merge."""

    kind: ClauseKind
    action: ClauseAction
    condition: str | None = None
    assignments: tuple[Assignment, ...] = ()


class Merge(msgspec.Struct, frozen=True):
    """MERGE INTO."""

    table: TableName
    alias: str | None
    source: str
    source_alias: str | None
    condition: str
    clauses: tuple[WhenClause, ...]
    schema_evolution: bool = False


class Update(msgspec.Struct, frozen=True):
    """UPDATE … SET … WHERE."""

    table: TableName
    alias: str | None
    assignments: tuple[Assignment, ...]
    condition: str | None = None


class Delete(msgspec.Struct, frozen=True):
    """DELETE FROM … WHERE, and TRUNCATE TABLE."""

    table: TableName
    alias: str | None = None
    condition: str | None = None


class Insert(msgspec.Struct, frozen=True):
    """INSERT INTO or OVERWRITE, with the query that gives the rows."""

    table: TableName
    query: str
    overwrite: bool = False
    columns: tuple[str, ...] = ()
    by_name: bool = False
    replace_where: str | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    schema_evolution: bool = False


class ColumnDefinition(msgspec.Struct, frozen=True):
    """A column of CREATE TABLE or ADD COLUMNS."""

    path: tuple[str, ...]
    type_text: str
    nullable: bool = True
    comment: str | None = None
    generated: str | None = None
    default: str | None = None
    first: bool = False
    after: str | None = None


CreateMode = Literal["create", "if_not_exists", "replace", "create_or_replace"]


class CreateTable(msgspec.Struct, frozen=True):
    """CREATE TABLE and REPLACE TABLE, with columns or with a query."""

    table: TableName
    mode: CreateMode = "create"
    columns: tuple[ColumnDefinition, ...] = ()
    provider: str | None = None
    location: str | None = None
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    comment: str | None = None
    query: str | None = None


class CloneTable(msgspec.Struct, frozen=True):
    """CREATE TABLE … SHALLOW or DEEP CLONE."""

    table: TableName
    source: TableName
    shallow: bool
    mode: CreateMode = "create"
    as_of: AsOf | None = None
    location: str | None = None
    properties: dict[str, str] = {}


class Optimize(msgspec.Struct, frozen=True):
    """OPTIMIZE … WHERE … ZORDER BY, and REORG TABLE … APPLY (PURGE)."""

    table: TableName
    where: str | None = None
    z_order_by: tuple[str, ...] = ()
    full: bool = False
    purge: bool = False


class Vacuum(msgspec.Struct, frozen=True):
    """VACUUM … RETAIN n HOURS DRY RUN."""

    table: TableName
    retention_hours: float | None = None
    dry_run: bool = False
    lite: bool = False


class Restore(msgspec.Struct, frozen=True):
    """RESTORE TABLE … TO VERSION or TIMESTAMP AS OF."""

    table: TableName
    as_of: AsOf


class Describe(msgspec.Struct, frozen=True):
    """DESCRIBE DETAIL, HISTORY or TABLE."""

    table: TableName
    what: Literal["detail", "history", "table", "table_extended", "column", "properties", "columns"]
    limit: int | None = None
    detail: str | None = None


class ConvertToDelta(msgspec.Struct, frozen=True):
    """CONVERT TO DELTA parquet.`path` PARTITIONED BY (…)."""

    path: str
    partition_columns: str | None = None


class Generate(msgspec.Struct, frozen=True):
    """GENERATE mode FOR TABLE."""

    table: TableName
    mode: str


class DropTable(msgspec.Struct, frozen=True):
    """DROP TABLE of a registered name: the name goes, the files stay."""

    table: TableName
    if_exists: bool = False


AlterKind = Literal[
    "add_columns",
    "drop_columns",
    "rename_column",
    "alter_column",
    "add_constraint",
    "drop_constraint",
    "set_properties",
    "unset_properties",
    "cluster_by",
    "drop_feature",
]


class AlterTable(msgspec.Struct, frozen=True):
    """ALTER TABLE and what it changes; `arguments` are those of the change."""

    table: TableName
    kind: AlterKind
    arguments: dict[str, Any] = {}


class Query(msgspec.Struct, frozen=True):
    """Any other statement, for Spark."""

    text: str


Statement = (
    Merge
    | Update
    | Delete
    | Insert
    | CreateTable
    | CloneTable
    | Optimize
    | Vacuum
    | Restore
    | Describe
    | ConvertToDelta
    | Generate
    | DropTable
    | AlterTable
    | Query
)


def split_version(path: str) -> tuple[str, AsOf | None]:
    """A path and the version that its end names: ``/lake/t@v12`` or ``/lake/t@yyyyMMddHHmmssSSS``."""
    found = _VERSION_IN_PATH.fullmatch(path)
    if found is None:
        return path, None
    if found["version"] is not None:
        return found["path"], AsOf(version=int(found["version"]))
    text = found["moment"]
    iso = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:]}"
    return found["path"], AsOf(timestamp=f"'{iso}'")
