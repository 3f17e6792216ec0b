"""Predicate hints: what of a query's hints can be used to return fewer files.

Hints are best effort (FLT-001 to FLT-006, A11). Each is parsed within the budgets of
`distributary.expressions` and bound to the table's schema; one that cannot be, or that goes beyond the
budget of the request, is ignored, and the others still count. Ignoring a hint gives more files, never
fewer. `complete` tells whether every hint was understood, which a limit needs to know (FLT-010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType
from distributary.errors import DistributaryError
from distributary.expressions.binding import bind
from distributary.expressions.json_predicates import parse_json_predicate
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, all_of
from distributary.sharing.query_request import QueryRequest

MAX_HINTS: Final = 100
MAX_HINTS_TEXT: Final = 1 << 20
_MAX_NODES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Hints:
    """The condition that the usable hints make together, and whether they are all."""

    predicate: Expression | None
    complete: bool


def usable_hints(request: QueryRequest, schema: StructType) -> Hints:
    """What can be used of a query's hints."""
    given = list(_parsers(request))
    if not given:
        return Hints(None, True)
    if len(given) > MAX_HINTS or _length(request) > MAX_HINTS_TEXT:
        return Hints(None, False)
    columns = arrow_schema(schema)
    found: list[Expression] = []
    for parse in given:
        try:
            found.append(bind(parse(), columns))
        except (DistributaryError, RecursionError):
            continue
    predicate = all_of(found) if found else None
    return Hints(predicate, len(found) == len(given))


def _parsers(request: QueryRequest) -> Iterator[Callable[[], Expression]]:
    for text in request.predicate_hints:
        yield lambda text=text: parse_predicate(text, max_nodes=_MAX_NODES)
    hint = request.json_predicate_hints
    if hint is not None and hint.strip():
        yield lambda: parse_json_predicate(hint)


def _length(request: QueryRequest) -> int:
    return sum(map(len, request.predicate_hints)) + len(request.json_predicate_hints or "")
