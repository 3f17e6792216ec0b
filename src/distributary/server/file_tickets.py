"""Signed file tickets: URLs by which a recipient reads one file of a table that lies on a local disk.

A ticket is the URL `/files/<head>/<file>.<mac>/<name>?sp=r`. The head names the key, the recipient, the
shared table, the policy and the expiry; the file is the path within the table in base64; the MAC
(HMAC-SHA-256 under a key for this purpose) covers both. The name at the end is for people and for readers
that look at the suffix: it must be the file's own. Nothing of the request's path is ever joined to a
directory before the MAC is found right. The query says nothing here (`sp=r`, "permission: read", as in
Azure's signatures): delta-kernel, on which clients rest, takes a URL for a signed one by such keys only, and
would look for the path on its own disk otherwise.

A ticket alone opens nothing: each request checks the recipient and the grant again (DESIGN, Signed file
tickets), and the policy's digest in the head ends tickets when what is shared of the table changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from binascii import b2a_base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa

from distributary.errors import PathOutsideTableError
from distributary.server.signing_keys import SigningKeys, purpose_key
from distributary.sharing.table_policy import TablePolicy
from distributary.storage.presigned_urls import keyed_hashes

FILES_PATH = "/files"
_PURPOSE = "file-ticket"
_MAC_BYTES = 18  # 24 letters of base64 exactly: no letter has bits that do not count
_HEAD = re.compile(r"([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{1,1024})")
_FILE = re.compile(r"([A-Za-z0-9_-]{1,6000})\.([A-Za-z0-9_-]{24})")
_LOG_DIRECTORY = "_delta_log"
_QUERY = "?sp=r"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
_FOR_URLS = bytes.maketrans(b"+/", b"-_")


class FileTicket(msgspec.Struct, frozen=True, array_like=True):
    """What the head of a ticket says: who may read which table, under which policy, until when."""

    recipient: str
    table: str
    policy: str
    """The beginning of the policy's digest."""
    expires: int
    """Milliseconds since 1970."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FileTicket).decode


def short_digest(policy: TablePolicy) -> str:
    """What a ticket holds of a policy: enough to notice that it changed."""
    return policy.digest[:16]


@dataclass(frozen=True, slots=True)
class TicketSigner:
    """Signs many paths of one table for one recipient; the signer that answers to queries are given."""

    keys: SigningKeys
    base_url: str
    ticket: FileTicket

    @property
    def expiration(self) -> int:
        """When the tickets end, in milliseconds since 1970."""
        return self.ticket.expires

    def sign(self, paths: list[str] | pa.Array | pa.ChunkedArray) -> tuple[pa.Array, int]:
        """A URL for each path in its canonical form (`storage.log_paths`), and when they expire."""
        listed = paths if isinstance(paths, list) else paths.to_pylist()
        key_id = self.keys.current_id
        secret = self.keys.secret(key_id)
        if secret is None:
            raise LookupError(f"the key ring has no key {key_id!r}, though it is the current one")
        head = f"{key_id}.{_base64(_encode(self.ticket))}"
        prefix = f"{self.base_url}{FILES_PATH}/{head}/"
        inner, outer = keyed_hashes(purpose_key(secret, _PURPOSE))
        inner.update(f"{head}/".encode())
        signed = [prefix + _signed(inner, outer, path) for path in listed]
        return pa.array(signed, pa.string()), self.ticket.expires


def _signed(inner: Any, outer: Any, path: str) -> str:
    """The end of a URL; it is made for every file of every answer, so nothing here is called for nothing."""
    if path.startswith(_LOG_DIRECTORY) and path[len(_LOG_DIRECTORY) :][:1] in ("", "/"):
        raise PathOutsideTableError(f"The log names a file of the log itself as data: {path[:200]!r}.")
    file = b2a_base64(path.encode(), newline=False).translate(_FOR_URLS).rstrip(b"=")
    first = inner.copy()
    first.update(file)
    second = outer.copy()
    second.update(first.digest())
    mac = b2a_base64(second.digest()[:_MAC_BYTES], newline=False).translate(_FOR_URLS)
    name = _name(path)
    shown = name if _PLAIN_NAME(name) else quote(name, safe="")
    return f"{file.decode()}.{mac.decode()}/{shown}{_QUERY}"


def verified_ticket(
    keys: SigningKeys, head: str, file: str, name: str, now: Callable[[], float] = time.time
) -> tuple[FileTicket, str] | None:
    """The ticket and the path in it, where every part is as it was signed and the time has not passed.

    The name comes decoded: some clients write percent escapes in another form than they were given.
    """
    head_parts, file_parts = _HEAD.fullmatch(head), _FILE.fullmatch(file)
    if head_parts is None or file_parts is None:
        return None
    secret = keys.secret(head_parts[1])
    if secret is None:
        return None
    key = purpose_key(secret, _PURPOSE)
    expected = hmac.digest(key, f"{head}/{file_parts[1]}".encode(), hashlib.sha256)[:_MAC_BYTES]
    if not hmac.compare_digest(_base64(expected), file_parts[2]):
        return None
    ticket, path = _opened(head_parts[2], file_parts[1])
    if ticket is None or ticket.expires <= now() * 1000 or name != _name(path):
        return None
    return ticket, path


def _opened(head: str, file: str) -> tuple[FileTicket | None, str]:
    try:
        return _decode(_bytes(head)), _bytes(file).decode()
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None, ""


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
