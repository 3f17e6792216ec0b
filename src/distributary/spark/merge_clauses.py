"""The clauses of a merge: what is done with rows that match, and with those of either side that do not.

Clauses of one kind are asked in the order given; the first whose condition is true for a row acts on it, and
a row for which none is true stays as it is (or is not inserted). Only the last clause of a kind may go
without a condition. A condition that is unknown (null) is not true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import Column

from distributary.errors import InvalidInputError

ClauseKind = Literal["matched", "not_matched", "not_matched_by_source"]
ClauseAction = Literal["update", "update_all", "delete", "insert", "insert_all"]
Value = Column | str

MATCHED: ClauseKind = "matched"
NOT_MATCHED: ClauseKind = "not_matched"
NOT_MATCHED_BY_SOURCE: ClauseKind = "not_matched_by_source"

_ALLOWED: Mapping[ClauseKind, tuple[ClauseAction, ...]] = {
    MATCHED: ("update", "update_all", "delete"),
    NOT_MATCHED: ("insert", "insert_all"),
    NOT_MATCHED_BY_SOURCE: ("update", "delete"),
}


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One clause: for which rows, what is done with them, on which condition, with which values.

    `values` gives for columns (or fields of structs) of the table their new values, as columns or SQL text;
    the `all` actions take every column of the source by its name instead.
    """

    kind: ClauseKind
    action: ClauseAction
    condition: Value | None = None
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])

    @property
    def takes_all(self) -> bool:
        """Whether every column of the source is taken by its name."""
        return self.action in ("update_all", "insert_all")

    @property
    def verb(self) -> str:
        """What is done, in one word, as Delta's history says it."""
        return self.action.removesuffix("_all")

    def __str__(self) -> str:
        return f"WHEN {self.kind.upper().replace('_', ' ')} THEN {self.verb.upper()}"


def of_kind(clauses: Sequence[MergeClause], kind: ClauseKind) -> tuple[MergeClause, ...]:
    """The clauses of one kind, in order."""
    return tuple(clause for clause in clauses if clause.kind == kind)


def check_clauses(clauses: Sequence[MergeClause]) -> None:
    """Refuse clauses that say nothing, or that could never act."""
    if not clauses:
        raise InvalidInputError(
            "a merge needs at least one clause: whenMatched…, whenNotMatched… or whenNotMatchedBySource…"
        )
    for clause in clauses:
        if clause.action not in _ALLOWED[clause.kind]:
            raise InvalidInputError(f"{clause} is no clause of a merge")
        if not clause.takes_all and clause.action != "delete" and not clause.values:
            raise InvalidInputError(f"{clause} needs at least one column and its value")
    for kind in _ALLOWED:
        for clause in of_kind(clauses, kind)[:-1]:
            if clause.condition is None:
                raise InvalidInputError(
                    f"{clause}: only the last clause of its kind may go without a condition, since those "
                    "after it would never act"
                )


def allows_repeated_matches(clauses: Sequence[MergeClause]) -> bool:
    """Whether it does not matter which of several source rows matches a row of the table.

    So it is where matched rows are deleted in any case, and where nothing is done with them.
    """
    matched = of_kind(clauses, MATCHED)
    return not matched or (
        len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
    )


def history_of(clauses: Sequence[MergeClause], texts: Mapping[int, str]) -> dict[str, list[dict[str, str]]]:
    """The clauses as Delta's history tells them; `texts` are conditions by the place of their clause."""
    names: Mapping[ClauseKind, str] = {
        MATCHED: "matchedPredicates",
        NOT_MATCHED: "notMatchedPredicates",
        NOT_MATCHED_BY_SOURCE: "notMatchedBySourcePredicates",
    }
    told: dict[str, list[dict[str, str]]] = {name: [] for name in names.values()}
    for at, clause in enumerate(clauses):
        condition = {"predicate": texts[at]} if at in texts else {}
        told[names[clause.kind]].append({**condition, "actionType": clause.verb})
    return told
