"""Partition filters: a SQL predicate over partition columns that says which rows of a table a share has.

A filter may read the recipient's properties as `recipient.NAME`; before anything is served their values are
written into it as SQL string literals, which the predicate's binding turns into the column's type. A property
that the recipient does not have makes the whole filter FALSE: nothing is shown, whatever the filter says
about nulls. Values never become anything but one literal, whatever characters they hold.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import pyarrow as pa

from distributary.catalog.errors import InvalidEntryError
from distributary.errors import DistributaryError
from distributary.expressions.binding import bind, type_of
from distributary.expressions.literal_text import string_sql
from distributary.expressions.sql_lexer import Token, tokens
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import columns_of

RECIPIENT: Final = "RECIPIENT"
NOTHING: Final = "FALSE"
LONGEST_FILTER: Final = 10_000


class _Property(msgspec.Struct, frozen=True):
    """A place in a filter where a recipient's property stands."""

    name: str


def checked_filter(text: str) -> str:
    """Give a filter back, or say why it is none; what its columns are is for `check_columns`."""
    if len(text) > LONGEST_FILTER:
        raise InvalidEntryError(f"a partition filter has at most {LONGEST_FILTER} characters")
    try:
        parse_predicate(text)
        pieces = _pieces(text)
        columns = columns_of(parse_predicate(_written(pieces, _anything(pieces))))
    except DistributaryError as error:
        raise InvalidEntryError(f"the partition filter cannot be used: {error}") from error
    if not columns:
        raise InvalidEntryError("a partition filter must name a partition column of the table")
    return text


def check_columns(text: str, partition_schema: pa.Schema) -> None:
    """Refuse a filter that reads anything but partition columns, or is no condition over their types."""
    names = {name.lower() for name in partition_schema.names}
    pieces = _pieces(text)
    for path in columns_of(parse_predicate(_written(pieces, _anything(pieces)))):
        if len(path) != 1 or path[0].lower() not in names:
            raise InvalidEntryError(
                f"the partition filter reads {'.'.join(path)!r}, which is no partition column of the table: "
                f"it has {', '.join(partition_schema.names) or 'none'}"
            )
    if not property_names(text):
        check_values(text, {}, partition_schema)


def check_values(text: str, properties: Mapping[str, str], partition_schema: pa.Schema) -> None:
    """Refuse a filter whose literals, with a recipient's properties, do not fit the columns' types."""
    try:
        bound = bind(parse_predicate(bound_filter(text, properties)), partition_schema)
    except DistributaryError as error:
        raise InvalidEntryError(f"the partition filter does not fit the table: {error}") from error
    if not pa.types.is_boolean(type_of(bound)):
        raise InvalidEntryError(f"the partition filter {text!r} is no condition: it must be true or false")


def bound_filter(text: str, properties: Mapping[str, str]) -> str:
    """Write a recipient's properties into a filter; one that is missing hides every row."""
    return _written(_pieces(text), properties)


def property_names(text: str) -> set[str]:
    """Give the names of the recipient's properties that a filter reads."""
    return {piece.name for piece in _pieces(text) if isinstance(piece, _Property)}


def _written(pieces: Iterable[str | _Property], properties: Mapping[str, str]) -> str:
    written: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            written.append(piece)
        elif (value := properties.get(piece.name)) is None:
            return NOTHING
        else:
            written.append(string_sql(value))
    return "".join(written)


def _anything(pieces: Iterable[str | _Property]) -> dict[str, str]:
    return {piece.name: "" for piece in pieces if isinstance(piece, _Property)}


@functools.lru_cache(maxsize=1024)
def _pieces(text: str) -> tuple[str | _Property, ...]:
    """Cut a filter at the places where properties of the recipient stand."""
    words = list(tokens(text))
    pieces: list[str | _Property] = []
    done = 0
    for at in range(len(words) - 2):
        name = _property_at(words, at)
        if name is not None:
            pieces += [text[done : words[at].position], _Property(name)]
            done = words[at + 2].position + len(words[at + 2].text)
    return (*pieces, text[done:])


def _property_at(words: list[Token], at: int) -> str | None:
    """Read `recipient.NAME` that is no part of a longer path."""
    first, dot, name = words[at : at + 3]
    inside = at > 0 and words[at - 1].upper == "."
    if first.upper != RECIPIENT or dot.upper != "." or inside:
        return None
    if name.kind not in ("word", "quoted"):
        return None
    if words[at + 3].upper == ".":
        raise InvalidEntryError("a recipient's property is written recipient.NAME, with one period")
    return name.value or name.text
