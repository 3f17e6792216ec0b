"""The sharing server: what requests cost it, beside the recorded figures of the reference server.

The real server runs over a catalog in SQLite and over tables that an S3 server on loopback and the local disk
both give. This subject has figures of its own (CPU milliseconds a request, first byte, requests a second), so
it makes its section by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from case import Sizes
from http_load import Effort, Request, ask, at_once, beside_others, connection, download, in_turn
from report import WrittenSection, circumstances
from served_lake import DISK, S3, Served, bare_server, plain_file_server, s3_server, sharing_server
from server_report import Figures, section_text

TITLE = "Sharing server"
INTRODUCTION = """\
`distributary serve` with two workers and its default settings, only the limits per recipient lifted (reads
are audited, requests logged), over a catalog in SQLite. The tables: `small` 10 files, `medium` 1,000, `big`
100,000 and `million` 1,000,000 in 1,000 partitions. On S3 (versitygw on loopback, not counted in CPU and
memory) every URL is signed and the latest version is looked up at each query. One request follows the other
on a kept connection after a warm-up; then requests come over 1, 8 and 32 connections at once. CPU is that of
all processes of the server, memory their resident set after the case, files mapped by both workers counted
twice. The reference server (1.1.0, Java 17, 8 GB heap) was measured once on a machine of the same kind over
tables of the same shape; it is not run here."""
LIBRARIES = ("distributary", "pyarrow", "granian")
REFERENCE = Path(__file__).resolve().parent.parent.parent / "shared" / "bench" / "reference_server.json"
DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
ALWAYS, FEW, ALONE, ONCE = (1, 8, 32), (1, 8), (), None
QUICKLY = ("shares", "disk_query_small")
HEAD_OF_LINE, TICKETS = "shares_beside_queries", "file_tickets"
CLIENTS = 8
# The reference server does not use hints in SQL, and its table with a change feed has one file more.
OTHERWISE = ("query_big_sqlhint", "changes_cdf")


@dataclass(frozen=True)
class ServerCase:
    """One request that is measured; `together` says over how many connections, None: only a few requests."""

    name: str
    title: str
    group: str
    path: str = ""
    body: Mapping[str, object] | None = None
    capabilities: str = ""
    together: tuple[int, ...] | None = ALWAYS
    reference: str = ""

    def request(self, token: str) -> Request:
        headers = {"Authorization": f"Bearer {token}"}
        if self.capabilities:
            headers["delta-sharing-capabilities"] = self.capabilities
        path = f"/delta-sharing{self.path}"
        if self.body is None:
            return Request("GET", path, None, headers)
        return Request("POST", path, json.dumps(self.body), {**headers, "Content-Type": "application/json"})


def cases(sizes: Sizes) -> list[ServerCase]:
    """Every request, in the order in which they are made."""
    found = [*_list_cases(), *(_s3_cases() if s3_server() else []), *_disk_cases()]
    found.append(ServerCase(HEAD_OF_LINE, f"`/shares` while {CLIENTS} clients query all of big", "Beside"))
    return [*found, ServerCase(TICKETS, "local files by ticket", "Files")]


def _list_cases() -> list[ServerCase]:
    lists = "Lists"
    return [
        ServerCase("shares", "shares", lists, "/shares", reference="shares"),
        ServerCase("all_tables", "all tables of a share", lists, f"/shares/{DISK}/all-tables",
                   reference="all_tables"),
    ]  # fmt: skip


def _table(share: str, table: str, call: str) -> str:
    return f"/shares/{share}/schemas/default/tables/{table}/{call}"


def _query(
    name: str,
    title: str,
    body: Mapping[str, object],
    together: tuple[int, ...] | None = ALWAYS,
    capabilities: str = "",
) -> ServerCase:
    table = name.split("_")[1]
    return ServerCase(
        name, title, "Tables on S3", _table(S3, table, "query"), body, capabilities, together, name
    )


def _hint(operation: str, column: str, kind: str, value: str) -> dict[str, object]:
    children = [{"op": "column", "name": column, "valueType": kind},
                {"op": "literal", "value": value, "valueType": kind}]  # fmt: skip
    return {"jsonPredicateHints": json.dumps({"op": operation, "children": children})}


ONE_DAY = _hint("equal", "date", "string", "2021-02-03")
SOME_IDS = _hint("lessThan", "id", "long", "50000")


def _s3_cases() -> list[ServerCase]:
    together = {"small": ALWAYS, "medium": ALWAYS, "big": ALWAYS, "million": FEW}
    calls = [
        ServerCase(f"{call}_{table}", f"{call}, {table}", "Tables on S3", _table(S3, table, call),
                   together=together[table] if call == "version" or table == "small" else FEW,
                   reference=f"{call}_{table}")
        for call, tables in (("version", ("small", "medium", "big", "million")),
                             ("metadata", ("small", "big", "million")))
        for table in tables
    ]  # fmt: skip
    changes = ServerCase("changes_cdf", "changes, cdf", "Tables on S3",
                         _table(S3, "cdf", "changes?startingVersion=0"), reference="changes_cdf")  # fmt: skip
    return [*calls, *_few_files(), changes, *_many_files()]


def _few_files() -> list[ServerCase]:
    return [
        _query("query_small", "query, small", {}),
        _query("query_small_delta", "query, small, delta format", {}, capabilities=DELTA),
        _query("query_dv", "query, deletion vector", {}, capabilities=DELTA),
        _query("query_colmap", "query, column mapping", {}, capabilities=DELTA),
        _query("query_medium", "query, medium", {}),
        _query("query_medium_delta", "query, medium, delta format", {}, FEW, DELTA),
        _query("query_medium_1part", "query, medium, one partition", ONE_DAY),
        _query("query_medium_limit10", "query, medium, limit of 10 rows", {"limitHint": 10}),
        _query("query_medium_page100", "query, medium, a page of 100", {"maxFiles": 100}),
    ]


def _many_files() -> list[ServerCase]:
    sql = {"predicateHints": ["date = '2021-02-03'"]}
    return [
        _query("query_big_1part", "query, big, one partition", ONE_DAY, FEW),
        _query("query_big_idrange", "query, big, range of ids", SOME_IDS, FEW),
        _query("query_big_sqlhint", "query, big, one partition by SQL", sql, ALONE),
        _query("query_big_limit10", "query, big, limit of 10 rows", {"limitHint": 10}, FEW),
        _query("query_big_page1000", "query, big, a page of 1,000", {"maxFiles": 1000}, FEW),
        _query("query_big", "query, big, all files", {}, ALONE),
        _query("query_big_delta", "query, big, all files, delta format", {}, ALONE, DELTA),
        _query("query_million_1part", "query, million, one partition", ONE_DAY, ALONE),
        _query("query_million_limit10", "query, million, limit of 10 rows", {"limitHint": 10}, ALONE),
        _query("query_million_page1000", "query, million, a page of 1,000", {"maxFiles": 1000}, ALONE),
        _query("query_million", "query, million, all files", {}, ONCE),
    ]


def _disk_cases() -> list[ServerCase]:
    sizes = {"small": ALWAYS, "medium": ALWAYS, "big": ALONE, "million": ONCE}
    return [
        ServerCase(f"disk_query_{table}", f"query, {table}", "Tables on the local disk, file tickets",
                   _table(DISK, table, "query"), {}, together=together)
        for table, together in sizes.items()
    ]  # fmt: skip


def section(
    chosen: Sequence[ServerCase], sizes: Sizes, table_folder: Callable[[str], Path],
    versions: Mapping[str, str], load: float, say: Callable[[str], None],
) -> WrittenSection:  # fmt: skip
    """Measure the chosen cases and write the section."""
    quick = len(sizes.files) == 1
    lake = table_folder(f"lake-{max(sizes.files)}")
    found: dict[str, Figures] = {}
    problems: list[str] = []
    reference = {} if quick else reference_figures()
    with sharing_server(lake, with_s3=any(f"/shares/{S3}/" in case.path for case in chosen)) as server:
        idle = server.memory()
        for case in chosen:
            try:
                found[case.name] = {**_measured(case, server, lake, quick), **_memory(server), "idle": idle}
                problems += [] if quick else _unlike(case, found[case.name], reference)
                say(case.name)
            except Exception as error:
                problems.append(f"{case.title}: {type(error).__name__}: {error}")
    text = section_text(chosen, found, reference, problems, with_targets=not quick)
    lines = ["<!-- subject: sharing_server -->", f"## {TITLE}", "", INTRODUCTION, "",
             circumstances(versions, load), "", *text]  # fmt: skip
    return WrittenSection("sharing_server", "\n".join(lines), text, problems)


def _memory(server: Served) -> Figures:
    return {"memory": server.memory(), "anonymous": server.memory("RssAnon")}


def _unlike(case: ServerCase, ours: Figures, reference: Mapping[str, Figures]) -> list[str]:
    """That both gave as many lines shows that both did the work."""
    theirs = reference.get(case.reference)
    if theirs is None or case.name in OTHERWISE or ours["lines"] == theirs["lines"]:
        return []
    return [f"{case.title}: {ours['lines']:.0f} lines, the reference server gave {theirs['lines']:.0f}"]


def reference_figures() -> dict[str, Figures]:
    """What the reference server took, where the record is at hand."""
    if not REFERENCE.is_file():
        return {}
    record = json.loads(REFERENCE.read_text())
    found: dict[str, Figures] = {}
    for name, case in record["cases"].items():
        together = {f"c{many}": case[f"c{many}"]["rps"] for many in ALWAYS if f"c{many}" in case}
        plain = {key: value for key, value in case.items() if isinstance(value, int | float)}
        found[name] = {**plain, **together, "memory": case["rss_mb"]["VmRSS"] * 1e6}
    line = record["hol"]
    found[HEAD_OF_LINE] = {
        "p50_ms": line["shares_p50_ms"],
        "max_ms": line["shares_max_ms"],
        "n": line["shares_n"],
        "heavy": line["big_queries"],
        "heavy_p50_ms": line["big_p50_ms"],
    }
    return found


def _measured(case: ServerCase, server: Served, lake: Path, quick: bool) -> Figures:
    seconds = 0.1 if quick else 3.0
    if case.name == HEAD_OF_LINE:
        return _head_of_line(server, 0.2 if quick else 8.0)
    if case.name == TICKETS:
        return _tickets(server, lake, 1 if quick else 4)
    request = case.request(server.token)
    effort = {ONCE: Effort(0, 2, 2), ALONE: Effort(seconds, 3, 8)}.get(case.together, Effort(seconds))
    figures = dict(in_turn(server, request, effort))
    for many in (case.together or ()) if not quick or case.name in QUICKLY else ():
        figures[f"c{many}"] = at_once(server, request, many, seconds)
    if case.name == "shares":
        with bare_server() as bare:
            figures["bare"] = at_once(bare, request, 32, seconds)
    return figures


def _head_of_line(server: Served, seconds: float) -> Figures:
    share = S3 if ask(connection(server), _query_of(server, S3, "small")).status == 200 else DISK
    shares = ServerCase("shares", "", "", "/shares").request(server.token)
    return beside_others(server, shares, _query_of(server, share, "big"), CLIENTS, seconds)


def _query_of(server: Served, share: str, table: str) -> Request:
    return ServerCase("", "", "", _table(share, table, "query"), {}).request(server.token)


def _tickets(server: Served, lake: Path, times: int) -> Figures:
    """The same large file by ticket and by a plain file server, which take turns."""
    path = _ticket(server)
    figures: dict[str, float] = {}
    with plain_file_server(lake / "lake" / "blob") as (name, plain):
        for clients in (1, CLIENTS):
            ours = download(server, path, clients, times)
            theirs = download(plain, "/part-0.parquet", clients, times)
            figures |= {f"{key}_{clients}": value for key, value in ours.items()}
            figures |= {f"plain_{key}_{clients}": value for key, value in theirs.items()}
        figures["nginx"] = float(name == "nginx")
    return figures


def _ticket(server: Served) -> str:
    request = _query_of(server, DISK, "blob")
    line = connection(server)
    line.request(request.method, request.path, request.body, dict(request.headers))
    text = line.getresponse().read().decode()
    line.close()
    url = json.loads(text.splitlines()[-1])["file"]["url"]
    return "/" + url.split("/", 3)[3]
