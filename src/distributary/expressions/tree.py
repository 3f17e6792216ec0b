"""The one expression tree: what every parser builds and every evaluator reads.

A node is an immutable value. ``col("price") >= 3`` builds a tree; ``str(tree)`` prints Spark SQL
that parses back to the same tree. Trees are written by users (`col`, `lit`), by
`sql_parser.parse_predicate` and by `json_predicates.parse_json_predicate`; `binding.bind` resolves
one against a schema, and only bound trees are pruned with or evaluated.

Guarantees:

* ``And`` and ``Or`` made by `all_of`, `any_of`, ``&`` and ``|`` are flat: an operand is never of
  the same kind, so the depth of a long chain is one.
* Nodes are hashable. ``==`` builds a comparison, so that ``col("x") == 3`` reads as it should;
  its truth value is structural equality when both sides are the same tree, and an error otherwise,
  which is what makes trees safe as dictionary keys and ``and``/``or``/``not`` on them impossible.
* Types are Arrow types; ``Column.type`` is set by binding, ``Literal.type`` always.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from distributary.errors import InvalidPredicateError
from distributary.expressions.literal_text import literal_sql, name_sql, natural_type, string_sql, type_sql

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
ARITHMETIC = ("+", "-", "*", "/", "%", "DIV")
_NAME_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """Any node of the tree."""

    @property
    def children(self) -> tuple[Expression, ...]:
        """The nodes right below this one, in order."""
        return ()

    def key(self) -> tuple[Any, ...]:
        """A nested tuple that is equal exactly for equal trees."""
        return (type(self).__name__, *(_key_of(getattr(self, field.name)) for field in fields(self)))

    def equals(self, other: object) -> bool:
        """Tell whether the other is the same tree."""
        return isinstance(other, Expression) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __bool__(self) -> NoReturn:
        raise InvalidPredicateError(
            f"the truth of {self} is not known before it meets rows: combine predicates with &, | and ~"
            " (each side in parentheses) instead of and, or, not"
        )

    def __and__(self, other: object) -> Expression:
        return all_of((self, lit(other)))

    def __rand__(self, other: object) -> Expression:
        return all_of((lit(other), self))

    def __or__(self, other: object) -> Expression:
        return any_of((self, lit(other)))

    def __ror__(self, other: object) -> Expression:
        return any_of((lit(other), self))

    def __invert__(self) -> Expression:
        return Not(self)

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("=", self, lit(other))

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("<>", self, lit(other))

    def __lt__(self, other: object) -> Comparison:
        return Comparison("<", self, lit(other))

    def __le__(self, other: object) -> Comparison:
        return Comparison("<=", self, lit(other))

    def __gt__(self, other: object) -> Comparison:
        return Comparison(">", self, lit(other))

    def __ge__(self, other: object) -> Comparison:
        return Comparison(">=", self, lit(other))

    def __add__(self, other: object) -> Expression:
        return Arithmetic("+", self, lit(other))

    def __sub__(self, other: object) -> Expression:
        return Arithmetic("-", self, lit(other))

    def __mul__(self, other: object) -> Expression:
        return Arithmetic("*", self, lit(other))

    def __truediv__(self, other: object) -> Expression:
        return Arithmetic("/", self, lit(other))

    def __mod__(self, other: object) -> Expression:
        return Arithmetic("%", self, lit(other))

    def isin(self, options: Any) -> Expression:
        """Build ``self IN (options…)``."""
        return In(self, tuple(lit(option) for option in options))

    def is_null(self) -> Expression:
        """Build ``self IS NULL``."""
        return IsNull(self)

    def is_not_null(self) -> Expression:
        """Build ``self IS NOT NULL``."""
        return Not(IsNull(self))

    def between(self, low: object, high: object) -> Expression:
        """Build ``self BETWEEN low AND high``, both ends inclusive."""
        return all_of((self >= low, self <= high))

    def startswith(self, prefix: str) -> Expression:
        """Build ``startswith(self, prefix)``."""
        return StartsWith(self, prefix)

    def like(self, pattern: str, escape: str = "\\") -> Expression:
        """Build ``self LIKE pattern``."""
        return Like(self, pattern, escape)

    def null_safe_equals(self, other: object) -> Expression:
        """Build ``self <=> other``: equality in which NULL equals NULL."""
        return Comparison("<=>", self, lit(other))

    def cast(self, to: pa.DataType) -> Expression:
        """Build ``CAST(self AS to)``."""
        return Cast(self, to)


@dataclass(frozen=True, eq=False, slots=True)
class Column(Expression):
    """A column, or a field inside a struct column, by its path of names."""

    path: tuple[str, ...]
    type: pa.DataType | None = None

    def __str__(self) -> str:
        return ".".join(name_sql(part) for part in self.path)


@dataclass(frozen=True, eq=False, slots=True)
class Literal(Expression):
    """A constant: a Python value and its Arrow type; a value of None is NULL."""

    value: Any
    type: pa.DataType

    def key(self) -> tuple[Any, ...]:
        aware = isinstance(self.value, datetime) and self.value.tzinfo is not None
        value = self.value.astimezone(UTC) if aware else self.value
        return ("Literal", type(value).__name__, repr(value), str(self.type))

    def __str__(self) -> str:
        return literal_sql(self.value, self.type)


@dataclass(frozen=True, eq=False, slots=True)
class Comparison(Expression):
    """``left op right`` with one of `COMPARISONS`; NaN equals NaN and is the greatest number."""

    op: str
    left: Expression
    right: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    def __hash__(self) -> int:
        return hash(self.key())

    def __bool__(self) -> bool:  # type: ignore[override]
        if self.op in ("=", "<>") and self.left.equals(self.right):
            return self.op == "="
        return Expression.__bool__(self)

    def __str__(self) -> str:
        return f"{_operand_sql(self.left)} {self.op} {_operand_sql(self.right)}"


@dataclass(frozen=True, eq=False, slots=True)
class Arithmetic(Expression):
    """``left op right`` with one of `ARITHMETIC`."""

    op: str
    left: Expression
    right: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"{_operand_sql(self.left)} {self.op} {_operand_sql(self.right)}"


@dataclass(frozen=True, eq=False, slots=True)
class And(Expression):
    """All of two or more operands, in three-valued logic."""

    operands: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.operands

    def __str__(self) -> str:
        return " AND ".join(_operand_sql(operand) for operand in self.operands)


@dataclass(frozen=True, eq=False, slots=True)
class Or(Expression):
    """Any of two or more operands, in three-valued logic."""

    operands: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.operands

    def __str__(self) -> str:
        return " OR ".join(_operand_sql(operand) for operand in self.operands)


@dataclass(frozen=True, eq=False, slots=True)
class Not(Expression):
    """The negation; NOT NULL is NULL."""

    operand: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        if isinstance(self.operand, IsNull):
            return f"{_operand_sql(self.operand.operand)} IS NOT NULL"
        return f"NOT {_operand_sql(self.operand)}"


@dataclass(frozen=True, eq=False, slots=True)
class IsNull(Expression):
    """``operand IS NULL``; never NULL itself."""

    operand: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"{_operand_sql(self.operand)} IS NULL"


@dataclass(frozen=True, eq=False, slots=True)
class In(Expression):
    """``operand IN (options…)``: NULL, not false, where nothing equals and an option is NULL."""

    operand: Expression
    options: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand, *self.options)

    def __str__(self) -> str:
        return f"{_operand_sql(self.operand)} IN ({', '.join(str(option) for option in self.options)})"


@dataclass(frozen=True, eq=False, slots=True)
class Like(Expression):
    """``operand LIKE pattern``: ``%`` is any run of characters, ``_`` any one, escape makes them plain."""

    operand: Expression
    pattern: str
    escape: str = "\\"

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        escape = "" if self.escape == "\\" else f" ESCAPE {string_sql(self.escape)}"
        return f"{_operand_sql(self.operand)} LIKE {string_sql(self.pattern)}{escape}"


@dataclass(frozen=True, eq=False, slots=True)
class StartsWith(Expression):
    """``startswith(operand, 'prefix')``."""

    operand: Expression
    prefix: str

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"startswith({self.operand}, {string_sql(self.prefix)})"


@dataclass(frozen=True, eq=False, slots=True)
class Case(Expression):
    """``CASE WHEN condition THEN value … [ELSE otherwise] END``; branches are pairs of the two."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None

    @property
    def children(self) -> tuple[Expression, ...]:
        nodes = tuple(node for branch in self.branches for node in branch)
        return nodes if self.otherwise is None else (*nodes, self.otherwise)

    def __str__(self) -> str:
        branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in self.branches)
        otherwise = "" if self.otherwise is None else f" ELSE {self.otherwise}"
        return f"CASE {branches}{otherwise} END"


@dataclass(frozen=True, eq=False, slots=True)
class Cast(Expression):
    """``CAST(operand AS type)`` by ANSI rules, TRY_CAST when lenient; binding sets a zone that matters."""

    operand: Expression
    type: pa.DataType
    lenient: bool = False
    time_zone: str | None = None

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"{'TRY_CAST' if self.lenient else 'CAST'}({self.operand} AS {type_sql(self.type)})"


@dataclass(frozen=True, eq=False, slots=True)
class FunctionCall(Expression):
    """A call of one of the functions in `functions.FUNCTIONS`."""

    name: str
    args: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.args

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(arg) for arg in self.args)})"


TRUE = Literal(True, pa.bool_())
FALSE = Literal(False, pa.bool_())
NULL = Literal(None, pa.null())


def col(*path: str) -> Column:
    """Name a column: ``col("a.b")`` and ``col("a", "b")`` are field b of struct a; backquotes keep dots."""
    if len(path) != 1:
        return Column(tuple(path))
    matches = list(_NAME_PART.finditer(path[0]))
    parts = tuple(m[2] if m[1] is None else m[1].replace("``", "`") for m in matches)
    if ".".join(m[0] for m in matches) != path[0] or not parts or not all(parts):
        raise InvalidPredicateError(f"{path[0]!r} is not a column name: quote unusual names with backquotes")
    return Column(parts)


def lit(value: object) -> Expression:
    """Make a literal of a Python value, typed as Spark types it; an expression stays as it is."""
    if isinstance(value, Expression):
        return value
    data_type = natural_type(value)
    if isinstance(value, int) and pa.types.is_decimal(data_type):
        value = Decimal(value)
    if isinstance(value, datetime):
        value = (value if value.tzinfo is None else value.astimezone(UTC)).replace(fold=0)
    return Literal(value, data_type)


def all_of(operands: Any) -> Expression:
    """Join operands by AND, flat: none is TRUE, one is itself."""
    return _flat(And, operands, TRUE)


def any_of(operands: Any) -> Expression:
    """Join operands by OR, flat: none is FALSE, one is itself."""
    return _flat(Or, operands, FALSE)


def walk(root: Expression) -> Iterator[tuple[Expression, int]]:
    """Visit every node with its depth (the root's is 1), without recursion."""
    stack = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack.extend((child, depth + 1) for child in node.children)


def columns_of(root: Expression) -> set[tuple[str, ...]]:
    """Give the paths of all columns that the tree reads."""
    return {node.path for node, _ in walk(root) if isinstance(node, Column)}


def _flat(kind: type[And] | type[Or], operands: Any, empty: Literal) -> Expression:
    flat: list[Expression] = []
    for operand in operands:
        if isinstance(operand, kind):
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return empty if not flat else flat[0] if len(flat) == 1 else kind(tuple(flat))


def _key_of(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.key()
    if isinstance(value, tuple):
        return tuple(_key_of(item) for item in value)
    return str(value) if isinstance(value, pa.DataType) else value


def _operand_sql(node: Expression) -> str:
    atomic = isinstance(node, Column | Literal | Cast | FunctionCall | StartsWith | Case)
    return str(node) if atomic else f"({node})"
