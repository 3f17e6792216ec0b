"""Delta tables on Spark, with nothing but packages from PyPI.

Each name below is imported when it is first used, so that importing this package starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributary.spark.session import register, session
    from distributary.spark.table_scan import read_table

__all__ = ["read_table", "register", "session"]

_HOMES = {
    "read_table": "distributary.spark.table_scan",
    "register": "distributary.spark.session",
    "session": "distributary.spark.session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
