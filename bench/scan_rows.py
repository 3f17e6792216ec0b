"""Reading rows: whole tables, few columns, few rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from case import OURS, Case, Clock, Sizes

TITLE = "Reading rows"
INTRODUCTION = """\
Eight columns in twelve files, ordered by key. Every engine leaves the rows in memory in its own Arrow form.
Sums over columns of the result are compared after the clock has stopped. deltalake reads in two ways: as a
pyarrow dataset (`to_pyarrow_dataset`), and by DataFusion (`QueryBuilder`)."""

DECODER = (
    "Ours decodes Parquet with Arrow C++, and a full scan takes about the CPU that Arrow C++ alone takes for "
    "the same files. Polars, DuckDB and DataFusion have decoders of their own; what makes two of them "
    "quicker was not examined."
)
ENGINES = (OURS, "deltalake_pyarrow", "deltalake_datafusion", "polars", "duckdb")


def cases(sizes: Sizes) -> list[Case]:
    """Full scan, narrow scan and filtered scans."""
    data, group = f"rows-{sizes.rows}", f"{sizes.rows:,} rows"
    low, high = sizes.rows // 2, sizes.rows // 2 + sizes.rows // 200
    two = {"columns": ["category", "amount"]}
    return [
        Case("scan", "all rows, all columns", "scan", data, ENGINES, group=group, remark=DECODER),
        Case("scan-2", "all rows, 2 of 8 columns", "scan", data, ENGINES, two, group),
        Case("scan-key", "0.5 % of rows by a range of the key, all columns", "scan", data, ENGINES,
             {"where": ["key", low, high]}, group),
        Case("scan-value", "0.1 % of rows by a value spread over all files, all columns", "scan", data,
             ENGINES, {"where": ["amount", 500.0, 501.0]}, group),
    ]  # fmt: skip


Range = tuple[str, float, float]


def distributary_scan(
    clock: Clock, folder: Path, columns: Sequence[str] | None = None, where: Range | None = None
) -> object:
    from distributary.delta.table import DeltaTable

    predicate = None if where is None else _sql(where)
    with clock:
        table = DeltaTable(folder).snapshot().to_arrow(columns, predicate)
    return _sums(table)


def deltalake_pyarrow_scan(
    clock: Clock, folder: Path, columns: Sequence[str] | None = None, where: Range | None = None
) -> object:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    rows = None
    if where is not None:
        name, low, high = where
        rows = (ds.field(name) >= low) & (ds.field(name) <= high)
    with clock:
        table = DeltaTable(folder).to_pyarrow_dataset().to_table(columns=columns, filter=rows)
    return _sums(table)


def deltalake_datafusion_scan(
    clock: Clock, folder: Path, columns: Sequence[str] | None = None, where: Range | None = None
) -> object:
    from deltalake import DeltaTable, QueryBuilder

    with clock:
        query = QueryBuilder().register("t", DeltaTable(folder))
        table = query.execute(_query("t", columns, where)).read_all()
    return _sums(table)


def polars_scan(
    clock: Clock, folder: Path, columns: Sequence[str] | None = None, where: Range | None = None
) -> object:
    import polars as pl

    with clock:
        frame = pl.scan_delta(str(folder))
        if where is not None:
            frame = frame.filter(pl.col(where[0]).is_between(where[1], where[2]))
        table = (frame if columns is None else frame.select(columns)).collect()
    return _sums(table.to_arrow())


def duckdb_scan(
    clock: Clock, folder: Path, columns: Sequence[str] | None = None, where: Range | None = None
) -> object:
    from duckdb_delta import connect

    connection = connect()
    connection.execute("SET TimeZone = 'UTC'")
    with clock:
        table = connection.execute(_query(f"delta_scan('{folder}')", columns, where)).to_arrow_table()
    return _sums(table)


def _query(source: str, columns: Sequence[str] | None, where: Range | None) -> str:
    names = "*" if columns is None else ", ".join(columns)
    return f"SELECT {names} FROM {source}" + ("" if where is None else f" WHERE {_sql(where)}")


def _sql(where: Range) -> str:
    name, low, high = where
    return f"{name} >= {low} AND {name} <= {high}"


def _sums(found: object) -> dict[str, object]:
    """Sums of numbers, lengths of texts: the same for the same rows in any order and any Arrow form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.table(found)
    sums: dict[str, object] = {"rows": table.num_rows}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_floating(kind):
            sums[name] = round(pc.sum(column).as_py(), 1)
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            sums[name] = pc.sum(column).as_py()
        elif pa.types.is_timestamp(kind):
            since = pc.subtract(column.cast(pa.timestamp("us")).cast(pa.int64()), 1_700_000_000_000_000)
            sums[name] = pc.sum(pc.divide(since, 1000)).as_py()
        elif pa.types.is_date(kind):
            sums[name] = pc.sum(column.cast(pa.int32())).as_py()
        else:
            texts = column.cast(pa.large_string()) if not pa.types.is_large_string(kind) else column
            sums[name] = pc.sum(pc.binary_length(texts)).as_py()
    return sums
