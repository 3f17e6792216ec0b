"""Damaged data files (RELIABILITY B): the rows, or an error that names the file; the process goes on.

No checksum covers a footer, and pages have checksums only where the writer made them. So after a flipped
bit a scan gives as many rows as before or a DataFileError; flips in pages with checksums never give wrong
rows. Flips in bounds may hide rows from a predicate: nothing in a file contradicts them.

DISTRIBUTARY_FLIPS sets how many bits are flipped altogether (270 by default).
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distributary as ds
from distributary.delta.errors import DataFileError
from distributary.delta.operations.verify import verify_table
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.data_types import LONG, schema_to_json
from distributary.delta.statistics.collection import indexed_columns
from distributary.delta.statistics.existing_file import statistics_of

FLIPS = int(os.environ.get("DISTRIBUTARY_FLIPS", "270"))
ROWS = 400
LAYOUTS: Mapping[str, dict[str, Any]] = {
    "ours": {"write_page_checksum": True, "compression": "snappy"},
    "page index": {"write_page_checksum": True, "write_page_index": True, "compression": "zstd"},
    "version 2": {"write_page_checksum": True, "data_page_version": "2.0", "use_dictionary": False},
    "no checksums": {"compression": "none", "data_page_size": 512},
}
_MEMORY = 8 * 2**30
VALUES = {"other values"}

Look = Callable[[ds.DeltaTable], pa.Table]


def sample() -> pa.Table:
    """Rows of many types, nested ones and nulls among them."""
    day = datetime.date(2024, 1, 1)
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "kind": [f"kind {at % 5}" for at in range(ROWS)],
            "note": [None if at % 7 == 0 else f"note {at * 7919 % 1000}" for at in range(ROWS)],
            "amount": [at / 3 for at in range(ROWS)],
            "price": [decimal.Decimal(at).scaleb(-2) for at in range(ROWS)],
            "day": [day + datetime.timedelta(at) for at in range(ROWS)],
            "moment": pa.array(
                [moment + datetime.timedelta(seconds=at) for at in range(ROWS)], pa.timestamp("us", "UTC")
            ),
            "tags": [[f"t{at % 3}"] * (at % 4) for at in range(ROWS)],
            "place": [None if at % 9 == 0 else {"x": at, "name": str(at)} for at in range(ROWS)],
        }
    )


def make_table(root: Path, data: Path) -> None:
    """A table of one file, of which the log tells nothing but its size."""
    (root / "_delta_log").mkdir()
    metadata = {"id": "t", "format": {"provider": "parquet"}, "partitionColumns": [], "configuration": {},
                "schemaString": schema_to_json(delta_schema(sample().schema))}  # fmt: skip
    add = {"path": data.name, "partitionValues": {}, "size": data.stat().st_size, "modificationTime": 0,
           "dataChange": True}  # fmt: skip
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        {"add": add},
    ]
    (root / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def flips(data: bytes, place: str, number: int) -> list[tuple[int, int]]:
    """Which bits of the footer or of the pages to flip, the same in every run."""
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    start, end = (footer, len(data)) if place == "footer" else (0, footer)
    chance = random.Random(f"{place} {len(data)}")
    return [(chance.randrange(start, end), 1 << chance.randrange(8)) for _ in range(number)]


def flipped(root: Path, file: Path, place: str, number: int) -> dict[str, Counter[str]]:
    """What each look gives after each flip, seen from child processes, which native code may end."""
    found: dict[str, Counter[str]] = {look.__name__: Counter() for look in LOOKS}
    command = [sys.executable, __file__, str(root), file.name, place, str(number)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, f"flip {len(lines)} ended the process: {ended.stderr[-1000:]}"
    for line in lines:
        for counter, told in zip(found.values(), json.loads(line), strict=True):
            counter[told] += 1
    print(f"{file.name} {place}: {found}")
    return found


def child(root: str, name: str, place: str, number: int) -> None:
    """Flip one bit after the other and print what comes of it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    path = Path(root, name)
    sound = path.read_bytes()
    table = ds.DeltaTable(root)
    truth = [look(table) for look in LOOKS]
    for at, bit in flips(sound, place, number):
        data = bytearray(sound)
        data[at] ^= bit
        path.write_bytes(data)
        found = [outcome(look, table, known, name) for look, known in zip(LOOKS, truth, strict=True)]
        print(json.dumps(found), flush=True)


def outcome(look: Look, table: ds.DeltaTable, known: pa.Table, name: str) -> str:
    """What a look at a damaged file gives, in two words."""
    try:
        found = look(table)
    except DataFileError as error:
        return "refused" if name in str(error) else f"refused without its name: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if found.equals(known):
        return "right"
    return "other values" if found.num_rows == known.num_rows else "other rows"


def whole(table: ds.DeltaTable) -> pa.Table:
    return table.snapshot().to_arrow()


def one_column(table: ds.DeltaTable) -> pa.Table:
    return table.snapshot().to_arrow(columns=[number_column(table)])


def filtered(table: ds.DeltaTable) -> pa.Table:
    return table.snapshot().to_arrow(predicate=f"{number_column(table)} BETWEEN 1 AND 250")


def counted(table: ds.DeltaTable) -> pa.Table:
    return pa.table({"rows": [table.snapshot().count()]})


def verified(table: ds.DeltaTable) -> pa.Table:
    """Verification finds what it finds, but goes through."""
    verify_table(table.store, deep=True)
    return pa.table({})


def analyzed(table: ds.DeltaTable) -> pa.Table:
    """The statistics are right or not; but the footer is looked at without harm."""
    state = table.snapshot().state
    columns = indexed_columns(state.schema, (), state.mapping_mode, state.properties)
    (add,) = state.files.adds()
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):
        statistics_of(table.store.open_file(add.path), columns, pre_buffer=False)
    return pa.table({})


def number_column(table: ds.DeltaTable) -> str:
    return next(field.name for field in table.snapshot().schema.fields if field.data_type == LONG)


LOOKS: list[Look] = [whole, one_column, filtered, counted, verified, analyzed]


def written(root: Path, layout: str) -> Path:
    file = root / "part-0.parquet"
    pq.write_table(sample(), file, row_group_size=100, **LAYOUTS[layout])
    make_table(root, file)
    return file


def check(found: Mapping[str, Counter[str]], allowed: Mapping[str, set[str]]) -> None:
    """Nothing but what is allowed, and damage is seen at all."""
    assert found["whole"]["refused"] > 0
    for look, outcomes in found.items():
        assert set(outcomes) <= {"right", "refused"} | allowed.get(look, set())


@pytest.mark.timeout(300 + FLIPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_flipped_bits_in_footers_give_the_rows_or_an_error(tmp_path: Path, layout: str) -> None:
    """RELIABILITY B: all rows or an error; a damaged bound may hide rows from a predicate."""
    file = written(tmp_path, layout)
    found = flipped(tmp_path, file, "footer", FLIPS // 9)
    check(found, {"whole": VALUES, "one_column": VALUES, "filtered": {*VALUES, "other rows"}})
    assert found["filtered"]["other rows"] <= FLIPS // 9 // 10


@pytest.mark.timeout(300 + FLIPS)
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "no checksums"])
def test_flipped_bits_in_pages_with_checksums_never_give_wrong_rows(tmp_path: Path, layout: str) -> None:
    """RELIABILITY B: page checksums are verified by every scan."""
    check(flipped(tmp_path, written(tmp_path, layout), "pages", FLIPS // 9), {})


@pytest.mark.timeout(300 + FLIPS)
def test_flipped_bits_in_pages_without_checksums_keep_the_number_of_rows(tmp_path: Path) -> None:
    found = flipped(tmp_path, written(tmp_path, "no checksums"), "pages", FLIPS // 9)
    check(found, {"whole": VALUES, "one_column": VALUES, "filtered": {*VALUES, "other rows"}})


@pytest.mark.timeout(300 + FLIPS)
def test_flipped_bits_in_a_file_of_spark_give_the_rows_or_an_error(delta_tables, tmp_path: Path) -> None:
    root = tmp_path / "table"
    shutil.copytree(delta_tables.tables / "dat__all_primitive_types", root)
    (file,) = root.glob("*.parquet")
    found = flipped(root, file, "footer", FLIPS // 9)
    check(found, {"whole": VALUES, "one_column": VALUES, "filtered": {*VALUES, "other rows"}})


def test_renamed_column_is_damage_and_not_a_missing_column(tmp_path: Path) -> None:
    """LR-052: a column that a file lacks reads as null; one whose name was damaged does not."""
    file = written(tmp_path, "no checksums")
    data = file.read_bytes()
    at = data.index(b"\x04note", len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    file.write_bytes(data[: at + 1] + b"n0te" + data[at + 5 :])
    with pytest.raises(DataFileError, match=r"part-0\.parquet.*n0te"):
        ds.DeltaTable(tmp_path).snapshot().to_arrow()


if __name__ == "__main__":
    child(*sys.argv[1:4], int(sys.argv[4]))
