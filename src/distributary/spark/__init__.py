"""Delta tables on Spark, with nothing but packages from PyPI.

Each name below is imported when it is first used, so that importing this package starts nothing. No module
has the name of a function here: importing the module would hide the function.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributary.spark.change_feed import read_changes
    from distributary.spark.delta_table import DeltaTable
    from distributary.spark.format_source import register_format
    from distributary.spark.spark_session import register, session
    from distributary.spark.statements.execution import sql
    from distributary.spark.streaming_write import write_stream
    from distributary.spark.table_registry import register_table
    from distributary.spark.table_scan import count_rows, read_table
    from distributary.spark.table_stream import read_stream
    from distributary.spark.table_write import write_table

__all__ = [
    "DeltaTable",
    "count_rows",
    "read_changes",
    "read_stream",
    "read_table",
    "register",
    "register_format",
    "register_table",
    "session",
    "sql",
    "write_stream",
    "write_table",
]

_HOMES = {
    "DeltaTable": "distributary.spark.delta_table",
    "count_rows": "distributary.spark.table_scan",
    "read_changes": "distributary.spark.change_feed",
    "read_stream": "distributary.spark.table_stream",
    "register_format": "distributary.spark.format_source",
    "register_table": "distributary.spark.table_registry",
    "sql": "distributary.spark.statements.execution",
    "write_stream": "distributary.spark.streaming_write",
    "write_table": "distributary.spark.table_write",
    "read_table": "distributary.spark.table_scan",
    "register": "distributary.spark.spark_session",
    "session": "distributary.spark.spark_session",
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
