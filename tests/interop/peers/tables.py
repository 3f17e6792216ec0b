"""Tables that we write and others read: each with the rows that it must have, made without our reader."""

from __future__ import annotations

import datetime
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

import distributary as ds
from distributary.delta.commit.post_commit import clean_up
from distributary.delta.log.checkpoint_writer import write_checkpoint
from distributary.delta.schema.data_types import DATE, INTEGER, LONG, STRING, StructField, StructType

UTC = datetime.UTC
NOTHING = datetime.timedelta(0)
NAME = {"delta.columnMapping.mode": "name"}


@dataclass(frozen=True)
class Written:
    """A table of ours and what any engine must find in it; `limits` says what a peer cannot do with it."""

    table: ds.DeltaTable
    rows: pa.Table
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return unquote(self.table.uri.removeprefix("file://"))


Maker = Callable[[Path], Written]
MAKERS: dict[str, Maker] = {}


def maker(function: Maker) -> Maker:
    """Register a table by the name of the function that makes it."""
    MAKERS[function.__name__] = function
    return function


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a_string": (pa.string(), ["", "plain", "ünï ☃ 😀", "x" * 100, "line\nbreak\t\"quoted\" \\", None]),
    "a_byte": (pa.int8(), [-128, 127, 0, 1, None, -1]),
    "a_short": (pa.int16(), [-32768, 32767, 0, None, 1, -1]),
    "an_integer": (pa.int32(), [-(2**31), 2**31 - 1, 0, None, 1, -1]),
    "a_long": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, 0, None, -1]),
    "a_float": (pa.float32(), [1.5, -0.0, math.inf, -math.inf, math.nan, None]),
    "a_double": (pa.float64(), [1e300, -0.0, math.inf, -math.inf, math.nan, None]),
    "a_boolean": (pa.bool_(), [True, False, None, True, False, None]),
    "a_binary": (pa.binary(), [b"", b"\x00\xff", b"text", None, b"\n", b"\x80" * 40]),
    "a_date": (
        pa.date32(),
        [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1), None,
         datetime.date(1582, 10, 4), datetime.date(2024, 2, 29)],
    ),
    "a_timestamp": (
        pa.timestamp("us", "UTC"),
        [moment("1900-01-01T00:00:00"), moment("9999-12-31T23:59:59.999999"),
         moment("1970-01-01T00:00:00.000001"), None,
         moment("2024-02-29T12:34:56.789012"), moment("1969-12-31T23:59:59.999999")],
    ),
    "a_timestamp_ntz": (
        pa.timestamp("us"),
        [local("1900-01-01T00:00:00"), local("9999-12-31T23:59:59.999999"),
         local("1970-01-01T00:00:00.000001"), None,
         local("2024-02-29T12:34:56.789012"), local("1969-12-31T23:59:59.999999")],
    ),
    "a_decimal": (
        pa.decimal128(38, 10),
        [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), Decimal(0), None, Decimal("1.5"),
         Decimal(-7)],
    ),
    "a_small_decimal": (
        pa.decimal128(5, 2),
        [Decimal("999.99"), Decimal("-999.99"), Decimal("0.01"), Decimal(0), None, Decimal("1.50")],
    ),
}  # fmt: skip

NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a_struct": (
        pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string()), ("when", pa.date32())]))]),
        [{"x": 1, "y": {"z": "a", "when": datetime.date(2024, 1, 1)}}, {"x": None, "y": None}, None,
         {"x": 2, "y": {"z": None, "when": None}}, {"x": 3, "y": {"z": "", "when": None}}, None],
    ),
    "a_list": (pa.list_(pa.int32()), [[1, 2, None], [], None, [3], [None], [4, 5]]),
    "a_map": (
        pa.map_(pa.string(), pa.float64()),
        [[("a", 1.0), ("b", None)], [], None, [("ü", math.nan)], [("", 0.0)], [("c", 2.5)]],
    ),
    "deep": (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.decimal128(10, 2))))])),
        [[{"m": [("k", [Decimal("1.00"), None])]}, None], [], None, [{"m": None}], [{"m": []}],
         [{"m": [("e", [])]}]],
    ),
}  # fmt: skip

# Texts that a partition's directory and its value in the log must both survive.
NASTY = ["a b", "ü☃", "a/b", "a=b", "100%", "%20", "q'uo\"te", "x:y", "a#b?c&d+e", "{}[]", " lead", "trail ",
         "back\\slash", "tab\there", "new\nline", "*", "..", "__x", "日本", "CON", "null",
         "~", "|", "^`"]  # fmt: skip


def columns(source: Mapping[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """A table of these columns, in front of them the number of the row."""
    arrays = {name: pa.array(values, kind) for name, (kind, values) in source.items()}
    count = len(next(iter(arrays.values())))
    return pa.table({"id": pa.array(range(count), pa.int64()), **arrays})


def numbers(*ids: int, place: str = "a") -> pa.Table:
    """Simple rows: a number, a text made of it, and a place."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "value": pa.array([f"value {i}" for i in ids], pa.string()),
            "place": pa.array([place] * len(ids), pa.string()),
        }
    )


def both(*parts: pa.Table) -> pa.Table:
    return pa.concat_tables(parts, promote_options="permissive")


def age(folder: Path, days: float = 60) -> None:
    """Make every file of a table older."""
    then = time.time() - days * 86400
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def simple(path: Path, **options: Any) -> ds.DeltaTable:
    return ds.DeltaTable.create(path, numbers().schema, **options)


# Rows of every kind


@maker
def every_type_with_nulls_and_extremes(path: Path) -> Written:
    rows = columns({**VALUES, **NESTED})
    table = ds.DeltaTable.create(path, rows.schema)
    table.append(rows.slice(0, 4))
    table.append(rows.slice(4))
    return Written(table, rows)


@maker
def every_type_checkpointed(path: Path) -> Written:
    """Statistics of every type as typed columns of a checkpoint."""
    rows = columns({**VALUES, **NESTED})
    table = ds.DeltaTable.create(path, rows.schema)
    for at in range(rows.num_rows):
        table.append(rows.slice(at, 1))
    table.checkpoint()
    return Written(table, rows)


@maker
def no_rows(path: Path) -> Written:
    rows = columns({**VALUES, **NESTED}).slice(0, 0)
    return Written(ds.DeltaTable.create(path, rows.schema, description="nothing", name="n"), rows)


@maker
def partitioned_by_every_type(path: Path) -> Written:
    """Every value of every type as a partition value; empty text and empty bytes are null (PV-001)."""
    source = {name: (kind, values) for name, (kind, values) in VALUES.items() if name != "a_binary"}
    rows = columns(source)
    table = ds.DeltaTable.create(path, rows.schema, partition_by=list(source))
    table.append(rows)
    texts = [value or None for value in rows.column("a_string").to_pylist()]
    at = rows.column_names.index("a_string")
    return Written(table, rows.set_column(at, "a_string", pa.array(texts, pa.string())))


@maker
def partitioned_by_nasty_texts(path: Path) -> Written:
    rows = pa.table({"id": pa.array(range(len(NASTY)), pa.int64()), "p q": pa.array(NASTY, pa.string())})
    table = ds.DeltaTable.create(path, rows.schema, partition_by=["p q"], properties=NAME)
    table.append(rows)
    table.append(rows)
    table.checkpoint()
    return Written(table, both(rows, rows))


@maker
def nasty_directories(path: Path) -> Written:
    """Without column mapping the partition's value is in the path of the file."""
    rows = pa.table({"id": pa.array(range(len(NASTY)), pa.int64()), "p": pa.array(NASTY, pa.string())})
    table = ds.DeltaTable.create(path / "a folder % with ü", rows.schema, partition_by=["p"])
    table.append(rows)
    return Written(table, rows)


# Features


@maker
def columns_mapped_by_name(path: Path) -> Written:
    rows = columns({**VALUES, **NESTED})
    table = ds.DeltaTable.create(path, rows.schema, properties=NAME, partition_by=["a_boolean"])
    table.append(rows)
    table.alter.rename_column("a_string", "text, with; odd {name}")
    table.alter.rename_column("a_struct.y.z", "zz")
    table.alter.drop_column("a_short")
    table.alter.rename_column("a_boolean", "truth")
    table.append(_renamed(rows))
    table.checkpoint()
    return Written(table, both(_renamed(rows), _renamed(rows)))


@maker
def columns_mapped_by_id(path: Path) -> Written:
    rows = columns({**VALUES, **NESTED})
    properties = {"delta.columnMapping.mode": "id"}
    table = ds.DeltaTable.create(path, rows.schema, properties=properties, partition_by=["a_boolean"])
    table.append(rows)
    table.alter.rename_column("a_string", "text, with; odd {name}")
    table.alter.rename_column("a_struct.y.z", "zz")
    table.alter.drop_column("a_short")
    table.alter.rename_column("a_boolean", "truth")
    table.append(_renamed(rows))
    return Written(table, both(_renamed(rows), _renamed(rows)))


def _renamed(rows: pa.Table) -> pa.Table:
    names = {"a_string": "text, with; odd {name}", "a_boolean": "truth"}
    rows = rows.drop_columns(["a_short"])
    rows = rows.rename_columns([names.get(name, name) for name in rows.column_names])
    kind = pa.struct([("x", pa.int64()), ("y", pa.struct([("zz", pa.string()), ("when", pa.date32())]))])
    structs = [
        value and {"x": value["x"], "y": value["y"] and {"zz": value["y"]["z"], "when": value["y"]["when"]}}
        for value in rows.column("a_struct").to_pylist()
    ]
    return rows.set_column(rows.column_names.index("a_struct"), "a_struct", pa.array(structs, kind))


@maker
def mapping_switched_on_later(path: Path) -> Written:
    table = simple(path, partition_by=["place"])
    table.append(numbers(1, 2))
    table.alter.set_properties(NAME)
    table.alter.rename_column("value", "the value")
    table.append(numbers(3, place="b").rename_columns(["id", "the value", "place"]))
    return Written(
        table, both(numbers(1, 2), numbers(3, place="b")).rename_columns(["id", "the value", "place"])
    )


@maker
def in_commit_timestamps(path: Path) -> Written:
    table = simple(path, properties={"delta.enableInCommitTimestamps": "true"})
    table.append(numbers(1))
    table.append(numbers(2))
    return Written(table, numbers(1, 2))


@maker
def in_commit_timestamps_later(path: Path) -> Written:
    table = simple(path)
    table.append(numbers(1))
    table.alter.set_properties({"delta.enableInCommitTimestamps": "true"})
    table.append(numbers(2))
    table.checkpoint()
    return Written(table, numbers(1, 2))


@maker
def rules(path: Path) -> Written:
    """CHECK constraints, NOT NULL, an invariant, generated columns and defaults."""
    schema = StructType(
        (
            StructField("id", LONG, nullable=False),
            StructField("value", STRING),
            StructField("day", DATE),
            StructField("twice", LONG, metadata={"delta.generationExpression": "id * 2"}),
            StructField("year", INTEGER, metadata={"delta.generationExpression": "year(day)"}),
        )
    )
    table = ds.DeltaTable.create(path, schema, partition_by=["year"])
    table.alter.add_constraint("positive", "id > 0")
    table.alter.set_default("value", "'none'")
    day = datetime.date(2024, 2, 29)
    table.append(pa.table({"id": [1, 2], "day": pa.array([day, None], pa.date32())}))
    rows = {
        "id": [1, 2],
        "value": ["none"] * 2,
        "day": pa.array([day, None], pa.date32()),
        "twice": [2, 4],
        "year": pa.array([2024, None], pa.int32()),
    }
    return Written(table, pa.table(rows))


@maker
def row_tracking(path: Path) -> Written:
    table = simple(path, properties={"delta.enableRowTracking": "true"})
    table.append(numbers(1, 2, 3))
    table.append(numbers(4))
    table.checkpoint()
    table.append(numbers(5))
    return Written(table, numbers(1, 2, 3, 4, 5))


@maker
def change_data_feed(path: Path) -> Written:
    table = simple(path, properties={"delta.enableChangeDataFeed": "true"})
    table.append(numbers(1, 2))
    table.overwrite(numbers(3))
    return Written(table, numbers(3))


@maker
def deletion_vectors_allowed(path: Path) -> Written:
    table = simple(path, properties={"delta.enableDeletionVectors": "true"})
    table.append(numbers(1, 2))
    table.overwrite(numbers(3, 4))
    return Written(table, numbers(3, 4))


# Writes


@maker
def overwritten(path: Path) -> Written:
    table = simple(path, partition_by=["place"])
    table.append(numbers(1, 2))
    table.overwrite(numbers(3, place="b"))
    return Written(table, numbers(3, place="b"))


@maker
def overwritten_with_another_schema(path: Path) -> Written:
    table = simple(path, partition_by=["place"])
    table.append(numbers(1, 2))
    rows = pa.table({"day": pa.array([datetime.date(2024, 1, 1)], pa.date32()), "x": [1.5]})
    table.overwrite(rows, overwrite_schema=True, partition_by=["day"])
    return Written(table, rows)


@maker
def partitions_replaced(path: Path) -> Written:
    table = simple(path, partition_by=["place"])
    table.append(both(numbers(1, 2, place="a"), numbers(3, place="b"), numbers(4, place="c d")))
    table.overwrite(numbers(5, place="b"), replace_where="place = 'b'")
    table.overwrite(both(numbers(6, place="c d"), numbers(7, place="e")), dynamic=True)
    rows = [numbers(1, 2), numbers(5, place="b"), numbers(6, place="c d"), numbers(7, place="e")]
    return Written(table, both(*rows))


@maker
def schema_merged_by_append(path: Path) -> Written:
    table = simple(path)
    table.append(numbers(1))
    more = numbers(2).append_column("extra", pa.array([1.5]))
    table.append(more, merge_schema=True)
    return Written(table, both(numbers(1), more))


@maker
def exactly_once(path: Path) -> Written:
    table = simple(path)
    for version in (1, 2, 2, 1):
        table.append(numbers(version), txn=("loader", version))
    table.checkpoint()
    return Written(table, numbers(1, 2))


@maker
def many_commits_with_automatic_checkpoints(path: Path) -> Written:
    table = simple(path, properties={"delta.checkpointInterval": "3"})
    for number in range(1, 12):
        table.append(numbers(number))
    return Written(table, numbers(*range(1, 12)))


# Alterations


@maker
def altered(path: Path) -> Written:
    table = simple(path, properties=NAME)
    table.append(numbers(1))
    table.alter.add_column("extra", "struct<a: int, b: string>", after="id", comment="more")
    table.alter.add_column("extra.c", pa.float64())
    table.alter.move_column("place", first=True)
    table.alter.comment_column("id", "the number")
    table.alter.set_not_null("id")
    table.alter.set_comment("changed")
    table.alter.set_properties({"delta.logRetentionDuration": "interval 90 days", "owner": "us"})
    table.alter.unset_properties("owner")
    kind = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())])
    extra = pa.array([{"a": 1, "b": "x", "c": 0.5}], kind)
    table.append(numbers(2).append_column("extra", extra))
    before = numbers(1).append_column("extra", pa.nulls(1, kind))
    rows = both(before, numbers(2).append_column("extra", extra))
    return Written(table, rows.select(["place", "id", "extra", "value"]))


WIDENINGS: Mapping[str, Sequence[tuple[pa.DataType, Any]]] = {
    "small": ((pa.int8(), -128), (pa.int16(), 300), (pa.int32(), 70_000), (pa.int64(), 2**40)),
    "real": ((pa.float32(), 1.5), (pa.float64(), 1e300)),
    "exact": ((pa.decimal128(5, 2), Decimal("1.50")), (pa.decimal128(12, 4), Decimal("10000000.0001"))),
    "day": ((pa.date32(), datetime.date(2024, 1, 1)), (pa.timestamp("us"), local("2024-01-01T01:02:03"))),
}


@maker
def widened(path: Path) -> Written:
    """Each column goes through its types; rows of each are read as the last one."""
    first = pa.table({name: pa.array([steps[0][1]], steps[0][0]) for name, steps in WIDENINGS.items()})
    table = ds.DeltaTable.create(path, first.schema, properties={"delta.enableTypeWidening": "true"})
    table.append(first)
    for at in range(1, 4):
        changed = {name: steps[at] for name, steps in WIDENINGS.items() if at < len(steps)}
        for name, (kind, _) in changed.items():
            table.alter.widen_column(name, kind)
        table.append(pa.table({name: pa.array([value], kind) for name, (kind, value) in changed.items()}))
    last = pa.schema([(name, steps[-1][0]) for name, steps in WIDENINGS.items()])
    rows = [
        {name: steps[at][1] if at < len(steps) else None for name, steps in WIDENINGS.items()}
        for at in range(4)
    ]
    for row in rows:
        if isinstance(row["day"], datetime.date) and not isinstance(row["day"], datetime.datetime):
            row["day"] = datetime.datetime.combine(row["day"], datetime.time())
    limits = {"deltalake": "deltalake 1.6.6 refuses tables with the feature typeWidening"}
    return Written(table, pa.Table.from_pylist(rows, schema=last), limits)


# Care


@maker
def checkpoint_in_one_file(path: Path) -> Written:
    return _checkpointed(path, "single")


@maker
def checkpoint_in_parts(path: Path) -> Written:
    return _checkpointed(path, "multi-part", parts=3)


@maker
def checkpoint_v2_parquet(path: Path) -> Written:
    return _checkpointed(path, "v2", {"delta.checkpointPolicy": "v2"}, parts=2)


@maker
def checkpoint_v2_json(path: Path) -> Written:
    return _checkpointed(path, "v2", {"delta.checkpointPolicy": "v2"}, parts=2, top_format="json")


@maker
def checkpoint_without_statistics_texts(path: Path) -> Written:
    return _checkpointed(path, "single", {"delta.checkpoint.writeStatsAsJson": "false"})


def _checkpointed(
    path: Path, kind: Any, properties: Mapping[str, str] | None = None, **options: Any
) -> Written:
    """Adds, removes, a transaction in a checkpoint; the commits before it are gone, so nobody reads them."""
    table = simple(path, partition_by=["place"], properties=properties)
    table.append(both(numbers(1, 2), numbers(3, place="b")))
    table.append(numbers(4, place="c"), txn=("app", 7))
    table.overwrite(numbers(5, place="b"), replace_where="place = 'b'")
    write_checkpoint(table.store, table.snapshot().state, kind=kind, **options)
    for number in range(table.version()):
        (path / "_delta_log" / f"{number:020d}.json").unlink()
    table = ds.DeltaTable(path)
    table.append(numbers(6, place="d"))
    rows = [numbers(1, 2), numbers(4, place="c"), numbers(5, place="b"), numbers(6, place="d")]
    return Written(table, both(*rows))


@maker
def log_cleaned_up(path: Path) -> Written:
    table = simple(path)
    for number in range(1, 6):
        table.append(numbers(number))
    table.checkpoint()
    age(path)
    assert clean_up(table.store, table.snapshot().state, int(time.time() * 1000)) > 0
    assert not (path / "_delta_log" / f"{0:020d}.json").exists()
    table.append(numbers(6))
    return Written(table, numbers(*range(1, 7)))


@maker
def vacuumed(path: Path) -> Written:
    table = simple(path, partition_by=["place"])
    table.append(numbers(1, 2))
    table.overwrite(both(numbers(3), numbers(4, place="b")))
    age(path)
    table.vacuum(NOTHING, force=True)
    assert len(list(path.rglob("*.parquet"))) == 2
    return Written(table, both(numbers(3), numbers(4, place="b")))


@maker
def restored(path: Path) -> Written:
    table = simple(path, properties=NAME)
    table.append(numbers(1, 2))
    table.alter.rename_column("value", "other")
    table.overwrite(numbers(3).rename_columns(["id", "other", "place"]))
    table.restore(1)
    table.append(numbers(4))
    return Written(table, numbers(1, 2, 4))


@maker
def cloned_deep(path: Path) -> Written:
    source = partitioned_by_nasty_texts(path / "source")
    return Written(source.table.clone(path / "clone"), source.rows)


@maker
def cloned_shallow(path: Path) -> Written:
    source = partitions_replaced(path / "source")
    clone = source.table.clone(path / "clone", shallow=True)
    clone.append(numbers(8, place="f"))
    return Written(clone, both(source.rows, numbers(8, place="f")))


@maker
def converted(path: Path) -> Written:
    rows = columns({**VALUES, **NESTED})
    for at, place in enumerate(("a b", "ü", "x%y")):
        folder = path / f"place={place.replace('%', '%25')}"
        folder.mkdir(parents=True)
        pq.write_table(rows.slice(at * 2, 2), folder / "file one.parquet")
    table = ds.DeltaTable.convert(path)
    places = pa.array([place for place in ("a b", "ü", "x%y") for _ in range(2)])
    return Written(table, rows.append_column("place", places))


@maker
def analyzed(path: Path) -> Written:
    table = simple(path, properties={"delta.dataSkippingNumIndexedCols": "0"})
    table.append(numbers(1, 2))
    table.append(numbers(3))
    table.alter.unset_properties("delta.dataSkippingNumIndexedCols")
    assert table.analyze(every_file=True) is not None
    return Written(table, numbers(1, 2, 3))


@maker
def moved(path: Path) -> Written:
    """LR-055: moved with ordinary tools, then read and written at its new place."""
    written = partitioned_by_nasty_texts(path / "before")
    shutil.move(path / "before", path / "after")
    table = ds.DeltaTable(path / "after")
    row = pa.table({"id": pa.array([100], pa.int64()), "p q": ["new place"]})
    table.append(row)
    return Written(table, both(written.rows, row))
