"""Writing: small commits alone and in competition, a large append, a checkpoint of many files."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from case import OURS, Case, Clock, Sizes, cpu_seconds, peak_memory
from data import linked_log

TITLE = "Writing"
INTRODUCTION = """\
Tables on a local disk. Small commits append ten rows each; after them the table must have every commit and
every row. Writers in competition are processes of their own, and start together; CPU and memory are those
of all of them. Both engines write the large append with zstd."""

PEER = (OURS, "deltalake")
WRITERS = 8
SYNC = (
    "Ours syncs files and folders to the disk before it reports a commit, with four to five fsync calls a "
    "commit, and writes a checksum file. deltalake made no fsync call when its calls were counted, so what "
    "it reports may still be lost in a power failure. Waiting for the disk is in wall time, hardly in CPU."
)


def cases(sizes: Sizes) -> list[Case]:
    """Commits, an append and a checkpoint."""
    each = max(sizes.commits // WRITERS, 1)
    files, rows = max(sizes.files), sizes.rows
    return [
        Case("commits", f"{sizes.commits} small appends by one writer", "commits", "empty-0", PEER,
             {"commits": sizes.commits}, "Commits", SYNC),
        Case("commits-8", f"{each * WRITERS} small appends by {WRITERS} writers at once", "competing",
             "empty-0", PEER, {"commits": each}, "Commits"),
        Case("append", f"append {rows:,} rows of 8 columns", "append", "empty-0", PEER, {"rows": rows},
             "Rows and checkpoints", "For the large append, memory includes the rows, made beforehand."),
        Case("checkpoint", f"open a table of {files:,} files and write its checkpoint", "checkpoint",
             f"log-{files}", PEER, group="Rows and checkpoints"),
    ]  # fmt: skip


def distributary_commits(clock: Clock, folder: Path, commits: int) -> object:
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        distributary_prepare(place)
        append = distributary_appender(place)
        with clock:
            for _ in range(commits):
                append()
        return _contents(Path(place))


def deltalake_commits(clock: Clock, folder: Path, commits: int) -> object:
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        deltalake_prepare(place)
        append = deltalake_appender(place)
        with clock:
            for _ in range(commits):
                append()
        return _contents(Path(place))


def distributary_competing(clock: Clock, folder: Path, commits: int) -> object:
    return _compete(clock, folder, commits, distributary_prepare, distributary_appender)


def deltalake_competing(clock: Clock, folder: Path, commits: int) -> object:
    return _compete(clock, folder, commits, deltalake_prepare, deltalake_appender)


def distributary_append(clock: Clock, folder: Path, rows: int) -> object:
    from fabricated_rows import make_rows

    from distributary.delta.table import DeltaTable

    data = make_rows(0, rows)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        DeltaTable.create(place, data.schema)
        with clock:
            DeltaTable(place).append(data)
        return _contents(Path(place))


def deltalake_append(clock: Clock, folder: Path, rows: int) -> object:
    from deltalake import DeltaTable, WriterProperties, write_deltalake
    from fabricated_rows import make_rows

    data = make_rows(0, rows)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        DeltaTable.create(place, data.schema)
        with clock:
            properties = WriterProperties(compression="ZSTD")
            write_deltalake(DeltaTable(place), data, mode="append", writer_properties=properties)
        return _contents(Path(place))


def distributary_checkpoint(clock: Clock, folder: Path) -> object:
    from distributary.delta.table import DeltaTable

    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        copy = linked_log(folder, Path(place) / "table")
        with clock:
            DeltaTable(copy).checkpoint()
        return _checkpointed_files(copy)


def deltalake_checkpoint(clock: Clock, folder: Path) -> object:
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        copy = linked_log(folder, Path(place) / "table")
        with clock:
            DeltaTable(copy).create_checkpoint()
        return _checkpointed_files(copy)


def distributary_prepare(place: str) -> None:
    from distributary.delta.table import DeltaTable

    DeltaTable.create(place, _few_rows().schema)


def deltalake_prepare(place: str) -> None:
    from deltalake import DeltaTable

    DeltaTable.create(place, _few_rows().schema)


def distributary_appender(place: str) -> Callable[[], object]:
    from distributary.delta.table import DeltaTable

    return partial(DeltaTable(place).append, _few_rows())


def deltalake_appender(place: str) -> Callable[[], object]:
    from deltalake import CommitProperties, DeltaTable, write_deltalake

    patient = CommitProperties(max_commit_retries=1000)
    return partial(write_deltalake, DeltaTable(place), _few_rows(), mode="append", commit_properties=patient)


Appender = Callable[[str], Callable[[], object]]


def _compete(
    clock: Clock, folder: Path, commits: int, prepare: Callable[[str], None], appender: Appender
) -> object:
    """Append from several processes, which have imported and opened everything before the clock starts."""
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        prepare(place)
        start, done = processes.Barrier(WRITERS + 1), processes.SimpleQueue()
        writers = [
            processes.Process(target=_write, args=(place, commits, appender, start, done))
            for _ in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        start.wait()
        with clock:
            taken = [done.get() for _ in writers]
        for writer in writers:
            writer.join()
        clock.add_processes(sum(cpu for cpu, _ in taken), sum(memory for _, memory in taken))
        return _contents(Path(place))


def _write(place: str, commits: int, appender: Appender, start: object, done: object) -> None:
    append = appender(place)
    start.wait()
    before = cpu_seconds()
    for _ in range(commits):
        append()
    done.put((cpu_seconds() - before, peak_memory()))


def _few_rows() -> object:
    import pyarrow as pa

    return pa.table({"id": list(range(10)), "name": [f"name {number}" for number in range(10)]})


def _contents(table: Path) -> list[int]:
    """How many commits a table has, and rows by their files."""
    import pyarrow.parquet as pq

    commits = len(list((table / "_delta_log").glob(f"{'[0-9]' * 20}.json")))
    return [commits, sum(pq.read_metadata(file).num_rows for file in table.rglob("part-*.parquet"))]


def _checkpointed_files(table: Path) -> int:
    """How many files the newest checkpoint lists."""
    import pyarrow.parquet as pq

    newest = max(file.name.partition(".")[0] for file in (table / "_delta_log").glob("*.checkpoint*"))
    columns = [
        pq.ParquetFile(file).read(columns=["add.path"]).column("add")
        for file in (table / "_delta_log").glob(f"{newest}.checkpoint*.parquet")
    ]
    return sum(len(column) - column.null_count for column in columns)
