"""What verifying a table found: problems, each with a severity, a stable code and a place.

An error is a promise of the log that does not hold; a warning is damage to a file that nobody needs. The
codes are a table of data, so that documentation and tests can be held to it. Of one kind of problem only the
first hundred are told one by one; the rest become a number.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

TOLD_ONE_BY_ONE: Final = 100


class Severity(enum.Enum):
    """How bad a problem is."""

    ERROR = "error"
    WARNING = "warning"


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, and where."""

    severity: Severity
    code: str
    where: str
    message: str


class VerificationReport(msgspec.Struct, frozen=True):
    """The problems of a table, how many of each code there are, and how much was looked at."""

    problems: tuple[Problem, ...]
    found: Mapping[str, int]
    checked: Mapping[str, int]

    def number(self, severity: Severity) -> int:
        """How many problems of a severity there are, those not told one by one too."""
        return sum(count for code, count in self.found.items() if PROBLEM_CODES[code] is severity)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that are errors."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that are warnings."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.WARNING)


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

PROBLEM_CODES: Final[Mapping[str, Severity]] = {
    "LOG_GAP": _ERROR,
    "CORRUPT_COMMIT": _ERROR,
    "CORRUPT_COMPACTION": _WARNING,
    "CORRUPT_CHECKPOINT": _ERROR,
    "CHECKPOINT_DISAGREES": _ERROR,
    "INCOMPLETE_CHECKPOINT": _WARNING,
    "SIDECAR_MISSING": _ERROR,
    "LAST_CHECKPOINT_INVALID": _ERROR,
    "CHECKSUM_DISAGREES": _ERROR,
    "CHECKSUM_UNREADABLE": _WARNING,
    "TABLE_UNREADABLE": _ERROR,
    "PATH_OUTSIDE_TABLE": _ERROR,
    "DUPLICATE_FILE": _ERROR,
    "INVALID_PARTITION_VALUE": _ERROR,
    "DATA_FILE_MISSING": _ERROR,
    "DATA_FILE_SIZE": _ERROR,
    "DATA_FILE_UNREADABLE": _ERROR,
    "DELETION_VECTOR_MISSING": _ERROR,
    "CORRUPT_DELETION_VECTOR": _ERROR,
    "WRONG_ROW_COUNT": _ERROR,
    "WRONG_STATISTICS": _ERROR,
}
"""Every code that a problem can have, and its severity."""


class Findings:
    """Gathers problems and counts while a table is verified."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._told: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()
        self._checked: Counter[str] = Counter()

    def add(self, code: str, where: str, message: str) -> None:
        """Note a problem."""
        if self._told[code] < TOLD_ONE_BY_ONE:
            self._told[code] += 1
            self._problems.append(Problem(PROBLEM_CODES[code], code, where, message))
        else:
            self._untold[code] += 1

    def add_untold(self, code: str, number: int) -> None:
        """Note further problems of a kind by their number alone."""
        self._untold[code] += number

    def checked(self, what: str, number: int = 1) -> None:
        """Note that something was looked at."""
        self._checked[what] += number

    def has(self, *codes: str) -> bool:
        """Whether a problem of one of these codes was found."""
        return any(self._told[code] for code in codes)

    def report(self, root: str) -> VerificationReport:
        """Everything that was found."""
        more = [
            Problem(PROBLEM_CODES[code], code, root, f"{number:,} more problems of this kind")
            for code, number in self._untold.items()
            if number
        ]
        found = dict(self._told + self._untold)
        return VerificationReport((*self._problems, *more), found, dict(self._checked))
