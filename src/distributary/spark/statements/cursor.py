"""A place in the text of a statement, from which its words are taken one after the other.

Texts of expressions and queries are cut out as written, never put together again from words: Spark gets
exactly what the user wrote. Parentheses, brackets, CASE … END, quotes and comments are respected, so a word
inside of them never ends a part. An error shows the line, the place and what could stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distributary.errors import InvalidPredicateError
from distributary.expressions.sql_lexer import STATEMENT_TOKEN, Token, tokens
from distributary.spark.errors import StatementError

_OPENING = {"(": 1, "[": 1, "CASE": 1, ")": -1, "]": -1}
_NAMES = ("word", "quoted")


class Cursor:
    """The words of one statement, and how far they are read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = statement_tokens(text)
        self._at = 0

    @property
    def next(self) -> Token:
        """The word that comes next."""
        return self.tokens[self._at]

    @property
    def last(self) -> Token:
        """The word that was taken last."""
        return self.tokens[self._at - 1]

    def ahead(self, distance: int) -> Token:
        """A word after the next one; the end, where there are no more."""
        return self.tokens[min(self._at + distance, len(self.tokens) - 1)]

    def at(self, *words: str) -> bool:
        """Whether these bare words and signs come next."""
        ahead = self.tokens[self._at : self._at + len(words)]
        return [token.upper for token in ahead] == list(words)

    def at_any(self, *choices: str) -> bool:
        """Whether one of these (each perhaps of several words) comes next."""
        return any(self.at(*choice.split()) for choice in choices)

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        found = self.at(*words)
        if found:
            self._at += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Take these words; anything else is an error."""
        for word in words:
            if not self.accept(word):
                raise self.error(word)

    def take(self) -> Token:
        """Take the next word, whatever it is."""
        token = self.next
        if token.kind == "end":
            raise self.error("more")
        self._at += 1
        return token

    def name(self, what: str = "a name") -> str:
        """A name, bare or in backquotes."""
        if self.next.kind not in _NAMES:
            raise self.error(what)
        token = self.take()
        return token.value if token.kind == "quoted" else token.text

    def dotted(self, what: str = "a name") -> tuple[str, ...]:
        """Names joined by dots."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name(what))
        return tuple(parts)

    def string(self, what: str = "a text in quotes") -> str:
        """What a text in quotes stands for."""
        if self.next.kind not in ("string", "raw"):
            raise self.error(what)
        return self.take().value

    def whole_number(self, what: str = "a whole number") -> int:
        """A number without a fraction."""
        if not self.next.text.isdigit():
            raise self.error(what)
        return int(self.take().text)

    def alias(self, *not_names: str) -> str | None:
        """Another name for what stands before, with or without AS; the words that may follow are none."""
        if self.accept("AS"):
            return self.name("another name")
        if self.next.kind not in _NAMES or self.next.upper in not_names:
            return None
        return self.name()

    def until(self, *stops: str, what: str = "an expression") -> str:
        """The text as written up to one of these words (or the end), outside of parentheses and CASE."""
        start, depth = self._at, 0
        while self.next.kind != "end" and not (depth == 0 and (self.at_any(*stops) or self.at(";"))):
            depth += self._step(depth)
            if depth < 0:
                break
            self._at += 1
        if self._at == start:
            raise self.error(what)
        return self._between(start, self._at)

    def parenthesised(self, what: str = "a part in parentheses") -> str:
        """The text between two parentheses that belong together."""
        if not self.at("("):
            raise self.error(f"( before {what}")
        self.take()
        start = self._at
        if self.at(")"):
            self.take()
            return ""
        text = self.until(what=what)
        self.expect(")")
        assert start < self._at
        return text

    def listed(self, item: Callable[[Cursor], str]) -> tuple[str, ...]:
        """Items between parentheses, divided by commas."""
        self.expect("(")
        found = [item(self)]
        while self.accept(","):
            found.append(item(self))
        self.expect(")")
        return tuple(found)

    def rest(self) -> str:
        """All text that is left, without the semicolon at the end."""
        start = self._at
        while self.next.kind != "end" and not (self.at(";") and self.tokens[self._at + 1].kind == "end"):
            self._at += 1
        return self._between(start, self._at)

    def end(self) -> None:
        """Nothing may follow but a semicolon."""
        self.accept(";")
        if self.next.kind != "end":
            raise self.error("the end of the statement")

    def error(self, *expected: str) -> StatementError:
        """What is wrong at the next word."""
        return statement_error(self.text, self.next, expected)

    def _step(self, depth: int) -> int:
        """How the next word changes the depth; END closes a CASE only inside of one."""
        token = self.next
        before = self.tokens[self._at - 1].upper if self._at else ""
        if token.kind == "word" and before == ".":
            return 0
        if token.upper == "END":
            return -1 if depth > 0 else 0
        return _OPENING.get(token.upper, 0)

    def _between(self, start: int, end: int) -> str:
        if start >= end:
            return ""
        last = self.tokens[end - 1]
        return self.text[self.tokens[start].position : last.position + len(last.text)]


def statement_tokens(text: str) -> list[Token]:
    """The words of a statement; the last is of kind ``end``."""
    try:
        return list(tokens(text, STATEMENT_TOKEN))
    except InvalidPredicateError as error:
        raise StatementError(f"The statement cannot be read as SQL: {error}") from error


def statement_error(text: str, token: Token, expected: Sequence[str]) -> StatementError:
    """The error that shows a place of a statement and what could stand there."""
    before = text[: token.position]
    line, column = before.count("\n") + 1, token.position - (before.rfind("\n") + 1) + 1
    shown = text.splitlines()[line - 1] if text else ""
    found = "the end" if token.kind == "end" else repr(token.text)
    wanted = ", ".join(expected[:-1]) + " or " + expected[-1] if len(expected) > 1 else expected[0]
    return StatementError(
        f"Line {line}, character {column}: found {found} where {wanted} must stand.\n"
        f"  {shown}\n  {' ' * (column - 1)}^",
        line=line,
        column=column,
    )
