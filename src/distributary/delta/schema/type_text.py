"""Types as people write them: `bigint`, `decimal(10,2)`, `array<struct<name:string,age:int>>`.

Reads the DDL of Spark SQL and Delta's own names, ignoring case, so that a column can be described on a
command line or in one argument. `str` of every Delta type reads back as that type. The columns of a table are
written as in CREATE TABLE: `id bigint not null, name string comment 'as written'`.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from distributary.delta.schema.arrow_schema import delta_type
from distributary.delta.schema.data_types import (
    BYTE,
    FLOAT,
    INTEGER,
    LONG,
    MAX_DEPTH,
    SHORT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    UnknownType,
    parse_type_name,
)
from distributary.errors import InvalidInputError

_SQL_NAMES: Final = {"bigint": LONG, "int": INTEGER, "smallint": SHORT, "tinyint": BYTE, "real": FLOAT}
_SIGNS: Final = "<>,:"
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z0-9_]+(?:\s*\([0-9,\s]*\))?|[<>,:])")
_NOT_NULL = re.compile(r"\s+not\s+null\b", re.IGNORECASE)
_COMMENT = re.compile(r"\s+comment\s+('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")", re.IGNORECASE)


def as_data_type(value: DataType | pa.DataType | str) -> DataType:
    """A Delta type from itself, from an Arrow type or from its text."""
    if isinstance(value, str):
        return parse_type_text(value)
    return delta_type(value) if isinstance(value, pa.DataType) else value


def parse_type_text(text: str) -> DataType:
    """A Delta type from Spark's DDL."""
    parser = _TypeParser(text)
    found = parser.type(1)
    if text[parser.position :].strip():
        raise parser.refuse()
    return found


def parse_columns_text(text: str) -> StructType:
    """The columns of a table from Spark's DDL: `id bigint not null, name string comment 'as written'`."""
    parser = _TypeParser(text)
    fields = [parser.field(1)]
    while parser.accept(","):
        fields.append(parser.field(1))
    if text[parser.position :].strip():
        raise parser.refuse(what="list of columns")
    return _distinct(fields)


class _TypeParser:
    """One reading of a text, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def type(self, depth: int) -> DataType:
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"A type is nested deeper than {MAX_DEPTH} levels.")
        name = self.next()
        match name.lower():
            case "array":
                self.expect("<")
                element = self.type(depth + 1)
                contains_null = self.nullable()
                self.expect(">")
                return ArrayType(element, contains_null)
            case "map":
                self.expect("<")
                key = self.type(depth + 1)
                self.expect(",")
                value = self.type(depth + 1)
                contains_null = self.nullable()
                self.expect(">")
                return MapType(key, value, contains_null)
            case "struct":
                return self.struct(depth)
            case lower:
                return self.primitive(name, lower)

    def struct(self, depth: int) -> StructType:
        self.expect("<")
        fields: list[StructField] = []
        while not fields or self.accept(","):
            if not fields and self.accept(">"):
                return StructType()
            fields.append(self.field(depth + 1))
        self.expect(">")
        return _distinct(fields)

    def field(self, depth: int) -> StructField:
        name = self.next()
        if name in _SIGNS:
            raise self.refuse(", where a name must stand")
        self.accept(":")
        data_type, nullable = self.type(depth), self.nullable()
        comment = self.comment()
        return StructField(
            _unquoted(name), data_type, nullable, {} if comment is None else {"comment": comment}
        )

    def primitive(self, name: str, lower: str) -> DataType:
        found = _SQL_NAMES.get(lower) or parse_type_name(re.sub(r"\s", "", lower))
        if isinstance(found, UnknownType):
            raise InvalidInputError(
                f"{name!r} is no type of Delta. Examples: bigint, string, decimal(10,2), timestamp, "
                "array<int>, map<string,double>, struct<name:string>."
            )
        return found

    def nullable(self) -> bool:
        found = _NOT_NULL.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return found is None

    def comment(self) -> str | None:
        found = _COMMENT.match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        quote = found[1][0]
        return found[1][1:-1].replace(quote * 2, quote)

    def next(self) -> str:
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            raise self.refuse()
        self.position = found.end()
        return found[1]

    def accept(self, sign: str) -> bool:
        before = self.position
        if _TOKEN.match(self.text, before) is not None and self.next() == sign:
            return True
        self.position = before
        return False

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise self.refuse(f", where {sign!r} must stand")

    def refuse(self, expected: str = "", what: str = "type") -> InvalidInputError:
        rest = self.text[self.position :].strip()[:20]
        return InvalidInputError(f"{self.text!r} is no {what}: it stops making sense at {rest!r}{expected}.")


def _distinct(fields: list[StructField]) -> StructType:
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"Two columns are called {twice!r}.")
    return StructType(tuple(fields))


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
