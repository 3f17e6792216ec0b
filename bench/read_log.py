"""Opening large tables: what it takes to know a table's files, and those that a query needs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from case import OURS, Case, Clock, Sizes, Target
from data import linked_log

TITLE = "Opening tables of many files"
INTRODUCTION = """\
The table has a checkpoint, 100 commits after it that each replace a file, 1,000 partitions and JSON
statistics on three columns. Each measurement opens the table in a new process, unless the row says
otherwise. Paths come as Arrow strings where the engine has a way to give them so. `stats_parsed` is the
same table with typed statistics beside the texts in its checkpoint."""

DAY = "2020-06-15"
PEER = (OURS, "deltalake")


def cases(sizes: Sizes) -> list[Case]:
    """The cases for each number of files."""
    return [case for files in sizes.files for case in _cases(files)]


def _cases(files: int) -> list[Case]:
    targets = (Target("deltalake", 0.5, 1.2),) if files >= 1_000_000 else ()
    group, log, typed = f"{files:,} files", f"log-{files}", f"typed-log-{files}"
    low = files * 1000 // 2
    span = {"low": low, "high": low + 10_000}
    rows = [
        Case("load", "open: version, metadata, number of files", "load", log, PEER, group=group,
             targets=targets,
             remark="For opening and refreshing, deltalake counts its files after the clock has stopped."),
        Case("paths", "paths of all files", "paths", log, PEER, group=group),
        Case("files", "all files with sizes, partitions, row counts and statistics", "files", log, PEER,
             group=group,
             remark="For all files with their details ours gives statistics as the log's text and row counts "
             "parsed from it; deltalake gives minima and maxima as columns."),
        Case("refresh", "refresh of an open table after one commit", "refresh", log, PEER,
             {"files": files}, group=group,
             remark="For refresh, memory is that of the open table."),
        Case("partition", "files of one partition", "partition", log, PEER, group=group, targets=targets),
        Case("partition-open", "files of one partition, table already open", "partition_open", log, PEER,
             group=group,
             remark="deltalake has read all of the log when a table is open; ours reads the columns that a "
             "question needs when it is asked."),
        Case("statistics", "files for a range of ids, by JSON statistics", "statistics", log, PEER, span,
             group=group, targets=targets),
        Case("statistics-open", "files for a range of ids, table already open", "statistics_open", log, PEER,
             span, group=group),
        Case("statistics-typed", "files for a range of ids, by `stats_parsed`", "statistics", typed, PEER,
             span, group=group, targets=targets),
    ]  # fmt: skip
    if files <= 100_000:
        planners = (OURS, "deltalake", "polars")
        rows.append(
            Case("plan", "plan a query for a range of ids", "plan", log, planners, span, group=group,
                 remark="Planning in Polars is the optimised plan of a lazy frame. DuckDB is left out: its "
                 "plan does not say how many files are left, so that the same work cannot be shown.")
        )  # fmt: skip
    return rows


def distributary_load(clock: Clock, folder: Path) -> object:
    from distributary.delta.table import DeltaTable

    with clock:
        snapshot = DeltaTable(folder).snapshot()
        return [snapshot.version, snapshot.metadata.id, snapshot.num_files()]


def deltalake_load(clock: Clock, folder: Path) -> object:
    from deltalake import DeltaTable

    with clock:
        table = DeltaTable(folder)
        answer = [table.version(), table.metadata().id]
    return [*answer, table.get_add_actions().num_rows]


def distributary_paths(clock: Clock, folder: Path) -> object:
    from distributary.delta.table import DeltaTable

    with clock:
        paths = DeltaTable(folder).snapshot().state.files.column("path")
    return _summary(paths)


def deltalake_paths(clock: Clock, folder: Path) -> object:
    from deltalake import DeltaTable

    with clock:
        paths = DeltaTable(folder).get_add_actions().column("path")
    return _summary(paths)


def distributary_files(clock: Clock, folder: Path) -> object:
    from distributary.delta.table import DeltaTable

    with clock:
        files = DeltaTable(folder).snapshot().files()
    return [*_summary(files.column("path")), _sum(files.column("size")), _sum(files.column("num_records"))]


def deltalake_files(clock: Clock, folder: Path) -> object:
    from deltalake import DeltaTable

    with clock:
        files = DeltaTable(folder).get_add_actions()
    return [
        *_summary(files.column("path")),
        _sum(files.column("size_bytes")),
        _sum(files.column("num_records")),
    ]


def distributary_refresh(clock: Clock, folder: Path, files: int) -> object:
    from distributary.delta.table import DeltaTable

    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        copy = linked_log(folder, Path(place) / "table")
        table = DeltaTable(copy)
        table.snapshot().num_files()
        _commit_once(copy, files)
        with clock:
            snapshot = table.snapshot()
            return [snapshot.version, snapshot.num_files()]


def deltalake_refresh(clock: Clock, folder: Path, files: int) -> object:
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        copy = linked_log(folder, Path(place) / "table")
        table = DeltaTable(copy)
        _commit_once(copy, files)
        with clock:
            table.update_incremental()
            version = table.version()
        return [version, table.get_add_actions().num_rows]


def _commit_once(table: Path, files: int) -> None:
    """Replace one more file."""
    from fabricated_log import write_replacement

    log = table / "_delta_log"
    version = 1 + max(int(file.stem) for file in log.glob("*.json"))
    write_replacement(log, version, version - 2, per_partition=max(files // 1000, 1))


def distributary_partition(clock: Clock, folder: Path) -> object:
    from distributary.delta.table import DeltaTable

    with clock:
        files = DeltaTable(folder).snapshot().files(f"date = '{DAY}'")
    return _summary(files.column("path"))


def deltalake_partition(clock: Clock, folder: Path) -> object:
    from deltalake import DeltaTable

    with clock:
        files = DeltaTable(folder).file_uris(file_pruning_predicate=f"date = '{DAY}'")
    return _relative(files, folder)


def distributary_partition_open(clock: Clock, folder: Path) -> object:
    from distributary.delta.table import DeltaTable

    snapshot = DeltaTable(folder).snapshot()
    snapshot.num_files()
    with clock:
        files = snapshot.files(f"date = '{DAY}'")
    return _summary(files.column("path"))


def deltalake_partition_open(clock: Clock, folder: Path) -> object:
    from deltalake import DeltaTable

    table = DeltaTable(folder)
    with clock:
        files = table.file_uris(file_pruning_predicate=f"date = '{DAY}'")
    return _relative(files, folder)


def distributary_statistics(clock: Clock, folder: Path, low: int, high: int) -> object:
    from distributary.delta.table import DeltaTable

    with clock:
        files = DeltaTable(folder).snapshot().files(f"id >= {low} AND id <= {high}")
    return _summary(files.column("path"))


def deltalake_statistics(clock: Clock, folder: Path, low: int, high: int) -> object:
    from deltalake import DeltaTable

    with clock:
        files = DeltaTable(folder).file_uris(file_pruning_predicate=f"id >= {low} AND id <= {high}")
    return _relative(files, folder)


def distributary_statistics_open(clock: Clock, folder: Path, low: int, high: int) -> object:
    from distributary.delta.table import DeltaTable

    snapshot = DeltaTable(folder).snapshot()
    snapshot.num_files()
    with clock:
        files = snapshot.files(f"id >= {low} AND id <= {high}")
    return _summary(files.column("path"))


def deltalake_statistics_open(clock: Clock, folder: Path, low: int, high: int) -> object:
    from deltalake import DeltaTable

    table = DeltaTable(folder)
    with clock:
        files = table.file_uris(file_pruning_predicate=f"id >= {low} AND id <= {high}")
    return _relative(files, folder)


def distributary_plan(clock: Clock, folder: Path, low: int, high: int) -> object:
    return distributary_statistics(clock, folder, low, high)[0]


def deltalake_plan(clock: Clock, folder: Path, low: int, high: int) -> object:
    return deltalake_statistics(clock, folder, low, high)[0]


def polars_plan(clock: Clock, folder: Path, low: int, high: int) -> object:
    import polars as pl

    with clock:
        plan = pl.scan_delta(str(folder)).filter(pl.col("id").is_between(low, high)).explain()
    others = re.search(r"\.\.\. (\d+) other (?:sources|files)", plan)
    return plan.count(".parquet") + (int(others[1]) if others else 0)


def _summary(paths: object) -> list[object]:
    """How many paths there are, and the first and last of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.chunked_array(paths).cast(pa.string())
    ends = pc.min_max(texts)
    return [len(texts), ends["min"].as_py(), ends["max"].as_py()]


def _relative(uris: list[str], folder: Path) -> list[object]:
    return _summary([[uri.removeprefix(f"{folder}/") for uri in uris]])


def _sum(values: object) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.sum(pa.chunked_array(values)).as_py()
