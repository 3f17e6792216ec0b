"""Recursive rules without Python's stack, for texts that strangers nest as deeply as they like.

A rule is a generator: it yields the rule that it needs the result of, and returns its own. `run_rule`
keeps the waiting rules in a list, so depth costs memory, never a RecursionError, and has a limit of its
own.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from distributary.errors import InvalidPredicateError

Rule = Generator[Any, Any, Any]
MAX_WAITING = 30_000


def run_rule(rule: Rule) -> Any:
    """Run a rule and the rules that it yields, and give its result."""
    waiting, result = [rule], None
    while waiting:
        if len(waiting) > MAX_WAITING:
            raise InvalidPredicateError("the predicate has too many parts inside each other")
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as done:
            waiting.pop()
            result = done.value
    return result
