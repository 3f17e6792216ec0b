"""deltalake as a server on standard input and output: one JSON line a request, one an answer."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake


def rows(path: str, out: str, version: int | None = None) -> int:
    """Rows through DataFusion: `to_pyarrow_table` knows neither column mapping nor deletion vectors."""
    table = DeltaTable(path, version=version)
    _store(pa.table(QueryBuilder().register("t", table).execute("select * from t")), out)
    return table.version()


def view(path: str, out: str) -> dict[str, Any]:
    table = DeltaTable(path)
    rows(path, out)
    metadata, protocol = table.metadata(), table.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return {
        "version": table.version(),
        "schema": json.loads(table.schema().to_json()),
        "partition_columns": metadata.partition_columns,
        "properties": metadata.configuration,
        "operations": [entry.get("operation") for entry in reversed(table.history())],
        "features": sorted(features),
    }


def matching(path: str, condition: str) -> list[int]:
    """The ids of the rows that satisfy a condition."""
    query = QueryBuilder().register("t", DeltaTable(path))
    return pa.table(query.execute(f"select id from t where {condition}")).column("id").to_pylist()


def append(path: str, rows: str) -> int:
    write_deltalake(path, _load(rows), mode="append")
    return DeltaTable(path).version()


def delete(path: str, predicate: str) -> int:
    table = DeltaTable(path)
    table.delete(predicate)
    return table.version()


def update(path: str, values: dict[str, str], predicate: str) -> int:
    table = DeltaTable(path)
    table.update(values, predicate=predicate)
    return table.version()


def optimize(path: str) -> int:
    table = DeltaTable(path)
    table.optimize.compact()
    return table.version()


def checkpoint(path: str) -> None:
    DeltaTable(path).create_checkpoint()


def _store(table: pa.Table, out: str) -> None:
    with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _load(path: str) -> pa.Table:
    with pa.OSFile(path, "rb") as source:
        return pa.ipc.open_file(source).read_all()


SERVED = (rows, view, matching, append, delete, update, optimize, checkpoint)
OPERATIONS = {function.__name__: function for function in SERVED}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": OPERATIONS[request.pop("op")](**request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
