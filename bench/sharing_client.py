"""The sharing client: shared tables into pandas, beside the official client, from the same server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from case import OURS, Case, Clock, Sizes, Target

TITLE = "Sharing client"
INTRODUCTION = """\
Shared tables into pandas frames, from one `distributary serve` that both clients ask, over local files and
over S3 (versitygw on loopback); the server's own work is in no figure. `many` has 1,000 files of 100 rows,
`large` 10 files of 1,000,000 rows, `parts` 1,000 partitions, `wide` 50 columns and 1,000,000 rows, `changed`
20 versions with a change feed. The official client cannot choose columns, and filters by hints to the server
only: it then takes what is wanted from the frame. Clients begin without connections. Rows and sums are
compared after the clock has stopped. "MB moved" is what the server and the S3 server have sent: the answers
of the protocol and the bytes of files."""
LIBRARIES = ("delta-sharing", "pandas", "pyarrow")
ENGINES = (OURS, "delta_sharing")
PROFILE = "BENCH_SHARING_PROFILE"
WORKS = (
    ("many", "1,000 small files", "load", "many", {}),
    ("large", "10 files of 1,000,000 rows", "load", "large", {}),
    ("part", "one partition of 1,000", "load", "parts", {"where": ["part", 7]}),
    ("columns", "3 of 50 columns", "load", "wide", {"columns": ["c03", "c17", "c41"]}),
    ("limit", "10 rows of `large`", "load", "large", {"limit": 10}),
    ("changes", "changes of 20 versions", "changes", "changed", {}),
)


def cases(sizes: Sizes) -> list[Case]:
    """Each work in both formats on local files, and in the parquet format on S3."""
    from served_lake import DISK, S3, s3_server

    rows = sizes.rows // 10
    places = [(DISK, "local files", "parquet"), (DISK, "local files", "delta")]
    if s3_server() is not None:
        places.append((S3, "S3", "parquet"))
    found: list[Case] = []
    for share, place, form in places:
        for name, title, work, table, wanted in WORKS:
            arguments = {"table": f"{share}.default.{table}", "form": form, **wanted}
            most = 0.2 if name == "many" else 1.0
            found.append(
                Case(
                    f"client-{name}-{share}-{form}",
                    title,
                    work,
                    f"shares-{rows}",
                    ENGINES,
                    arguments,
                    group=f"{place}, {form} format",
                    targets=(Target("delta_sharing", most),),
                )
            )
    return found


@contextmanager
def surroundings(folder: Path) -> Iterator[Callable[[], int]]:
    """The server, and a profile for it, which the processes that measure find by the environment.

    Gives what tells how many bytes were sent so far.
    """
    from fabricated_shares import TABLES
    from served_lake import s3_server, sharing_server

    with (
        sharing_server(folder, with_s3=s3_server() is not None, tables=TABLES) as served,
        TemporaryDirectory(prefix="bench-profile-") as scratch,
    ):
        profile = Path(scratch) / "bench.share"
        endpoint = f"http://127.0.0.1:{served.port}/delta-sharing"
        credentials = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": served.token}
        profile.touch(mode=0o600)
        profile.write_text(json.dumps(credentials))
        os.environ[PROFILE] = str(profile)
        try:
            yield served.bytes_sent
        finally:
            del os.environ[PROFILE]


def distributary_load(
    clock: Clock,
    folder: Path,
    table: str,
    form: str,
    columns: list[str] | None = None,
    where: tuple[str, int] | None = None,
    limit: int | None = None,
) -> object:
    import pandas  # noqa: F401  # the other engine has loaded it too when its clock starts

    from distributary.client import SharingClient

    with clock:
        rows = SharingClient(os.environ[PROFILE], response_format=form).table(table).snapshot()
        rows = rows if columns is None else rows.select(*columns)
        rows = rows if where is None else rows.where(f"{where[0]} = {where[1]}")
        frame = (rows if limit is None else rows.limit(limit)).to_pandas()
    return _sums(frame, limit)


def delta_sharing_load(
    clock: Clock,
    folder: Path,
    table: str,
    form: str,
    columns: list[str] | None = None,
    where: tuple[str, int] | None = None,
    limit: int | None = None,
) -> object:
    import delta_sharing

    hint = None if where is None else _hint(*where)
    with clock:
        frame = delta_sharing.load_as_pandas(
            f"{os.environ[PROFILE]}#{table}",
            limit=limit,
            jsonPredicateHints=hint,
            use_delta_format=form == "delta",
        )
        if where is not None:
            frame = frame[frame[where[0]] == where[1]]
        frame = frame if columns is None else frame[columns]
    return _sums(frame, limit)


def distributary_changes(clock: Clock, folder: Path, table: str, form: str) -> object:
    import pandas  # noqa: F401

    from distributary.client import SharingClient

    with clock:
        client = SharingClient(os.environ[PROFILE], response_format=form)
        frame = client.table(table).changes(starting_version=0).to_pandas()
    return _sums(frame, None)


def delta_sharing_changes(clock: Clock, folder: Path, table: str, form: str) -> object:
    import delta_sharing

    with clock:
        frame = delta_sharing.load_table_changes_as_pandas(
            f"{os.environ[PROFILE]}#{table}", starting_version=0, use_delta_format=form == "delta"
        )
    return _sums(frame, None)


def _hint(column: str, value: int) -> str:
    children = [
        {"op": "column", "name": column, "valueType": "int"},
        {"op": "literal", "value": str(value), "valueType": "int"},
    ]
    return json.dumps({"op": "equal", "children": children})


def _sums(frame: Any, limit: int | None) -> object:
    """Rows, and sums of columns; with a limit any rows will do, so only how many."""
    if limit is not None:
        return {"rows": len(frame)}
    numbers = frame.select_dtypes("number")
    skipped = ("_commit_timestamp",)
    sums = {name: round(float(numbers[name].sum()), 1) for name in numbers if name not in skipped}
    return {"rows": len(frame), "columns": sorted(frame.columns), **dict(sorted(sums.items()))}
