"""Spark: writing, scanning, changing and maintaining tables, beside delta-spark and plain Parquet.

All engines run on the PySpark of the environment that has delta-spark's jars. Each has a lasting process,
since a JVM that has just started says nothing about either. The tables that a case changes are copies, made
of hard links before the clock starts.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from case import OURS, Case, Clock, Sizes, Target
from spark_engines import DELTA, PARQUET, DeltaSpark, Distributary, Engine, Parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LASTING = True
TITLE = "Spark"
INTRODUCTION = """\
Eight columns in eight files, `local[2]`, every engine on the same PySpark, in a lasting process each, warmed
up with all of its work on a small table. delta-spark is tuned for two cores (`snapshotPartitions=2`, listing
by two tasks) and has its session extension and catalog. All write zstd at level 1. Changes hit one row in a
hundred, in every file; the merge brings as many rows, nine tenths of them to be updated. Tables are opened
anew where opening is what is measured. CPU counts the JVM and Python."""

VERSIONS = {"delta-spark": "4.4.0"}
WHOLE_ROWS = (
    "An update by deletion vectors reads whole rows of every file that has one to change, here of all files: "
    "it cannot take less than a scan of the table does. Ours adds little to that."
)
BOTH, ALL = (OURS, DELTA), (OURS, DELTA, PARQUET)
WARM_UP_ROWS = 20_000
CENTS = "sum(cast(round(amount * 100) as bigint))"
VECTORS, REWRITE = "by deletion vectors", "by rewriting files"


def cases(sizes: Sizes) -> list[Case]:
    """Every row of the peers' tables."""
    group = f"{sizes.rows:,} rows"
    return [*_plain_cases(group, sizes.rows), *_change_cases(group, sizes.rows), *_other_cases(sizes)]


def _plain_cases(group: str, rows: int) -> list[Case]:
    data, size = "empty-0", {"rows": rows}
    beside = (Target(DELTA, 1.0), Target(PARQUET, 1.15))
    half = (Target(DELTA, 0.5),)
    append = {"rows": rows, "more": max(rows // 10, 1)}
    return [
        Case("spark-create", "create", "create", data, ALL, size, group, targets=beside),
        Case("spark-append", "append a tenth", "append", data, ALL, append, group, targets=beside),
        Case("spark-scan", "scan and aggregate", "aggregate", data, ALL, size, group, targets=beside),
        Case("spark-filter", "filter on the key", "look_up", data, ALL, size, group, targets=half),
    ]


def _change_cases(group: str, rows: int) -> list[Case]:
    cases: list[Case] = []
    for way, most in ((VECTORS, 0.5), (REWRITE, 0.7)):
        arguments = {"rows": rows, "vectors": way == VECTORS}
        short = "dv" if way == VECTORS else "rewrite"
        cases += [
            Case(f"spark-{work}-{short}", f"{title}, {way}", work, "empty-0", BOTH, arguments, group,
                 targets=(Target(DELTA, most),),
                 remark=WHOLE_ROWS if (work, way) == ("update", VECTORS) else "")
            for work, title in (("delete", "delete 1 %"), ("update", "update 1 %"), ("merge", "merge 1 %"))
        ]  # fmt: skip
    scan = {"rows": rows, "deleted": True}
    return [
        *cases,
        Case("spark-scan-dv", "scan and aggregate after a delete by deletion vectors", "aggregate", "empty-0",
             BOTH, scan, group, targets=(Target(DELTA, 1.0),)),
    ]  # fmt: skip


def _other_cases(sizes: Sizes) -> list[Case]:
    rows, parts = max(sizes.rows // 10, 200), 200 if sizes.rows > 1_000_000 else 20
    group = "Maintenance, streaming, planning"
    small = {"rows": rows, "files": parts}
    batches = {"batches": 20 if sizes.rows > 1_000_000 else 3}
    cases = [
        Case("spark-compact", f"compact {parts} files of {rows:,} rows", "compact", "empty-0", BOTH,
             small, group),
        Case("spark-vacuum", f"vacuum after that, dry run ({parts} old files)", "vacuum", "empty-0", BOTH,
             small, group),
        Case("spark-stream", f"streaming append of {batches['batches']} batches", "stream", "empty-0", ALL,
             batches, group),
    ]  # fmt: skip
    for files in sorted({10_000, min(max(sizes.files), 100_000)}):
        cases.append(
            Case(f"spark-plan-{files}", f"open {files:,} files and count the rows of one by its key", "plan",
                 f"log-{files}", BOTH, {"files": files}, group, targets=(Target(DELTA, 0.5),))
        )  # fmt: skip
    return cases


# The work, written once. measure.py calls it by the names of engine and work, which are given at the end.


def base(engine: Any, rows: int, *, vectors: bool = False, deleted: bool = False) -> Path:
    """A table that is made once and never changed."""
    key = (rows, vectors, deleted)
    if key not in engine.bases:
        place = engine.scratch / f"base-{rows}-{vectors}-{deleted}"
        engine.write(generated(engine.spark, rows), place, vectors=vectors)
        if deleted:
            engine.delete(place)
        engine.bases[key] = place
    return engine.bases[key]


def generated(spark: SparkSession, rows: int, start: int = 0) -> DataFrame:
    """Rows of eight columns, ordered by key, in eight files."""
    return spark.range(start, start + rows, 1, 8 if rows > 1000 else 1).selectExpr(
        "id",
        "cast(pmod(hash(id), 1000000) as int) as account",
        "concat('category-', id % 20) as category",
        "cast(pmod(hash(id, 1), 100000) as double) / 100 as amount",
        "cast(id % 7 as int) as quantity",
        "date_add(date'2024-01-01', cast(id % 365 as int)) as day",
        "timestamp_seconds(1700000000 + id) as at",
        "concat('note ', hash(id, 2)) as note",
    )


def merged(spark: SparkSession, rows: int) -> DataFrame:
    """One row in a hundred: nine tenths to be updated, the others new."""
    count = max(rows // 100, 10)
    old = spark.range(count * 9 // 10).selectExpr("id * 100 + 3 as id")
    new = spark.range(rows, rows + count - count * 9 // 10)
    whole = generated(spark, rows + count).drop("amount").selectExpr("*", "0.5D as amount")
    columns = generated(spark, 1).columns
    return whole.join(old.union(new), "id").select(columns)


def check(table: DataFrame) -> list[object]:
    """What shows that the rows are the right ones."""
    return list(table.selectExpr("count(*)", "sum(id)", CENTS).first() or [])


_engine: Engine | None = None


def started() -> Any:
    assert _engine is not None
    return _engine


def start(kind: Callable[[Path], Engine], scratch: Path) -> None:
    """Start an engine and let it do each kind of work once."""
    global _engine
    _engine = kind(scratch)
    here = globals()
    for work in ("create", "append", "aggregate", "look_up", "stream", *CHANGES):
        if f"{_engine.name}_{work}" in here:
            here[f"{_engine.name}_{work}"](Clock(), scratch, **_small(work))


CHANGES = ("delete", "update", "merge", "compact", "vacuum")


def _small(work: str) -> dict[str, int]:
    if work in ("compact", "vacuum"):
        return {"rows": WARM_UP_ROWS, "files": 4}
    if work == "append":
        return {"rows": WARM_UP_ROWS, "more": 1000}
    return {"batches": 2} if work == "stream" else {"rows": WARM_UP_ROWS}


def create(clock: Clock, folder: Path, rows: int) -> object:
    engine, place = started(), started().fresh()
    with clock:
        engine.write(generated(engine.spark, rows), place)
    return _finished(check(engine.read(place)), place)


def append(clock: Clock, folder: Path, rows: int, more: int) -> object:
    engine = started()
    place = engine.copy(base(engine, rows))
    with clock:
        engine.write(generated(engine.spark, more, rows), place, append=True)
    return _finished(check(engine.read(place)), place)


def aggregate(clock: Clock, folder: Path, rows: int, deleted: bool = False) -> object:
    engine = started()
    place = base(engine, rows, vectors=deleted, deleted=deleted)
    # All of them hashed: an aggregate that makes Spark sort all rows would say nothing about the scan.
    wanted = ("count(*)", "sum(amount)", "max(at)", "sum(length(note))", "sum(quantity)")
    with clock:
        table = engine.read(place)
        found = table.groupBy("category").agg(*map(_expression, wanted)).collect()
    return sorted([_text(value) for value in row] for row in found)


def look_up(clock: Clock, folder: Path, rows: int) -> object:
    engine = started()
    place = base(engine, rows)
    with clock:
        found = engine.read(place).where(f"id = {rows * 3 // 4}").collect()
    return [[str(value) for value in row] for row in found]


def _change(clock: Clock, rows: int, vectors: bool, change: Callable[[Any, Path], None]) -> object:
    engine = started()
    place = engine.copy(base(engine, rows, vectors=vectors))
    with clock:
        change(engine, place)
    return _finished(check(engine.read(place)), place)


def delete(clock: Clock, folder: Path, rows: int, vectors: bool = True) -> object:
    return _change(clock, rows, vectors, lambda engine, place: engine.delete(place))


def update(clock: Clock, folder: Path, rows: int, vectors: bool = True) -> object:
    return _change(clock, rows, vectors, lambda engine, place: engine.update(place))


def merge(clock: Clock, folder: Path, rows: int, vectors: bool = True) -> object:
    engine = started()
    source = engine.scratch / f"source-{rows}"
    if not source.exists():
        merged(engine.spark, rows).coalesce(2).write.parquet(str(source))
    rows_of = engine.spark.read.parquet(str(source))
    return _change(clock, rows, vectors, lambda engine, place: engine.merge(place, rows_of))


def fragmented(engine: Any, rows: int, files: int, *, compacted: bool = False) -> Path:
    """A table of many files, or what is left of it when they were compacted; made once and never changed."""
    key = (rows, files, compacted)
    if key not in engine.bases:
        place = engine.scratch / f"fragmented-{rows}-{files}-{compacted}"
        engine.write(generated(engine.spark, rows).repartitionByRange(files, "id"), place)
        if compacted:
            engine.compact(place)
        engine.bases[key] = place
    return engine.bases[key]


def compact(clock: Clock, folder: Path, rows: int, files: int) -> object:
    engine = started()
    place = engine.copy(fragmented(engine, rows, files))
    with clock:
        engine.compact(place)
    return _finished([*check(engine.read(place)), len(engine.read(place).inputFiles())], place)


def vacuum(clock: Clock, folder: Path, rows: int, files: int) -> object:
    engine = started()
    place = fragmented(engine, rows, files, compacted=True)
    with clock:
        engine.vacuum(place)
    return None


def stream(clock: Clock, folder: Path, batches: int) -> object:
    engine, place, checkpoint = started(), started().fresh(), started().fresh()
    incoming = engine.scratch / f"incoming-{batches}"
    for number in range(batches if not incoming.exists() else 0):
        generated(engine.spark, 1000, number * 1000).coalesce(1).write.mode("append").parquet(str(incoming))
    reader = engine.spark.readStream.schema(generated(engine.spark, 1).schema)
    rows = reader.option("maxFilesPerTrigger", 1).parquet(str(incoming))
    with clock:
        engine.stream(rows, place, checkpoint).awaitTermination()
    return _finished(check(engine.read(place)), place)


def plan(clock: Clock, folder: Path, files: int) -> object:
    engine = started()
    number = files * 3 // 4
    _put_rows(folder, files, number)
    place = engine.copy(folder)  # delta-spark keeps what it has opened once
    with clock:
        found = engine.read(place).where(f"id = {number * 1000 + 5}").count()
    return _finished([found], place)


def _put_rows(folder: Path, files: int, number: int) -> None:
    """Write the one data file of a fabricated table that the query needs."""
    import pyarrow as pa
    from fabricated_log import FIRST_SIZE, ROWS_PER_FILE, file_columns

    (path,), _, _ = file_columns(number, number + 1, max(files // 1000, 1))
    place = folder / path
    place.parent.mkdir(exist_ok=True)
    ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
    names, halves = [f"name-{one:09d}" for one in ids], [one * 0.5 for one in ids]
    rows = pa.table({"id": pa.array(ids, pa.int64()), "name": names, "value": halves})
    place.write_bytes(_of_size(rows, FIRST_SIZE + number))


def _of_size(rows: Any, size: int) -> bytes:
    """A Parquet file of so many bytes, since readers look for the footer where the log says a file ends."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    padding, content = 0, b""
    while len(content) != size:
        padding += max(size - len(content), -padding) if content else 0
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"padding": "x" * padding})
        content = sink.getvalue().to_pybytes()
    return content


def _text(value: object) -> str:
    """A value as text; the last digits of a sum of floats depend on the order of rows."""
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _expression(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)


def _finished(result: object, place: Path) -> object:
    shutil.rmtree(place, ignore_errors=True)
    return None if result is None else [str(value) for value in result]  # type: ignore[attr-defined]


def distributary_warm_up(scratch: Path) -> None:
    start(Distributary, scratch)


def delta_spark_warm_up(scratch: Path) -> None:
    start(DeltaSpark, scratch)


def parquet_warm_up(scratch: Path) -> None:
    start(Parquet, scratch)


_WORK = (create, append, aggregate, look_up, stream, plan, delete, update, merge, compact, vacuum)
for _engine_name in ALL:
    for _work in _WORK[: 5 if _engine_name == PARQUET else None]:
        globals()[f"{_engine_name}_{_work.__name__}"] = _work
