"""A broken rule on its way from a task to the caller: text inside Spark's error, an error of ours outside.

A check that fails calls Spark's `raise_error` with a text that says which rule it was and shows the row;
:func:`violation_in` finds that text in whatever Spark raised and gives the error that the engine raises for
the same rule.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F

from distributary.delta.errors import (
    ConstraintViolationError,
    GeneratedColumnError,
    NotNullViolationError,
    SchemaMismatchError,
)
from distributary.errors import DistributaryError

_BEGIN, _SHOWS, _END = "⟦rule ", "⟧", "⟦end⟧"
_PATTERN: Final = re.compile(f"{_BEGIN}(.*?){_SHOWS}(.*?){_END}", re.DOTALL)
_LONGEST_VALUE: Final = 40
_MOST_VALUES: Final = 5


class BrokenRule(msgspec.Struct, frozen=True):
    """Which rule it was: its kind, what people call it, its text, and what a row that breaks it does."""

    kind: str
    title: str
    text: str = ""
    why: str = "is not true"

    def raised(self, row: Column | None = None) -> Column:
        """A column that fails when it is evaluated, showing a row."""
        head = f"{_BEGIN}{msgspec.json.encode(self).decode()}{_SHOWS}"
        shown = F.lit("") if row is None else row
        return F.raise_error(F.concat(F.lit(head), shown, F.lit(_END)))

    def error(self, row: str) -> DistributaryError:
        """The engine's error for a row that breaks the rule."""
        if self.kind == "not null":
            return NotNullViolationError(self.title)
        if self.kind == "generated":
            return GeneratedColumnError(self.title, self.text, row)
        if self.kind == "assignment":
            return SchemaMismatchError(f"Column {self.title} is {self.text}, which cannot hold {row}.")
        return ConstraintViolationError(self.title, self.text, row, why=self.why)


def shown_values(names: list[str]) -> Column:
    """The values of some columns of a row, shortened, as one text."""
    parts = [F.concat(F.lit(f"{name} = "), shown_value(column_named(name))) for name in names[:_MOST_VALUES]]
    return F.concat_ws(", ", *parts) if parts else F.lit("any values")


def shown_value(value: Column) -> Column:
    """One value, shortened."""
    return F.coalesce(F.substring(value.try_cast("string"), 1, _LONGEST_VALUE), F.lit("NULL"))


def column_named(name: str) -> Column:
    """A column by its exact name, whatever characters it has."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """A name in backticks."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def violation_in(error: BaseException) -> DistributaryError | None:
    """The broken rule that an error of Spark tells of, if it does."""
    found = _PATTERN.search(_whole_text(error))
    if found is None:
        return None
    return msgspec.json.decode(found[1], type=BrokenRule).error(found[2])


def _whole_text(error: BaseException) -> str:
    """The texts of an error and of those behind it."""
    texts: list[str] = []
    here: BaseException | None = error
    while here is not None:
        parts: tuple[Any, ...] = (here, getattr(here, "_stackTrace", ""), getattr(here, "cause", ""))
        texts.extend(str(part) for part in parts if part)
        here = here.__cause__
    return "\n".join(texts)
