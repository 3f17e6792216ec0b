"""SQL text → tree: the predicates of the sharing protocol and what users write beyond them.

S0 "SQL expressions for filtering" asks for ``=``, ``>``, ``<``, ``>=``, ``<=``, ``<>``, ``IS [NOT] NULL``
between a column and a constant on either side. This parser reads Spark's expression grammar as far as the
closed list goes: AND, OR, NOT, IN, BETWEEN, LIKE, ``<=>``, IS [NOT] TRUE / DISTINCT FROM, arithmetic, CASE,
casts, typed literals, nested and quoted names, and the functions of `functions.FUNCTIONS`. Everything else
(subqueries, aggregates, windows, parameters) is refused with the offending part shown.

Guarantees: `str` of a tree parses back to the same tree; a text above a budget (1 MiB, depth 100 after
flattening AND and OR, 10,000 nodes) is refused early; no text makes Python recurse, because the grammar's
rules are generators (`rule_runner`).

Precedence, loosest first: OR, AND, NOT, predicates (IN, BETWEEN, LIKE, IS), comparisons, ``+ - ||``,
``* / % DIV``, sign, ``::``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

import pyarrow as pa

from distributary.errors import InvalidPredicateError
from distributary.expressions.functions import ALIASES, FUNCTIONS, NON_DETERMINISTIC
from distributary.expressions.literal_text import (
    RESERVED_WORDS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    decimal_type,
    natural_type,
    type_from_sql,
)
from distributary.expressions.rule_runner import Rule, run_rule
from distributary.expressions.sql_lexer import Token, tokens, unreadable
from distributary.expressions.temporal_text import parse_date, parse_timestamp
from distributary.expressions.tree import (
    FALSE,
    NULL,
    TRUE,
    Arithmetic,
    Case,
    Cast,
    Column,
    Comparison,
    Expression,
    FunctionCall,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    StartsWith,
    all_of,
    any_of,
    walk,
)

MAX_TEXT = 1 << 20
MAX_DEPTH = 100
MAX_NODES = 10_000

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POSTFIX = range(1, 10)
_BINARY: dict[str, tuple[int, str]] = {
    **{op: (_COMPARISON, op) for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")},
    "==": (_COMPARISON, "="),
    "!=": (_COMPARISON, "<>"),
    **{op: (_SUM, op) for op in ("+", "-", "||")},
    **{op: (_PRODUCT, op) for op in ("*", "/", "%", "DIV")},
}
_CONNECTIVES = {"OR": _OR, "AND": _AND, "&&": _AND}
_PREDICATES = ("IS", "IN", "BETWEEN", "LIKE", "NOT")
_SUFFIX_TYPES = {"L": pa.int64(), "S": pa.int16(), "Y": pa.int8(), "F": pa.float32(), "D": pa.float64()}
_SPECIAL_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_Node = TypeVar("_Node", bound=Expression)


def parse_predicate(text: str, *, max_nodes: int = MAX_NODES) -> Expression:
    """Parse one SQL expression; a text that cannot be used raises `InvalidPredicateError`."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidPredicateError(
            "the predicate holds half of a surrogate pair, which is no character"
        ) from error
    if size > MAX_TEXT:
        raise InvalidPredicateError(f"a predicate may have at most {MAX_TEXT} bytes; this one is longer")
    parser = _Parser(text, max_nodes)
    root: Expression = run_rule(parser.whole())
    if any(depth > MAX_DEPTH for _, depth in walk(root)):
        raise InvalidPredicateError(
            f"a predicate may be nested {MAX_DEPTH} deep; this one is deeper: {text[:60]!r}…"
        )
    return root


@dataclass
class _Parser:
    text: str
    budget: int

    def __post_init__(self) -> None:
        self.source = tokens(self.text)
        self.ahead: list[Token] = []

    def whole(self) -> Rule:
        root = yield self.expression(_OR)
        if self.peek().kind != "end":
            raise self.refuse(self.peek(), "is not expected here")
        return root

    def expression(self, floor: int) -> Rule:
        """Parse operators that bind at least as tightly as floor."""
        left = yield self.operand(floor)
        while True:
            token = self.peek()
            word = token.upper
            if (level := _CONNECTIVES.get(word)) is not None and level >= floor:
                left = yield self.connective(left, word, level)
            elif word in _PREDICATES and floor <= _PREDICATE:
                left = yield self.predicate(left)
            elif word in _BINARY and _BINARY[word][0] >= floor:
                level, op = _BINARY[self.next().upper]
                right = yield self.expression(level + 1)
                left = self.made(_binary(op, left, right))
            elif word == "::" and floor <= _POSTFIX:
                self.next()
                left = self.made(_cast(left, self.type_name()))
            else:
                return left

    def connective(self, left: Expression, word: str, level: int) -> Rule:
        operands = [left]
        while _CONNECTIVES.get(self.peek().upper) == level:
            self.next()
            operands.append((yield self.expression(level + 1)))
        return self.made(any_of(operands) if word == "OR" else all_of(operands))

    def operand(self, floor: int) -> Rule:
        token = self.next()
        match token.kind:
            case "number":
                return self.made(self.number(token, ""))
            case "string" | "raw":
                return self.made(Literal(self.joined_strings(token), pa.string()))
            case "binary":
                return self.made(self.binary(token))
            case "quoted":
                return self.made(self.column(token.value))
            case "symbol":
                return (yield self.after_symbol(token, floor))
            case "word":
                return (yield self.after_word(token, floor))
            case _:
                raise self.refuse(token, "comes where a value or a column is missing")

    def after_symbol(self, token: Token, floor: int) -> Rule:
        if token.text == "(":
            inner = yield self.expression(_OR)
            self.expect(")")
            return inner
        if token.text == "!" and floor <= _NOT:
            return self.made(Not((yield self.expression(_NOT))))
        if token.text in ("-", "+") and self.peek().kind == "number":
            return self.made(self.number(self.next(), token.text))
        if token.text in ("-", "+"):
            inner = yield self.expression(_SIGN)
            return inner if token.text == "+" else self.made(FunctionCall("negative", (inner,)))
        raise self.refuse(token, "is not supported here")

    def after_word(self, token: Token, floor: int) -> Rule:
        word, following = token.upper, self.peek()
        if word == "NOT" and floor <= _NOT:
            return self.made(Not((yield self.expression(_NOT))))
        if word in ("TRUE", "FALSE", "NULL"):
            return self.made({"TRUE": TRUE, "FALSE": FALSE, "NULL": NULL}[word])
        if word == "CASE":
            return (yield self.case())
        if following.kind == "string" and word in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
            return self.made(self.typed_literal(word, self.next()))
        if word in NON_DETERMINISTIC and (word in RESERVED_WORDS or following.text == "("):
            raise self.refuse(token, "is not deterministic, so it cannot be used in a predicate or a rule")
        if following.text == "(" and following.kind == "symbol":
            return (yield self.call(token))
        if word in RESERVED_WORDS:
            raise self.refuse(token, "is not supported here")
        return self.made(self.column(token.text))

    def predicate(self, left: Expression) -> Rule:
        negated = self.accept("NOT")
        token = self.next()
        match token.upper:
            case "IS" if not negated:
                return (yield self.is_predicate(left))
            case "IN":
                node = yield self.in_list(left)
            case "BETWEEN":
                low = yield self.expression(_COMPARISON)
                self.expect("AND")
                high = yield self.expression(_COMPARISON)
                node = self.made(all_of((Comparison(">=", left, low), Comparison("<=", left, high))))
            case "LIKE":
                node = self.made(self.like(left))
            case _:
                raise self.refuse(token, "is not a predicate that is supported here")
        return self.made(Not(node)) if negated else node

    def is_predicate(self, left: Expression) -> Rule:
        negated = self.accept("NOT")
        token = self.next()
        match token.upper:
            case "NULL" | "UNKNOWN":
                node = IsNull(left)
            case "TRUE" | "FALSE":
                node = Comparison("<=>", left, TRUE if token.upper == "TRUE" else FALSE)
            case "DISTINCT":
                self.expect("FROM")
                node = Comparison("<=>", left, (yield self.expression(_COMPARISON + 1)))
                negated = not negated
            case _:
                raise self.refuse(token, "cannot follow IS")
        return self.made(Not(node) if negated else node)

    def in_list(self, left: Expression) -> Rule:
        self.expect("(")
        options: list[Expression] = []
        while not options or self.accept(","):
            options.append((yield self.expression(_OR)))
        self.expect(")")
        return self.made(In(left, tuple(options)))

    def like(self, left: Expression) -> Like:
        pattern = self.string("a pattern in quotes")
        escape = self.string("one character in quotes") if self.accept("ESCAPE") else "\\"
        if len(escape) != 1:
            raise InvalidPredicateError(f"ESCAPE {escape[:20]!r} is not one character")
        return Like(left, pattern, escape)

    def case(self) -> Rule:
        subject = None if self.peek().upper == "WHEN" else (yield self.expression(_OR))
        branches: list[tuple[Expression, Expression]] = []
        while not branches or self.peek().upper == "WHEN":
            self.expect("WHEN")
            condition = yield self.expression(_OR)
            self.expect("THEN")
            value = yield self.expression(_OR)
            branches.append((condition if subject is None else Comparison("=", subject, condition), value))
        otherwise = (yield self.expression(_OR)) if self.accept("ELSE") else None
        self.expect("END")
        return self.made(Case(tuple(branches), otherwise))

    def call(self, name: Token) -> Rule:
        """Parse what follows the name of a function."""
        word = name.upper
        self.expect("(")
        args: list[Expression] = []
        if word in ("CAST", "TRY_CAST"):
            operand = yield self.expression(_OR)
            self.expect("AS")
            node = _cast(operand, self.type_name(), lenient=word == "TRY_CAST")
            self.expect(")")
            return self.made(node)
        while self.peek().text != ")" or args:
            args.append((yield self.expression(_OR)))
            if not self.accept(","):
                break
        self.expect(")")
        if self.peek().upper in ("OVER", "FILTER", "WITHIN"):
            raise self.refuse(self.peek(), "makes a window or aggregate, which is not supported here")
        return self.made(self.function(name, tuple(args)))

    def function(self, token: Token, args: tuple[Expression, ...]) -> Expression:
        name = ALIASES.get(token.text.lower(), token.text.lower())
        target = type_from_sql(name)
        if target is not None and len(args) == 1:
            return _cast(args[0], target)
        if name in ("isnull", "isnotnull") and len(args) == 1:
            return IsNull(args[0]) if name == "isnull" else Not(IsNull(args[0]))
        if name == "if" and len(args) == 3:
            return Case(((args[0], args[1]),), args[2])
        if (
            name == "startswith"
            and len(args) == 2
            and isinstance(args[1], Literal)
            and isinstance(args[1].value, str)
        ):
            return StartsWith(args[0], args[1].value)
        if name not in FUNCTIONS:
            raise self.refuse(token, "is not a function that is supported here")
        low, high = FUNCTIONS[name].arity
        if not low <= len(args) <= high:
            raise self.refuse(
                token, f"takes {low if low == high else f'{low} to {high}'} arguments, not {len(args)}"
            )
        return FunctionCall(name, args)

    def column(self, first: str) -> Column:
        path = [first]
        while self.accept("."):
            token = self.next()
            if token.kind not in ("word", "quoted"):
                raise self.refuse(token, "is not the name of a field")
            path.append(token.value or token.text)
        return Column(tuple(path))

    def number(self, token: Token, sign: str) -> Literal:
        digits = token.text.upper().rstrip("BDLSYF")
        suffix = token.text.upper()[len(digits) :]
        try:
            if suffix in ("F", "D") or (not suffix and "E" in digits):
                return _float_literal(float(sign + digits), suffix)
            if suffix == "BD" or (not suffix and "." in digits):
                value = Decimal(sign + digits)
                return Literal(value, decimal_type(value))
            value = int(sign + digits) if len(digits) < 40 else Decimal(sign + digits)
            data_type = _SUFFIX_TYPES[suffix] if suffix else natural_type(value)
            decimal = pa.types.is_decimal(data_type)
            return Literal(pa.scalar(Decimal(value) if decimal else value, data_type).as_py(), data_type)
        except (ValueError, ArithmeticError, pa.ArrowException, InvalidPredicateError) as error:
            raise self.refuse(token, "is not a number of its type") from error

    def binary(self, token: Token) -> Literal:
        digits = token.text[2:-1]
        try:
            return Literal(bytes.fromhex("0" * (len(digits) % 2) + digits), pa.binary())
        except ValueError as error:
            raise self.refuse(token, "is not made of hexadecimal digits") from error

    def typed_literal(self, word: str, token: Token) -> Expression:
        """Read DATE '…' and TIMESTAMP '…'; a timestamp without a zone waits for binding to know the zone."""
        text = self.joined_strings(token)
        if word == "DATE" and (day := parse_date(text)) is not None:
            return Literal(day, pa.date32())
        parsed = None if word == "DATE" else parse_timestamp(text)
        if parsed is None or (word == "TIMESTAMP_NTZ" and parsed.tzinfo is not None):
            raise self.refuse(token, f"is not a {word}")
        if word == "TIMESTAMP_NTZ":
            return Literal(parsed, TIMESTAMP_NTZ)
        naive = parsed.tzinfo is None
        return Cast(Literal(text, pa.string()), TIMESTAMP) if naive else Literal(parsed, TIMESTAMP)

    def type_name(self) -> pa.DataType:
        token = self.next()
        arguments: list[int] = []
        if self.accept("("):
            while not arguments or self.accept(","):
                number = self.next()
                if number.kind != "number" or not number.text.isdigit() or len(number.text) > 4:
                    raise self.refuse(number, "is not a precision or scale")
                arguments.append(int(number.text))
            self.expect(")")
        found = type_from_sql(token.upper, tuple(arguments))
        if found is None:
            raise self.refuse(token, "is not a type that values can be cast to here")
        return found

    def joined_strings(self, token: Token) -> str:
        parts = [token.value]
        while self.peek().kind in ("string", "raw"):
            parts.append(self.next().value)
        return "".join(parts)

    def string(self, what: str) -> str:
        token = self.next()
        if token.kind not in ("string", "raw"):
            raise self.refuse(token, f"stands where {what} must")
        return self.joined_strings(token)

    def peek(self) -> Token:
        if not self.ahead:
            self.ahead.append(next(self.source))
        return self.ahead[0]

    def next(self) -> Token:
        token = self.peek()
        if token.kind != "end":
            self.ahead.pop()
        return token

    def accept(self, word: str) -> bool:
        found = self.peek().upper == word
        if found:
            self.next()
        return found

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.refuse(self.peek(), f"stands where {word} must")

    def refuse(self, token: Token, why: str) -> InvalidPredicateError:
        return unreadable(self.text, token.position, why)

    def made(self, node: _Node) -> _Node:
        """Count a node against the budget."""
        self.budget -= 1
        if self.budget < 0:
            raise InvalidPredicateError(f"the predicate has too many parts: {self.text[:60]!r}…")
        return node


def _binary(op: str, left: Expression, right: Expression) -> Expression:
    if op == "||":
        return FunctionCall("concat", (left, right))
    return Comparison(op, left, right) if _BINARY[op][0] == _COMPARISON else Arithmetic(op, left, right)


def _cast(operand: Expression, to: pa.DataType, *, lenient: bool = False) -> Expression:
    """Build a cast; one that only spells a literal (typed NULL, NaN, infinity) becomes that literal."""
    if isinstance(operand, Literal) and operand.value is None:
        return Literal(None, to)
    if isinstance(operand, Literal) and pa.types.is_floating(to) and operand.value in _SPECIAL_FLOATS:
        return Literal(_SPECIAL_FLOATS[operand.value], to)
    return Cast(operand, to, lenient)


def _float_literal(value: float, suffix: str) -> Literal:
    if suffix == "F":
        return Literal(struct.unpack("f", struct.pack("f", value))[0], pa.float32())
    if abs(value) == float("inf"):
        raise ValueError("out of range")
    return Literal(value, pa.float64())
