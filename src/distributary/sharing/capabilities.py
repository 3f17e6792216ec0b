"""The ``delta-sharing-capabilities`` header: what a client can read, and which format answers it.

Implements section 6 of the obligations (CAP-001 to CAP-015). The header is a list ``key=a,b;key=c``;
keys and values are compared without regard to case, unknown keys, values and malformed pairs are ignored.

Negotiation never answers with data that the client would misread: a table in whose reading a feature
takes part is given only in the delta format, and only to a client that announced the feature.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, cast

import msgspec

from distributary.sharing.error_response import InvalidParameterError, UnsupportedOperationError

CAPABILITIES_HEADER: Final = "delta-sharing-capabilities"
FILE_ID_HASH_HEADER: Final = "fileidhash"
TABLE_VERSION_HEADER: Final = "Delta-Table-Version"

ResponseFormat = Literal["parquet", "delta"]
"""The two forms of answers."""

_FORMATS: Final = ("parquet", "delta")
_MODES: Final = ("url", "dir")


class Capabilities(msgspec.Struct, frozen=True):
    """What a client announced; without the header the behaviour of the first protocol edition (C-05)."""

    response_formats: tuple[ResponseFormat, ...] = ("parquet",)
    reader_features: frozenset[str] = frozenset()
    access_modes: tuple[str, ...] = ()
    include_end_stream_action: bool = False
    async_query: bool = False

    def to_header(self) -> str:
        """The header of a request."""
        parts = [f"responseformat={','.join(self.response_formats)}"]
        if self.reader_features:
            parts.append(f"readerfeatures={','.join(sorted(self.reader_features))}")
        if self.access_modes:
            parts.append(f"accessmodes={','.join(self.access_modes)}")
        if self.include_end_stream_action:
            parts.append("includeendstreamaction=true")
        if self.async_query:
            parts.append("asyncquery=true")
        return ";".join(parts)


def parse_capabilities(header: str | None) -> Capabilities:
    """What a header announces; whatever it holds, it is read without an error (CAP-013)."""
    values = _pairs(header or "")
    formats = tuple(value for value in values.get("responseformat", ()) if value in _FORMATS)
    return Capabilities(
        response_formats=cast("tuple[ResponseFormat, ...]", formats or ("parquet",)),
        reader_features=frozenset(values.get("readerfeatures", ())),
        access_modes=tuple(value for value in values.get("accessmodes", ()) if value in _MODES),
        include_end_stream_action=_is_true(values.get("includeendstreamaction", ())),
        async_query=_is_true(values.get("asyncquery", ())),
    )


def response_capabilities(
    chosen: ResponseFormat, *, end_stream_action: bool = False, async_query: bool = False
) -> str:
    """The header of an answer, in lower case because clients compare it so (CAP-014, A16)."""
    parts = [f"responseformat={chosen}"]
    if end_stream_action:
        parts.append("includeendstreamaction=true")
    if async_query:
        parts.append("asyncquery=true")
    return ";".join(parts)


def negotiate(capabilities: Capabilities, needed: Collection[str]) -> ResponseFormat:
    """The format for a table in whose reading these features take part; refused where there is none."""
    if not needed and "parquet" in capabilities.response_formats:
        return "parquet"
    missing = [name for name in sorted(needed) if not announces(capabilities, name)]
    if "delta" in capabilities.response_formats and not missing:
        return "delta"
    raise UnsupportedOperationError(_refusal(capabilities, sorted(needed), missing))


def announces(capabilities: Capabilities, feature: str) -> bool:
    """Whether a client can process a table feature; a preview is told by its own name or the final one."""
    name = feature.lower()
    return not {name, name.removesuffix("-preview")}.isdisjoint(capabilities.reader_features)


def parse_file_id_hash(header: str | None) -> ResponseFormat | None:
    """Which format's file ids a client asked for, if it did (A10)."""
    if header is None:
        return None
    value = header.strip().lower()
    if value not in _FORMATS:
        raise InvalidParameterError(f"Unsupported fileidhash: {header[:40]!r}. Supported: parquet, delta")
    return value


def _pairs(header: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for part in header.lower().split(";"):
        key, equals, value = part.partition("=")
        if equals and key.strip():
            found[key.strip()] = tuple(text for item in value.split(",") if (text := item.strip()))
    return found


def _is_true(values: tuple[str, ...]) -> bool:
    return values == ("true",)


def _refusal(capabilities: Capabilities, needed: list[str], missing: list[str]) -> str:
    names = ", ".join(needed)
    if "delta" not in capabilities.response_formats:
        return (
            f"Reading this table needs {names}, which the parquet response format cannot express. "
            f"Ask with {CAPABILITIES_HEADER}: responseformat=delta;readerfeatures={','.join(needed).lower()}"
        )
    return (
        f"Reading this table needs the reader features {names}, of which the client did not announce "
        f"{', '.join(missing)} in {CAPABILITIES_HEADER}. Use a client that supports them."
    )
