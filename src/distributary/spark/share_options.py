"""The options of the source ``deltaSharing``, named as the official connector names them; case is ignored.

A table is ``<profile>#<share>.<schema>.<table>``. The profile may also come from options
(`shareCredentialsVersion`, `endpoint`, `bearerToken`, …) or, where neither says, from the environment; the
path is then ``<share>.<schema>.<table>``. No message and no `repr` shows the value of a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from distributary.client.connection import ConnectionSettings
from distributary.client.credentials import load_profile
from distributary.client.delta_sharing import parse_url
from distributary.client.shared_table import SharedTable
from distributary.client.sharing_client import SharingClient
from distributary.client.spark_frame import CONNECTION_PREFIX, SPARK_FORMAT
from distributary.errors import InvalidInputError
from distributary.sharing.capabilities import ResponseFormat
from distributary.sharing.names import TableName, parse_table_name
from distributary.sharing.profile import Profile

_FORMATS: tuple[ResponseFormat, ...] = ("delta", "parquet")
_CREDENTIALS_TYPE = "sharecredentialstype"


class ShareOptions:
    """The options of one read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    @property
    def table_name(self) -> TableName:
        """The table, by its three names."""
        path = self._path
        return parse_url(path)[1] if "#" in path else parse_table_name(path)

    def profile(self) -> Profile:
        """The server, and who we are there; reads the profile file."""
        fields = self._profile_fields()
        if "endpoint" in fields:
            return load_profile(fields)
        return load_profile(parse_url(self._path)[0] if "#" in self._path else None)

    def connection(self) -> ConnectionSettings:
        """Settings of the network: options that begin with ``connection.``."""
        known = {field.name: field for field in msgspec.structs.fields(ConnectionSettings)}
        given = {
            name.removeprefix(CONNECTION_PREFIX): text
            for name, text in self._options.items()
            if name.startswith(CONNECTION_PREFIX)
        }
        for name in given:
            if name not in known:
                raise InvalidInputError(f"option {CONNECTION_PREFIX}{name} is not known: {', '.join(known)}")
        try:
            return msgspec.convert(given, ConnectionSettings, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInputError(f"an option {CONNECTION_PREFIX}… cannot be used: {error}") from None

    def table(self, profile: Profile) -> SharedTable:
        """The table at its server; nothing is asked yet."""
        text = self.get("responseFormat") or "delta,parquet"
        formats = [each.strip() for each in text.lower().split(",")]
        wanted: list[ResponseFormat] = [known for known in _FORMATS if known in formats]
        if not wanted or len(wanted) != len(formats):
            raise InvalidInputError(f"option responseFormat must be delta, parquet or both, not {text!r}")
        client = SharingClient(
            profile,
            access="url",
            response_format=wanted[0] if len(wanted) == 1 else None,
            progress=False,
            connection=self.connection(),
        )
        return client.table(self.table_name)

    def get(self, name: str) -> str | None:
        """One option."""
        return self._options.get(name.lower())

    def flag(self, name: str) -> bool:
        """Whether an option is switched on."""
        text = (self.get(name) or "false").strip().lower()
        if text not in ("true", "false"):
            raise InvalidInputError(f"option {name} must be true or false, not {text!r}")
        return text == "true"

    def number(self, name: str) -> int | None:
        """A whole number that is not negative."""
        text = self.get(name)
        if text is None:
            return None
        if not (text.strip().isascii() and text.strip().isdigit()):
            raise InvalidInputError(f"option {name} must be a whole number, not {text!r}")
        return int(text)

    def size(self, name: str) -> int | None:
        """A number of bytes, such as 1048576, 64m or 2g."""
        return size_in_bytes(name, self.get(name))

    @property
    def reads_changes(self) -> bool:
        """Whether changes are read instead of rows."""
        return self.flag("readChangeFeed") or self.flag("readChangeData")

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Only these columns: names by commas, or a JSON list of them."""
        text = (self.get("columns") or "").strip()
        if not text:
            return None
        if not text.startswith("["):
            return tuple(name.strip() for name in text.split(","))
        try:
            return msgspec.json.decode(text, type=tuple[str, ...])
        except msgspec.MsgspecError:
            raise InvalidInputError(f"option columns is no list of names: {text!r}") from None

    @property
    def version_as_of(self) -> int | None:
        """The version whose rows are read."""
        return self.number("versionAsOf")

    @property
    def timestamp_as_of(self) -> str | None:
        """The time whose rows are read; without a zone it is UTC."""
        return self.get("timestampAsOf")

    @property
    def _path(self) -> str:
        found = self._options.get("path")
        if not found:
            raise InvalidInputError(
                f"format({SPARK_FORMAT!r}) needs a table: .load('<profile>#<share>.<schema>.<table>')"
            )
        return found

    def _profile_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for field in msgspec.structs.fields(Profile):
            key = _CREDENTIALS_TYPE if field.name == "type" else field.encode_name.lower()
            if (text := self._options.get(key)) is not None:
                fields[field.encode_name] = text
        if "auth" in fields:
            try:
                fields["auth"] = msgspec.json.decode(fields["auth"])
            except msgspec.DecodeError:
                raise InvalidInputError("option auth is not JSON") from None
        if "endpoint" in fields:
            version = fields.get("shareCredentialsVersion", "1")
            fields["shareCredentialsVersion"] = int(version) if version.isdigit() else version
        return fields

    def __repr__(self) -> str:
        return f"ShareOptions({', '.join(sorted(self._options))})"


def size_in_bytes(name: str, value: str | None) -> int | None:
    """The number of bytes that an option says, such as 1048576, 64m or 2g."""
    text = (value or "").strip().lower()
    if not text:
        return None
    digits = text.rstrip("bkmgt").strip()
    unit = text[len(digits) :].strip().removesuffix("b")
    if not digits.isdigit() or unit not in ("", *"kmgt"):
        raise InvalidInputError(f"option {name} must be a number of bytes such as 64m, not {text!r}")
    return int(digits) << (10 * (("", *"kmgt").index(unit)))
