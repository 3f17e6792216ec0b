"""Types as people write them: `bigint`, `decimal(10,2)`, `array<struct<name:string,age:int>>`.

Reads the DDL of Spark SQL and Delta's own names, ignoring case, so that a column can be described on a
command line or in one argument. `str` of every Delta type reads back as that type. Only the type is
described: comments and other metadata are set apart.
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
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z0-9_]+(?:\s*\([0-9,\s]*\))?|[<>,:])")
_NOT_NULL = re.compile(r"\s+not\s+null\b", re.IGNORECASE)


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
            name = self.next()
            self.accept(":")
            data_type = self.type(depth + 1)
            fields.append(StructField(_unquoted(name), data_type, self.nullable()))
        self.expect(">")
        return StructType(tuple(fields))

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

    def refuse(self, expected: str = "") -> InvalidInputError:
        rest = self.text[self.position :].strip()[:20]
        return InvalidInputError(f"{self.text!r} is no type: it stops making sense at {rest!r}{expected}.")


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
