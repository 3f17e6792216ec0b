"""Profile files: what a recipient needs to reach a sharing server.

Implements section 8 of the obligations (PF-001 to PF-009) and version 2 of the format (beyond.md A13):
bearer token, OAuth client credentials, private-key JWT and basic authentication. A bearer token is
accepted under both versions. Secrets are not shown by `repr` or in errors.
"""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from distributary.errors import InvalidInputError

NEWEST_VERSION: Final = 2

AuthType = Literal["bearer_token", "oauth_client_credentials", "oauth_jwt_bearer_private_key_jwt", "basic"]
"""How a client proves who it is."""

_FRACTION = re.compile(r"\.(\d+)")
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "bearer_token": ("bearerToken",),
    "oauth_client_credentials": ("tokenEndpoint", "clientId", "clientSecret"),
    "oauth_jwt_bearer_private_key_jwt": ("auth",),
    "basic": ("username", "password"),
}


class InvalidProfileError(InvalidInputError):
    """A profile file that cannot be used; says which field is wrong, never what it holds."""

    code = "INVALID_PROFILE"


class PrivateKey(msgspec.Struct, frozen=True, rename="camel"):
    """The key with which a client signs its own assertion."""

    private_key_file: str
    key_id: str
    algorithm: str = "RS256"


class JwtBearer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a client needs to ask for a token with a signed assertion."""

    token_endpoint: str
    issuer: str
    client_id: str
    audience: str
    private_key: PrivateKey
    scope: str | None = None


class Profile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A server, and the credentials for it."""

    share_credentials_version: int
    endpoint: str
    type: AuthType | None = None
    bearer_token: str | None = None
    expiration_time: str | None = None
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    username: str | None = None
    password: str | None = None
    auth: JwtBearer | None = None

    @property
    def auth_type(self) -> AuthType:
        """How the client proves who it is; a bearer token where the profile does not say."""
        return self.type or "bearer_token"

    @property
    def expires_at(self) -> datetime.datetime | None:
        """When the token ends, None for never."""
        return None if self.expiration_time is None else _moment(self.expiration_time)

    def is_expired(self, now: datetime.datetime) -> bool:
        """Whether the token has ended."""
        end = self.expires_at
        return end is not None and end <= now

    def __repr__(self) -> str:
        return f"Profile(endpoint={self.endpoint!r}, type={self.auth_type!r})"


def bearer_profile(endpoint: str, token: str, expires: datetime.datetime | None = None) -> Profile:
    """A profile of version 1, which every client reads."""
    text = None
    if expires is not None:
        moment = expires.astimezone(datetime.UTC)
        text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return Profile(share_credentials_version=1, endpoint=endpoint, bearer_token=token, expiration_time=text)


def parse_profile(text: str | bytes, where: str = "profile") -> Profile:
    """Read and check the text of a profile file."""
    fields = _fields(text, where)
    version = fields.get("shareCredentialsVersion")
    if not isinstance(version, int) or isinstance(version, bool):
        raise InvalidProfileError(f"{where}: shareCredentialsVersion must be a whole number")
    if version > NEWEST_VERSION:
        raise InvalidProfileError(
            f"{where}: it has version {version} of the profile format, and this client reads up to "
            f"{NEWEST_VERSION}. Upgrade distributary."
        )
    kind = fields.get("type", "bearer_token")
    if kind not in _NEEDED:
        raise InvalidProfileError(f"{where}: type must be one of {', '.join(_NEEDED)}")
    for name in ("endpoint", *_NEEDED[kind]):
        if not fields.get(name):
            raise InvalidProfileError(f"{where}: the field {name} is missing")
    return _checked(_converted(fields, where), where)


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a profile file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidProfileError(f"{os.fspath(path)}: cannot be read: {error.strerror}") from error
    return parse_profile(data, os.fspath(path))


def encode_profile(profile: Profile) -> bytes:
    """The text of a profile file."""
    return msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n"


def write_profile(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write a profile file that nobody but its owner can read, replacing one that is there."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(encode_profile(profile))
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _fields(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidProfileError(f"{where}: it is not JSON") from None
    if not isinstance(found, dict):
        raise InvalidProfileError(f"{where}: it is not a JSON object")
    return cast("dict[str, Any]", found)


def _converted(fields: dict[str, Any], where: str) -> Profile:
    try:
        return msgspec.convert(fields, Profile)
    except msgspec.ValidationError as error:
        # msgspec names the field and the types, not the value.
        raise InvalidProfileError(f"{where}: {error}") from None


def _checked(profile: Profile, where: str) -> Profile:
    profile = msgspec.structs.replace(profile, endpoint=profile.endpoint.rstrip("/"))
    if not profile.endpoint.lower().startswith(("https://", "http://")):
        raise InvalidProfileError(f"{where}: endpoint must be an http or https URL")
    if profile.expiration_time is not None:
        try:
            _moment(profile.expiration_time)
        except ValueError:
            raise InvalidProfileError(f"{where}: expirationTime is not ISO 8601") from None
    return profile


def _moment(text: str) -> datetime.datetime:
    """A time with any number of fraction digits; without a zone it is UTC."""
    whole = _FRACTION.sub(lambda match: "." + match[1][:6].ljust(6, "0"), text.strip())
    moment = datetime.datetime.fromisoformat(whole)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
