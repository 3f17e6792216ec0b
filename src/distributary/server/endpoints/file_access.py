"""Files of local tables by signed ticket: GET and HEAD with ranges and conditions (RELIABILITY F1, F3, F6).

The ticket is verified first, then the recipient and the grant are asked for again, then the file is opened
beneath the table's present root and nowhere else. A ticket that is tampered with, expired, of a revoked
recipient or of a table that is no longer granted gets one and the same 403; a file that is gone gets 404.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from distributary.errors import ObjectNotFoundError
from distributary.server.answers import PIECE_BYTES, Answer, StreamedAnswer
from distributary.server.byte_ranges import FileAnswer, FileVersion, answer_for
from distributary.server.file_tickets import short_digest, verified_ticket
from distributary.sharing.error_response import PermissionDeniedError
from distributary.storage.confined_file import ConfinedFile, open_confined
from distributary.storage.location import Location, parse_root

if TYPE_CHECKING:
    from distributary.server.request import Request
    from distributary.server.service import Service
    from distributary.sharing.table_policy import TablePolicy

REFUSED: Final = "This URL is not valid, or not any more: ask the sharing server for a new one."
_WHOLE_BYTES: Final = 1024 * 1024


async def file_bytes(service: Service, request: Request, names: Mapping[str, str]) -> Answer | StreamedAnswer:
    """The bytes of a file that a ticket names."""
    found = verified_ticket(service.keys, names["head"], names["file"], names["name"])
    if found is None:
        raise PermissionDeniedError(REFUSED)
    ticket, path = found
    recipient = await service.authentication.known(ticket.recipient, request.address)
    table = None if recipient is None else await service.table_by_id(recipient, ticket.table)
    if recipient is None or table is None or short_digest(table.policy) != ticket.policy:
        raise PermissionDeniedError(REFUSED)
    root, key = local_place(table.policy, path)
    service.downloads.enter(recipient.id)
    leave = partial(service.downloads.leave, recipient.id)
    try:
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(service.file_threads, _opened, service, request, root, key, leave)
    except BaseException:
        leave()
        raise
    if isinstance(answer, Answer):
        leave()
    return answer


def local_place(policy: TablePolicy, path: str) -> tuple[str, str]:
    """The directory and the key beneath it of a path in canonical form; refused outside the table's roots."""
    if "://" not in path:
        return _directory(policy.location), path
    place = _canonical_location(path)
    for root in (policy.location, *policy.auxiliary_locations):
        location = _location(root)
        key = location.key_of(place)
        if key is not None and location.scheme == "file":
            return f"/{location.path}", key
    raise ObjectNotFoundError("There is no such file in the table.")


def _canonical_location(path: str) -> Location:
    """A canonical path is decoded already; decoding it again would name another file."""
    scheme, _, rest = path.partition("://")
    authority, _, key = rest.partition("/")
    return Location(scheme, authority, key)


@lru_cache(maxsize=4096)
def _location(root: str) -> Location:
    return parse_root(root)


def _directory(root: str) -> str:
    location = _location(root)
    if location.scheme != "file":
        raise ObjectNotFoundError("There is no such file in the table.")
    return f"/{location.path}"


def _opened(
    service: Service, request: Request, root: str, key: str, leave: Callable[[], None]
) -> Answer | StreamedAnswer:
    """Open the file and decide what to send; a short answer is read at once."""
    file = open_confined(root, key)
    try:
        version = FileVersion(file.size, file.modified_ns, file.inode)
        decided = answer_for(version, request.headers)
        headers = _headers(version, decided)
        if decided.length > _WHOLE_BYTES:
            pieces = _pieces(file, decided.start, decided.length)
            release = partial(_released, file, leave)
            return StreamedAnswer(
                decided.status, headers, pieces, service.file_threads, decided.length, release
            )
        body = file.read(decided.start, decided.length) if decided.length else b""
    except BaseException:
        file.close()
        raise
    file.close()
    if len(body) != decided.length:
        raise ObjectNotFoundError("The file changed while it was read.")
    return Answer(decided.status, headers, body)


def _released(file: ConfinedFile, leave: Callable[[], None]) -> None:
    file.close()
    leave()


def _headers(version: FileVersion, decided: FileAnswer) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"accept-ranges", b"bytes"),
        (b"etag", version.etag.encode()),
        (b"last-modified", version.last_modified.encode()),
        (b"cache-control", b"private, no-cache"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if decided.status == 206:
        last = decided.start + decided.length - 1
        headers.append((b"content-range", f"bytes {decided.start}-{last}/{version.size}".encode()))
    if decided.status == 416:
        headers.append((b"content-range", f"bytes */{version.size}".encode()))
    return headers


def _pieces(file: ConfinedFile, start: int, length: int) -> Iterator[bytes]:
    """The bytes of a range, a piece at a time; a file that shrank ends the stream early, which is seen."""
    end = start + length
    while start < end:
        piece = file.read(start, min(PIECE_BYTES, end - start))
        if not piece:
            raise ObjectNotFoundError("The file became shorter while it was read.")
        start += len(piece)
        yield piece
