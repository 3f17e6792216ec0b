"""Predicate hints: what of a query's hints can be used to return fewer files.

Hints are best effort (FLT-001 to FLT-006, A11). Each is parsed within the budgets of
`distributary.expressions` and bound to the table's schema; one that cannot be, or that goes beyond the
budget of the request (texts, and comparisons over all files), is ignored, and the others still count.
Ignoring a hint gives more files, never fewer. `complete` tells whether every hint was understood, which a
limit needs to know (FLT-010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from distributary.errors import DistributaryError
from distributary.expressions.binding import bind
from distributary.expressions.json_predicates import parse_json_predicate
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, Literal, all_of, walk
from distributary.sharing.query_request import QueryRequest

MAX_HINTS: Final = 100
MAX_HINTS_TEXT: Final = 1 << 20
MAX_COMPARISONS: Final = 200_000_000
_MAX_NODES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Hints:
    """The condition that the usable hints make together, and whether they are all."""

    predicate: Expression | None
    complete: bool


def usable_hints(request: QueryRequest, columns: pa.Schema, num_files: int) -> Hints:
    """What can be used of a query's hints about a table of so many files."""
    given = list(_parsers(request))
    if not given:
        return Hints(None, True)
    if len(given) > MAX_HINTS or _length(request) > MAX_HINTS_TEXT:
        return Hints(None, False)
    found: list[Expression] = []
    left = MAX_COMPARISONS
    for parse in given:
        try:
            bound = bind(parse(), columns)
        except (DistributaryError, RecursionError):
            continue
        cost = num_files * sum(not isinstance(node, Literal) for node, _ in walk(bound))
        if cost <= left:
            found.append(bound)
            left -= cost
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
