"""Columns qualified by a table's other name, in texts about that one table: ``t.id > 3`` is ``id > 3``."""

from __future__ import annotations

from typing import TypeVar

from distributary.expressions.sql_lexer import STATEMENT_TOKEN, tokens

Kept = TypeVar("Kept")


def unqualified(condition: Kept, alias: str | None) -> Kept | str:
    """A text without the qualifier; anything that is no text stays as it is."""
    if alias is None or not isinstance(condition, str):
        return condition
    found = list(tokens(condition, STATEMENT_TOKEN))
    cuts: list[tuple[int, int]] = []
    for at, token in enumerate(found[:-2]):
        name = token.value if token.kind == "quoted" else token.text
        is_name = token.kind in ("word", "quoted") and name.lower() == alias.lower()
        after_dot = at > 0 and found[at - 1].text == "."
        if is_name and not after_dot and found[at + 1].text == ".":
            cuts.append((token.position, found[at + 2].position))
    text: str = condition
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    return text
