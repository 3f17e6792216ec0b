"""Where a table root or an object lies: scheme, authority and decoded path.

Every spelling of a place has one ``Location``: ``s3a://b/t/`` and ``s3://b/t``, or ``/t``, ``file:/t``
and ``file:///t``, are equal. URIs are percent-decoded once (RFC 3986), plain paths are taken as they
are; ``Location.uri`` is the canonical, percent-encoded text and opens the same place again.

Containment is by whole segments, so ``…/tenant-a-evil`` is not inside ``…/tenant-a``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from distributary.errors import InvalidInputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_FILE_WITHOUT_AUTHORITY = re.compile(r"file:/(?!/)", re.IGNORECASE)
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "azure": "az", "gcs": "gs"}
_URI_SAFE = "/!$&'()*+,;=:@~-._"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a store; ``path`` is decoded and has neither a leading nor a trailing slash."""

    scheme: str
    authority: str
    path: str

    @property
    def uri(self) -> str:
        """The canonical URI, percent-encoded, without a trailing slash."""
        return f"{self.scheme}://{self.authority}{self._rooted(quote(self.path, safe=_URI_SAFE))}"

    @property
    def text(self) -> str:
        """The URI with its path decoded: the form in which paths of a log are compared."""
        return f"{self.scheme}://{self.authority}{self._rooted(self.path)}"

    def key_of(self, other: Location) -> str | None:
        """The path of ``other`` below this place, or None where it does not lie strictly inside."""
        if (other.scheme, other.authority) != (self.scheme, self.authority):
            return None
        if not self.path:
            return other.path or None
        inside = other.path.startswith(self.path + "/")
        return other.path[len(self.path) + 1 :] if inside else None

    def joined(self, key: str) -> Location:
        """The place of ``key`` below this one."""
        return Location(self.scheme, self.authority, "/".join(part for part in (self.path, key) if part))

    def _rooted(self, path: str) -> str:
        return f"/{path}" if path or self.scheme == "file" else ""


def is_absolute_uri(text: str) -> bool:
    """Whether a text names a scheme; a mere ':' in a relative path does not."""
    return _SCHEME.match(text) is not None or _FILE_WITHOUT_AUTHORITY.match(text) is not None


def parse_uri(uri: str) -> Location:
    """The place that an absolute URI names; ``..`` is left for the caller to judge."""
    match = _SCHEME.match(uri)
    if match is None:
        return Location("file", "", tidy(percent_decoded(uri[len("file:") :])))
    scheme = _SAME_SCHEME.get(match[1].lower(), match[1].lower())
    authority, _, path = uri[match.end() :].partition("/")
    if scheme == "file":
        authority = "" if authority.lower() == "localhost" else authority
    return Location(scheme, authority, tidy(percent_decoded(path)))


def parse_root(uri_or_path: str) -> Location:
    """The place that a user names: a URI, or a path of the local disk (relative and ``~`` allowed)."""
    if not uri_or_path:
        raise InvalidInputError(
            "The table path is empty: give a directory or a URI such as s3://bucket/table"
        )
    if "\0" in uri_or_path:
        raise InvalidInputError("The table path contains a NUL character")
    if not is_absolute_uri(uri_or_path):
        absolute = os.path.abspath(os.path.expanduser(uri_or_path))
        return Location("file", "", absolute.strip("/"))
    location = parse_uri(uri_or_path)
    if ".." in location.path.split("/"):
        raise InvalidInputError(f"A table root must not contain '..': {location.uri}")
    if location.scheme == "file" and location.authority:
        raise InvalidInputError(f"{location.uri} names another host: write file:///path (three slashes)")
    return location


def percent_decoded(text: str) -> str:
    """The text with its percent escapes decoded once; escapes that are not UTF-8 stay as they are."""
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        return text


def tidy(path: str) -> str:
    """The path without empty and ``.`` segments."""
    return "/".join(segment for segment in path.split("/") if segment not in ("", "."))
