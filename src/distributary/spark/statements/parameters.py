"""Parameters of a statement: ``:name`` and ``?`` become literals, so that nobody pastes texts together."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from distributary.errors import InvalidInputError
from distributary.expressions.sql_lexer import Token
from distributary.spark.statements.cursor import statement_tokens

Parameters = Mapping[str, Any] | Sequence[Any]


def with_parameters(text: str, args: Parameters | None) -> str:
    """The text with each parameter as a literal; quotes and comments are left alone."""
    if not args:
        return text
    tokens = statement_tokens(text)
    named = args if isinstance(args, Mapping) else None
    positions = iter(() if isinstance(args, Mapping) else args)
    parts: list[str] = []
    done = 0
    for at, token in enumerate(tokens):
        if token.kind != "symbol":
            continue
        if (
            token.text == ":"
            and named is not None
            and _begins_name(tokens, at)
            and tokens[at + 1].text in named
        ):
            parts += [text[done : token.position], literal(named[tokens[at + 1].text])]
            done = tokens[at + 1].position + len(tokens[at + 1].text)
        elif token.text == "?" and named is None:
            parts += [text[done : token.position], literal(_next(positions))]
            done = token.position + 1
    return "".join(parts) + text[done:]


def literal(value: Any) -> str:
    """A Python value as a literal of Spark SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}L" if abs(value) > 2**31 - 1 else str(value)
        case float():
            return f"double('{value}')"
        case Decimal():
            return f"{value:f}BD"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            raise InvalidInputError(
                f"A parameter of type {type(value).__name__} has no literal: give text, numbers, dates, "
                "times, bytes or None."
            )


def _begins_name(tokens: Sequence[Token], at: int) -> bool:
    """Whether a colon begins a parameter: it touches the name after it, and no name before it."""
    token, after = tokens[at], tokens[at + 1]
    before = tokens[at - 1] if at else None
    touches = before is not None and before.position + len(before.text) == token.position
    return (
        after.kind == "word"
        and after.position == token.position + 1
        and not (touches and before is not None and before.kind in ("word", "quoted", "number"))
    )


def _next(values: Any) -> Any:
    try:
        return next(values)
    except StopIteration:
        raise InvalidInputError("The statement has more ? than there are parameters.") from None
