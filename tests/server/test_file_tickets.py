"""A file ticket opens exactly the file, for the recipient and the time, that it was signed for."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import PathOutsideTableError
from distributary.server.file_tickets import FileTicket, TicketSigner, verified_ticket

NOW = 1_700_000_000.0
TICKET = FileTicket("recipient-1", "table-1", "digest", int(NOW * 1000) + 60_000)


@dataclass
class Keys:
    current_id: str = "k1"
    secrets: dict[str, bytes] = field(default_factory=lambda: {"k1": b"1" * 32})

    def secret(self, key_id: str) -> bytes | None:
        return self.secrets.get(key_id)


KEYS = Keys()


def signed(path: str, ticket: FileTicket = TICKET) -> str:
    urls, expires = TicketSigner(KEYS, "https://share.example", ticket).sign(pa.array([path]))
    assert expires == ticket.expires
    path, _, query = urls[0].as_py().removeprefix("https://share.example/files/").partition("?")
    assert query == "sp=r"
    return path


def opened(url: str, now: float = NOW) -> tuple[FileTicket, str] | None:
    parts = url.split("/")
    if len(parts) != 3:
        return None
    return verified_ticket(KEYS, parts[0], parts[1], unquote(parts[2]), now=lambda: now)


@given(st.text(min_size=1, max_size=60))
def test_ticket_gives_back_the_path_that_was_signed(path):
    if not path.startswith("_delta_log"):
        assert opened(signed(path)) == (TICKET, path)


def test_ticket_ends_at_its_time():
    url = signed("part.parquet")
    assert opened(url, NOW + 59.9) is not None
    assert opened(url, NOW + 60) is None


def test_ticket_of_a_key_that_was_dropped_is_refused():
    url = signed("part.parquet")
    other = Keys("k2", {"k2": b"2" * 32})
    assert verified_ticket(other, *url.split("/"), now=lambda: NOW) is None


@pytest.mark.parametrize("path", ["_delta_log/00000000000000000000.json", "_delta_log"])
def test_files_of_the_log_are_never_signed(path):
    """RELIABILITY F2: a poisoned add.path must not give the log away."""
    with pytest.raises(PathOutsideTableError):
        signed(path)


def test_data_beside_the_log_is_signed():
    assert opened(signed("_delta_log_backup.parquet")) is not None


def test_parts_of_two_tickets_do_not_go_together():
    one = signed("a.parquet").split("/")
    other = signed("a.parquet", FileTicket("recipient-2", "table-1", "digest", TICKET.expires)).split("/")
    assert opened("/".join([one[0], other[1], one[2]])) is None
    assert opened("/".join([other[0], one[1], one[2]])) is None
    assert opened("/".join([one[0], signed("b.parquet").split("/")[1], one[2]])) is None


def test_no_flipped_bit_is_accepted():
    """RELIABILITY F3: every bit of the ticket, and twenty thousand random changes, 0 accepted."""
    url = signed("day=1/part-00000.c000.snappy.parquet").encode()
    for at in range(len(url)):
        for bit in range(8):
            changed = bytearray(url)
            changed[at] ^= 1 << bit
            assert opened(changed.decode("latin-1")) is None
    chooser = random.Random(3)
    for _ in range(20_000):
        changed = bytearray(url)
        for _ in range(chooser.randint(1, 5)):
            changed[chooser.randrange(len(changed))] = chooser.randrange(256)
        assert bytes(changed) == url or opened(changed.decode("latin-1")) is None


def test_cut_and_grown_tickets_are_refused():
    url = signed("part.parquet")
    assert all(opened(url[:end]) is None for end in range(len(url)))
    assert opened(url + "x") is None
    assert opened(url.replace("/", "=/", 1)) is None
