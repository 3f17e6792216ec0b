"""The Range header and the conditional headers of a request for a file (RFC 9110, sections 13 and 14).

One range of bytes is answered with 206; several ranges, or one that the file does not have, with 416
(RELIABILITY F6). A unit other than bytes is ignored, as the RFC asks. `If-Range` with another version of
the file than the present one turns the request into one for the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime

_RANGE = re.compile(r"bytes=(?:(\d{1,19})-(\d{1,19})?|-(\d{1,19}))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What tells one content of a file from another."""

    size: int
    modified_ns: int
    inode: int

    @property
    def etag(self) -> str:
        """A strong validator."""
        return f'"{self.size:x}-{self.modified_ns:x}-{self.inode:x}"'

    @property
    def last_modified(self) -> str:
        """The time of the last change, as an HTTP date."""
        return formatdate(self.modified_ns // 1_000_000_000, usegmt=True)


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """Which bytes to send with which status: 200, 206, 304, 412 or 416."""

    status: int
    start: int = 0
    length: int = 0


def answer_for(version: FileVersion, headers: Mapping[str, str]) -> FileAnswer:
    """Decide what a GET or HEAD of a file gets; `headers` has lower-case names."""
    if (condition := _precondition(version, headers)) is not None:
        return FileAnswer(condition)
    wanted = headers.get("range")
    if wanted is None or not wanted.lower().lstrip().startswith("bytes"):
        return FileAnswer(200, 0, version.size)
    if not _same_content(version, headers.get("if-range")):
        return FileAnswer(200, 0, version.size)
    return _ranged(version.size, wanted)


def _ranged(size: int, wanted: str) -> FileAnswer:
    match = _RANGE.fullmatch(wanted.replace(" ", ""))
    if match is None:
        return FileAnswer(416)
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(0, size - int(suffix)), size
        return FileAnswer(206, start, end - start) if start < end else FileAnswer(416)
    start = int(first)
    end = size if last is None else min(int(last) + 1, size)
    if start >= size or end <= start:
        return FileAnswer(416)
    return FileAnswer(206, start, end - start)


def _precondition(version: FileVersion, headers: Mapping[str, str]) -> int | None:
    """The status of If-Match, If-None-Match and their dates, in the order of RFC 9110 13.2.2."""
    match, unmodified = headers.get("if-match"), headers.get("if-unmodified-since")
    if match is not None:
        if not _lists(match, version.etag, weak=False):
            return 412
    elif unmodified is not None and _is_newer(version, unmodified):
        return 412
    none_match, since = headers.get("if-none-match"), headers.get("if-modified-since")
    if none_match is not None:
        return 304 if _lists(none_match, version.etag, weak=True) else None
    if since is not None and _is_newer(version, since) is False:
        return 304
    return None


def _lists(header: str, etag: str, *, weak: bool) -> bool:
    tags = [tag.strip() for tag in header.split(",")]
    return "*" in tags or etag in tags or (weak and f"W/{etag}" in tags)


def _is_newer(version: FileVersion, date: str) -> bool | None:
    """Whether the file changed after a date; None where the date cannot be read."""
    try:
        return version.modified_ns // 1_000_000_000 > parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _same_content(version: FileVersion, if_range: str | None) -> bool:
    if if_range is None:
        return True
    return if_range.strip() in (version.etag, version.last_modified)
