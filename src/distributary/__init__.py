"""Distributary shares live Delta tables: reads and writes them today, serves them as the project grows.

``import distributary as ds`` costs next to nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributary.delta.table import DeltaTable
    from distributary.delta.table_snapshot import TableSnapshot
    from distributary.errors import DistributaryError
    from distributary.expressions.tree import col

__version__ = "0.1.0"

__all__ = ["DeltaTable", "DistributaryError", "TableSnapshot", "__version__", "col"]

_HOMES = {
    "DeltaTable": "distributary.delta.table",
    "TableSnapshot": "distributary.delta.table_snapshot",
    "DistributaryError": "distributary.errors",
    "col": "distributary.expressions.tree",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
