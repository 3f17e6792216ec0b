"""Tables of a few rows, made by the engine, and their contents in a form that compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import distributary as ds

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.int32()), ("p", pa.string())])
FEED = {"delta.enableChangeDataFeed": "true"}

Row = tuple[Any, ...]


@dataclass(frozen=True)
class TableMaker:
    """Makes tables below a folder, all changed in the same way."""

    folder: Path
    vectors: bool

    def __call__(
        self,
        *files: Sequence[Row],
        schema: pa.Schema = SCHEMA,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> str:
        """A table with one file (a partition) for each sequence of rows; gives its path."""
        path = str(self.folder / f"table-{len(list(self.folder.iterdir()))}")
        way = {"delta.enableDeletionVectors": str(self.vectors).lower()}
        table = ds.DeltaTable.create(
            path, schema, properties={**way, **(properties or {})}, partition_by=partition_by
        )
        for rows in files:
            table.append(arrow_rows(rows, schema))
        return path


def arrow_rows(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows as Arrow."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def contents(path: str, version: int | None = None) -> list[Row]:
    """The rows of a table, sorted."""
    return sorted_rows(ds.DeltaTable(path).snapshot(version).to_arrow())


def sorted_rows(table: pa.Table) -> list[Row]:
    """Rows of Arrow as tuples in a fixed order."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def changes_of(path: str, version: int) -> list[Row]:
    """What the change feed tells of a version: the type of change and the row."""
    table = ds.DeltaTable(path).changes(starting_version=version, ending_version=version).to_arrow()
    names = [name for name in table.column_names if not name.startswith("_commit")]
    names.sort(key=lambda name: name != "_change_type")
    return sorted_rows(table.select(names))


def last_operation(path: str) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """Name, parameters and metrics of the last commit."""
    info = ds.DeltaTable(path).history(1)[0].commit_info
    return info["operation"], info["operationParameters"], info["operationMetrics"]
