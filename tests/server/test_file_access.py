"""Files by ticket over HTTP: ranges, conditions, tampering, traversal, poisoned logs."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from pathlib import Path

import msgspec
import pytest
from sharing_world.asgi import InProcess
from sharing_world.contents import make_wide_table
from sharing_world.running import RunningServer, lines

from distributary.server.file_tickets import FileTicket, TicketSigner, short_digest
from distributary.sharing.table_policy import TablePolicy


@pytest.fixture(scope="module")
def url(server: RunningServer) -> str:
    return lines(server.query("Sales.eu.Orders"))[-1]["file"]["url"]


@pytest.fixture(scope="module")
def whole(server, url) -> bytes:
    return server.get(url, token=None).content


def test_ranges_are_answered_as_asked(server, url, whole):
    """RELIABILITY F6"""
    for header, expected in [
        ("bytes=0-3", whole[:4]),
        ("bytes=-8", whole[-8:]),
        (f"bytes={len(whole) - 4}-", whole[-4:]),
    ]:
        answer = server.get(url, token=None, headers={"Range": header})
        assert (answer.status_code, answer.content) == (206, expected)
        assert answer.headers["content-range"].endswith(f"/{len(whole)}")
    refused = server.get(url, token=None, headers={"Range": "bytes=0-1,4-5"})
    assert refused.status_code == 416
    assert refused.headers["content-range"] == f"bytes */{len(whole)}"


def test_head_and_conditions(server, url, whole):
    head = server.request("HEAD", url, token=None)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(whole)
    assert head.headers["accept-ranges"] == "bytes"
    etag = head.headers["etag"]
    assert server.get(url, token=None, headers={"If-None-Match": etag}).status_code == 304
    resumed = server.get(url, token=None, headers={"Range": "bytes=4-", "If-Range": etag})
    assert (resumed.status_code, resumed.content) == (206, whole[4:])
    changed = server.get(url, token=None, headers={"Range": "bytes=4-", "If-Range": '"old"'})
    assert (changed.status_code, changed.content) == (200, whole)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_tickets_are_for_reading_only(server, url, method):
    """RELIABILITY F3"""
    assert server.request(method, url, token=None).status_code == 405


def test_large_file_comes_whole_and_in_ranges(server, tmp_path):
    """More than one piece of a stream, with a length"""
    folder = Path(tmp_path) / "large"
    make_wide_table(folder, 1, directory="data")
    content = random.Random(1).randbytes(5_000_001)
    (folder / "data-000000.parquet").write_bytes(content)
    server.contents.admin.add_table("Sales", "us", "large", TablePolicy(location=str(folder)))
    try:
        url = lines(server.query("Sales.us.large"))[-1]["file"]["url"]
        answer = server.get(url, token=None)
        assert answer.headers["content-length"] == str(len(content))
        assert answer.content == content
        ranged = server.get(url, token=None, headers={"Range": "bytes=1000000-4000000"})
        assert ranged.content == content[1_000_000:4_000_001]
        head = server.request("HEAD", url, token=None)
        assert head.headers["content-length"] == str(len(content))
    finally:
        server.contents.admin.remove_table("Sales", "us", "large")


def test_file_that_is_gone_is_404(server):
    url = lines(server.query("Sales.us.wide", {"limitHint": 1}))[-1]["file"]["url"]
    assert server.get(url, token=None).status_code == 404


def test_ten_thousand_changed_tickets_open_nothing(application: InProcess):
    """RELIABILITY F3: flips and replaced letters of a ticket; none gives a byte"""
    answer = application.call("POST", "/shares/Sales/schemas/eu/tables/Orders/query", body=b"{}")
    url = answer.lines[-1]["file"]["url"]
    path = url[url.index("/files/") : url.index("?")]
    chooser = random.Random(9)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"

    async def statuses() -> dict[int, int]:
        found: dict[int, int] = {}
        for _ in range(10_000):
            at = chooser.randrange(len("/files/"), len(path))
            changed = path[:at] + chooser.choice(letters) + path[at + 1 :]
            if changed != path:
                status = (await application.send("GET", changed, token=None)).status
                found[status] = found.get(status, 0) + 1
        assert (await application.send("GET", path, token=None)).status == 200
        return found

    assert set(asyncio.run(statuses())) <= {403, 404}


def test_genuine_tickets_for_places_outside_open_nothing(contents, application, tmp_path):
    """RELIABILITY F1: even a path that was signed is opened beneath the table only"""
    recipient = application.service.authentication
    with contents.database.read() as connection:
        from distributary.catalog import recipients, shares

        acme = recipients.get_recipient(connection, "acme")
        share = shares.get_share(connection, "Sales")
        table = next(t for t in shares.list_tables(connection, share) if t.name == "Orders")
    assert recipient is not None
    root = Path(table.policy.location)
    (root / "link.parquet").symlink_to("/etc/passwd")
    (root.parent / "orders_evil").mkdir(exist_ok=True)
    (root.parent / "orders_evil" / "x").write_bytes(b"outside")
    ticket = FileTicket(acme.id, table.id, short_digest(table.policy), 2**53)
    signer = TicketSigner(contents.keys, "", ticket)
    outside = [
        "../keys.json",
        "../orders_evil/x",
        "/etc/passwd",
        "//etc/passwd",
        "file:///etc/passwd",
        "file:///",
        f"file://{root.parent}/orders_evil/x",
        f"file://{root}/../orders_evil/x",
        "%2e%2e/keys.json",
        "..%2fkeys.json",
        "..\\keys.json",
        "link.parquet",
        "country=DE/../../keys.json",
        "http://169.254.169.254/latest/meta-data",
        "s3://bucket/key",
        "",
        ".",
        "a\0b",
    ]
    urls, _ = signer.sign([*outside, "_delta_log_"])
    try:
        for url in urls.to_pylist():
            reply = application.call("GET", url, token=None)
            assert reply.status in (403, 404), url
            assert b"root:" not in reply.body
    finally:
        (root / "link.parquet").unlink()


POISONED = [
    "/etc/passwd",
    "file:///etc/passwd",
    "../secret.parquet",
    "%2e%2e/secret.parquet",
    "a/../../secret.parquet",
    "http://169.254.169.254/latest/meta-data",
    "s3://other-bucket/key",
    "//etc/passwd",
    "..\\secret.parquet",
    "_delta_log/00000000000000000000.json",
]


@pytest.mark.parametrize("poison", POISONED)
def test_poisoned_log_is_refused_before_anything_is_signed(contents, tmp_path, poison):
    """RELIABILITY F2, C-22"""
    table = tmp_path / "poisoned"
    make_wide_table(table, 2)
    log = table / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace("part-000001.parquet", poison.replace("\\", "\\\\")))
    (tmp_path / "secret.parquet").write_bytes(b"secret")
    contents.admin.add_table("Sales", "us", "poisoned", TablePolicy(location=str(table)), check=False)
    application = InProcess(contents)
    try:
        reply = application.call("POST", "/shares/Sales/schemas/us/tables/poisoned/query", body=b"{}")
        assert reply.status in (400, 500)
        assert b"/files/" not in reply.body
        assert poison.encode() not in reply.body
        assert str(tmp_path).encode() not in reply.body
    finally:
        application.close()
        contents.admin.remove_table("Sales", "us", "poisoned")


def test_ticket_says_nothing_that_is_secret(server, url):
    """RELIABILITY P7: a ticket holds ids and a path, neither token nor key"""
    head = url.split("/files/")[1].split("/")[0].split(".")[1]
    ticket = msgspec.msgpack.decode(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    assert len(ticket) == 4
    shown = json.dumps(ticket)
    assert not any(token in shown for token in server.contents.tokens.values())
