"""A small Delta table to try things on: `orders`, partitioned by country, five versions.

Version 0 creates the table, 1 to 3 append, 4 replaces the orders of one country without two of them. The rows
of every version come with it, so that reading it back can be checked. The files of the log get the times of a
few days in March 2024, so that there is something to travel to.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from distributary.delta.table import DeltaTable

Row = Mapping[str, Any]

FIRST_COMMIT = datetime(2024, 3, 1, 8, 0, tzinfo=UTC)
COUNTRIES = ("DE", "FR", "NL")
DELETED_ORDERS = frozenset({3, 9})
SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("ordered_at", pa.timestamp("us", "UTC")),
        ("country", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class SampleTable:
    """Where the table lies and which rows each of its versions has."""

    path: Path
    rows_by_version: tuple[tuple[Row, ...], ...]


def make_sample_table(path: Path, *, change_feed: bool = True) -> SampleTable:
    """Write the table below a folder that has none yet."""
    table = DeltaTable.create(
        path,
        SCHEMA,
        partition_by=["country"],
        name="orders",
        properties={"delta.enableChangeDataFeed": "true"} if change_feed else None,
        description="Orders of a small shop, made by `distributary demo`",
    )
    date_commit(path, 0)
    versions: list[tuple[Row, ...]] = [()]
    for version in (1, 2, 3):
        rows = new_orders(version)
        table.append(_arrow(rows))
        date_commit(path, version)
        versions.append((*versions[-1], *rows))
    kept = tuple(row for row in versions[-1] if row["order_id"] not in DELETED_ORDERS)
    country = COUNTRIES[0]
    mended = [row for row in kept if row["country"] == country]
    table.overwrite(_arrow(mended), replace_where=f"country = '{country}'")
    date_commit(path, 4)
    return SampleTable(path, (*versions, kept))


def new_orders(version: int) -> list[Row]:
    """Give the twelve orders that a version appends, the same on every run."""
    dice = random.Random(version)
    first = (version - 1) * 12
    return [
        {
            "order_id": first + n,
            "customer": dice.choice(("Ada", "Blaise", "Carl", "Emmy", None)),
            "amount": Decimal(dice.randrange(500, 25_000)).scaleb(-2),
            "ordered_at": _commit_time(version) - timedelta(minutes=dice.randrange(1, 1440)),
            "country": COUNTRIES[n % len(COUNTRIES)],
        }
        for n in range(12)
    ]


def _arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], SCHEMA)


def date_commit(path: Path, version: int) -> None:
    """Give the log entry of a version the time of its commit."""
    moment = _commit_time(version).timestamp()
    os.utime(path / "_delta_log" / f"{version:020d}.json", (moment, moment))


def _commit_time(version: int) -> datetime:
    return FIRST_COMMIT + timedelta(days=version)
