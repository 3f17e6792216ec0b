"""A small Delta table to try things on: `orders`, partitioned by country, five versions.

The package has no writer yet, so this sample is made by hand: Parquet files by pyarrow, commits as JSON text
(S4, "Delta log entries"). Version 0 creates the table, 1 to 3 append, 4 deletes two orders by rewriting their
file. The rows of every version come with it, so that reading it back can be checked.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Row = Mapping[str, Any]
Action = Mapping[str, Any]

FIRST_COMMIT = datetime(2024, 3, 1, 8, 0, tzinfo=UTC)
COUNTRIES = ("DE", "FR", "NL")
DELETED_ORDERS = frozenset({3, 9})
DATA_SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("ordered_at", pa.timestamp("us", "UTC")),
    ]
)
DELTA_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": type_name, "nullable": True, "metadata": {}}
        for name, type_name in [
            ("order_id", "long"),
            ("customer", "string"),
            ("amount", "decimal(10,2)"),
            ("ordered_at", "timestamp"),
            ("country", "string"),
        ]
    ],
}


@dataclass(frozen=True, slots=True)
class SampleTable:
    """Where the table lies and which rows each of its versions has."""

    path: Path
    rows_by_version: tuple[tuple[Row, ...], ...]


def make_sample_table(path: Path) -> SampleTable:
    """Write the table below a folder that has none yet."""
    (path / "_delta_log").mkdir(parents=True)
    versions: list[tuple[Row, ...]] = [()]
    _commit(path, 0, "CREATE TABLE", [_protocol(), _metadata()])
    for version in (1, 2, 3):
        rows = _orders(version)
        files = [_add_file(path, version, country, rows) for country in COUNTRIES]
        _commit(path, version, "WRITE", [{"add": file} for file in files])
        versions.append((*versions[-1], *rows))
    _commit(path, 4, "DELETE", _delete_orders(path, 4, _orders(1)))
    versions.append(tuple(row for row in versions[-1] if row["order_id"] not in DELETED_ORDERS))
    return SampleTable(path, tuple(versions))


def _orders(version: int) -> list[Row]:
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


def _delete_orders(path: Path, version: int, rows: list[Row]) -> list[Action]:
    """Rewrite the one file that has the deleted orders (copy on write)."""
    country = COUNTRIES[0]
    kept = [row for row in rows if row["order_id"] not in DELETED_ORDERS]
    remove = {
        "path": _file_name(1, country),
        "deletionTimestamp": _milliseconds(_commit_time(version)),
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {"country": country},
        "size": (path / _file_name(1, country)).stat().st_size,
    }
    return [{"remove": remove}, {"add": _add_file(path, version, country, kept)}]


def _add_file(path: Path, version: int, country: str, rows: Iterable[Row]) -> Action:
    """Write the rows of one country and describe the file as an `add` action does."""
    mine = [row for row in rows if row["country"] == country]
    data = pa.Table.from_pylist(mine, DATA_SCHEMA)
    file = path / _file_name(version, country)
    file.parent.mkdir(exist_ok=True)
    pq.write_table(data, file)
    return {
        "path": _file_name(version, country),
        "partitionValues": {"country": country},
        "size": file.stat().st_size,
        "modificationTime": _milliseconds(_commit_time(version)),
        "dataChange": True,
        "stats": _json(_statistics(data)),
    }


def _file_name(version: int, country: str) -> str:
    return f"country={country}/part-{version:05d}.parquet"


def _statistics(data: pa.Table) -> Mapping[str, Any]:
    bounds = {name: pc.min_max(data.column(name)).as_py() for name in ("order_id", "customer", "amount")}
    known = {name: bound for name, bound in bounds.items() if bound["min"] is not None}
    return {
        "numRecords": data.num_rows,
        "minValues": {name: bound["min"] for name, bound in known.items()},
        "maxValues": {name: bound["max"] for name, bound in known.items()},
        "nullCount": {name: data.column(name).null_count for name in data.column_names},
    }


def _protocol() -> Action:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def _metadata() -> Action:
    return {
        "metaData": {
            "id": "5e4b2c1a-0d3f-4b6e-9a87-2f1c0d9e8b7a",
            "name": "orders",
            "description": "Orders of a small shop, made by `distributary demo`",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": _json(DELTA_SCHEMA),
            "partitionColumns": ["country"],
            "configuration": {},
            "createdTime": _milliseconds(FIRST_COMMIT),
        }
    }


def _commit(path: Path, version: int, operation: str, actions: list[Action]) -> None:
    commit_info = {
        "timestamp": _milliseconds(_commit_time(version)),
        "operation": operation,
        "operationParameters": {"predicate": f"order_id IN {sorted(DELETED_ORDERS)}"}
        if operation == "DELETE"
        else {},
        "engineInfo": "distributary demo",
    }
    lines = [_json(action) for action in ({"commitInfo": commit_info}, *actions)]
    file = path / "_delta_log" / f"{version:020d}.json"
    file.write_text("\n".join(lines) + "\n")
    moment = _commit_time(version).timestamp()
    os.utime(file, (moment, moment))


def _commit_time(version: int) -> datetime:
    return FIRST_COMMIT + timedelta(days=version)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _json(value: Any) -> str:
    return msgspec.json.Encoder(decimal_format="number").encode(value).decode()
