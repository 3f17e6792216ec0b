"""The words of Spark SQL: text → tokens, one at a time.

Follows Spark's lexer: strings in single or double quotes with backslash escapes (``\\%`` and ``\\_``
stay as they are, for LIKE; a doubled quote is one quote), raw strings, names in backquotes,
numbers with the suffixes L, S, Y, F, D, BD, binary ``X'00'``, comments. Tokens come lazily, so a
parser with a budget never reads more of a hostile text than it needs; each match is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from distributary.errors import InvalidPredicateError

_WORDS = r"""
      (?P<space>   \s+ | --[^\n]* | /\*(?!\+).*?\*/ )
    | (?P<binary>  [xX]'[^']*' | [xX]"[^"]*" )
    | (?P<raw>     [rR]'[^']*' | [rR]"[^"]*" )
    | (?P<string>  '(?:[^'\\]+|\\.|'')*+' | "(?:[^"\\]+|\\.|"")*+" )
    | (?P<quoted>  `(?:[^`]+|``)*+` )
    | (?P<number>  (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[lLsSyYfFdD])?(?!\w) )
    | (?P<word>    [^\W\d]\w* )
    | (?P<symbol>  <=> | <= | >= | <> | != | == | \|\| | && | :: | [-+*/%=<>!(),.\[\]] SIGNS )
"""
_TOKEN = re.compile(_WORDS.replace("SIGNS", ""), re.VERBOSE | re.DOTALL)
STATEMENT_TOKEN: Final = re.compile(
    _WORDS.replace("(?!\\+)", "").replace("SIGNS", r"| [:;?@&|^~{}$]"), re.VERBOSE | re.DOTALL
)
"""The words of whole statements: hints pass as comments, and there are more signs than in expressions."""

_CODE = r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))"
_ESCAPES = {quote: re.compile(f"{_CODE}|({quote}){quote}", re.DOTALL) for quote in "'\""}
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class Token:
    """One word: its kind, its text as written, its place, and what a string or quoted name stands for."""

    kind: str
    text: str
    position: int
    value: str = ""

    @property
    def upper(self) -> str:
        """The text in capitals when it is a bare word or a symbol, else nothing."""
        return self.text.upper() if self.kind in ("word", "symbol") else ""


def tokens(text: str, pattern: re.Pattern[str] = _TOKEN) -> Iterator[Token]:
    """Read a text word by word; the last token is of kind ``end``."""
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            raise unreadable(text, position, "cannot be read as SQL")
        kind = str(match.lastgroup)
        if kind != "space":
            yield Token(kind, match[0], position, _meaning(kind, match[0], text, position))
        position = match.end()
    yield Token("end", "", len(text))


def unreadable(text: str, position: int, why: str) -> InvalidPredicateError:
    """Make the error that shows the offending part of a predicate."""
    part = text[position : position + 40] or "the end"
    return InvalidPredicateError(f"{part!r} (character {position + 1} of the predicate) {why}")


def _meaning(kind: str, text: str, whole: str, position: int) -> str:
    if kind == "string":
        return _ESCAPES[text[0]].sub(lambda match: _unescape(match, whole, position), text[1:-1])
    if kind == "raw":
        return text[2:-1]
    return text[1:-1].replace("``", "`") if kind == "quoted" else ""


def _unescape(match: re.Match[str], whole: str, position: int) -> str:
    code = match[1] or match[2]
    number = int(code, 16) if code else int(match[3], 8) if match[3] else None
    if number is None:
        return match[5] or _ESCAPED.get(match[4], match[4])
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise unreadable(whole, position, "holds an escape that is not a character")
    return chr(number)
