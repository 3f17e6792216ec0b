"""The configuration file of the reference sharing server, read as settings of ours.

The same file also holds the shares (see `catalog.share_file`). What has no counterpart here, such as the
number of cached tables, is passed over, as that server passes over keys that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from distributary.errors import InvalidInputError

NEWEST_VERSION: Final = 1
LONGEST_URL_SECONDS: Final = 3600

_SAME: Final = {
    "host": "host",
    "port": "port",
    "endpoint": "prefix",
    "requestTimeoutSeconds": "limits.request_seconds",
    "queryTablePageSizeLimit": "limits.files_per_page",
}
_MILLISECONDS: Final = {
    "queryTablePageTokenTtlMs": "lifetimes.page_token_seconds",
    "refreshTokenTtlMs": "lifetimes.refresh_token_seconds",
}
_TLS: Final = {
    "certificateFile": "certificate",
    "certificateKeyFile": "key",
    "certificatePasswordFile": "key_password_file",
}
# How long a table may be stale when the file says that staleness is acceptable.
ACCEPTABLE_STALENESS_SECONDS: Final = 3600
# The reference server listens there when its file does not say.
_DEFAULTS: Final = {"host": "localhost", "port": 80}


def is_reference_file(document: Mapping[str, Any]) -> bool:
    """Tell the reference server's file from ours, which has no shares and no version in it."""
    return "shares" in document or "authorization" in document


def reference_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Give the settings in such a file, nested as in ours."""
    version = document.get("version")
    if not isinstance(version, int) or not 1 <= version <= NEWEST_VERSION:
        raise InvalidInputError(
            f"a file of the reference server says `version: {NEWEST_VERSION}`; this one does not"
        )
    settings: dict[str, Any] = dict(_DEFAULTS)
    for name, key in _SAME.items():
        if name in document:
            _put(settings, key, document[name])
    for name, key in _MILLISECONDS.items():
        if name in document:
            _put(settings, key, max(1, int(document[name]) // 1000))
    if "preSignedUrlTimeoutSeconds" in document:
        seconds = min(int(document["preSignedUrlTimeoutSeconds"]), LONGEST_URL_SECONDS)
        _put(settings, "lifetimes.url_seconds", seconds)
    if document.get("stalenessAcceptable"):
        _put(settings, "cache.staleness_seconds", ACCEPTABLE_STALENESS_SECONDS)
    return settings | _tls(document.get("ssl"))


def _tls(ssl: Any) -> dict[str, Any]:
    if not isinstance(ssl, Mapping):
        return {}
    given = cast("Mapping[str, Any]", ssl)
    if given.get("selfSigned"):
        raise InvalidInputError(
            "the file asks for a self-signed certificate, which is not made here: make one, and name it by "
            "certificateFile and certificateKeyFile"
        )
    return {"tls": {ours: given[theirs] for theirs, ours in _TLS.items() if given.get(theirs)}}


def _put(settings: dict[str, Any], key: str, value: Any) -> None:
    *outer, last = key.split(".")
    for part in outer:
        settings = settings.setdefault(part, {})
    settings[last] = value
