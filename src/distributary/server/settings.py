"""Settings: every key that the server and the administration commands know, typed, with default and meaning.

The struct below is the one table of settings; `setting_rows` reads it for `config show` and for the page of
the documentation. A value comes from a flag, else from the environment (`DISTRIBUTARY_<KEY>`, nested keys
joined by `__`), else from `distributary.yaml`, else from its default; where it came from is kept. The
configuration file of the reference server is understood as it is. Relative paths in
a file start at that file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from distributary.errors import InvalidInputError
from distributary.storage.location import parse_root
from distributary.storage.storage_options import is_secret_option

MEGABYTE: Final = 1 << 20

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


def _about(text: str) -> Meta:
    return Meta(description=text)


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encryption of the public listener."""

    certificate: Annotated[str | None, _about("File of the certificate chain (PEM).")] = None
    key: Annotated[str | None, _about("File of the certificate's private key (PEM).")] = None
    key_password_file: Annotated[
        str | None, _about("File with the password of the private key, if it has one.")
    ] = None


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one recipient, and one request, may use; 0 is no limit where it says so."""

    calls_per_second: Annotated[
        Seconds, _about("Protocol calls a second of one recipient; 0 is no limit.")
    ] = 200
    burst: Annotated[Count, _about("Protocol calls that a recipient may make at once.")] = 400
    concurrent_queries: Annotated[
        Count, _about("Queries of one recipient that run at once in a worker; 0 is no limit.")
    ] = 8
    concurrent_downloads: Annotated[
        Count, _about("Downloads of local files by one recipient at once in a worker; 0 is no limit.")
    ] = 64
    body_bytes: Annotated[Count, _about("Largest body of a request.")] = MEGABYTE
    json_depth: Annotated[Count, _about("Deepest nesting of JSON in a request.")] = 32
    request_seconds: Annotated[Seconds, _about("Longest time until an answer begins.")] = 30
    body_seconds: Annotated[Seconds, _about("Longest time in which a request's body must have come.")] = 30
    stalled_seconds: Annotated[
        Seconds, _about("A reader that takes less than the slowest rate for so long is cut off.")
    ] = 60
    slowest_rate: Annotated[Count, _about("Slowest rate of a reader, in bytes a second.")] = 1024
    files_per_page: Annotated[Count, _about("Most files in one page of a paged query.")] = 10_000
    versions_per_request: Annotated[
        Count, _about("Most table versions that one request for changes reads; 0 is no limit.")
    ] = 10_000


class Lifetimes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long what the server gives out is good for."""

    url_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=3600,
            description="Pre-signed URLs, file tickets and directory credentials; at most an hour.",
        ),
    ] = 900
    page_token_seconds: Annotated[int, Meta(ge=1, description="Page tokens.")] = 3600
    refresh_token_seconds: Annotated[int, Meta(ge=1, description="Refresh tokens.")] = 3600
    query_job_seconds: Annotated[int, Meta(ge=1, description="Results of asynchronous queries.")] = 3600
    bearer_token_days: Annotated[
        int, Meta(ge=1, description="Bearer tokens, when a command does not say.")
    ] = 90
    longest_bearer_token_days: Annotated[int, Meta(ge=1, description="Longest life of a bearer token.")] = 365


class Cache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of tables between requests; nothing of a recipient is in it."""

    folder: Annotated[
        str | None, _about("Folder of rendered file lines; by default in the user's cache folder.")
    ] = None
    bytes: Annotated[Count, _about("Most bytes in that folder.")] = 4096 * MEGABYTE
    snapshot_bytes: Annotated[Count, _about("Most memory of a worker for snapshots of tables.")] = (
        512 * MEGABYTE
    )
    staleness_seconds: Annotated[
        Seconds, _about("How old a table's latest version may be in an answer; 0 looks at every query.")
    ] = 0


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit log; changes are always in it."""

    reads: Annotated[bool, _about("Whether reads by recipients are recorded.")] = True
    retention_days: Annotated[
        Count, _about("Days after which events are removed; 0 keeps them for ever.")
    ] = 0


class Log(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server's own log, on stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], _about("What is written.")] = "info"
    format: Annotated[Literal["json", "text"], _about("A JSON object or a text on each line.")] = "json"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting of the server and of the administration commands."""

    database: Annotated[
        str, _about("The catalog: the path of a SQLite file, `sqlite:///…` or `postgresql://…`.")
    ] = "distributary.db"
    key_file: Annotated[str, _about("The key ring, the same on every server of a catalog.")] = (
        "distributary.keys"
    )
    host: Annotated[str, _about("Address of the public listener.")] = "127.0.0.1"
    port: Annotated[Port, _about("Port of the public listener; 0 takes a free one.")] = 8080
    prefix: Annotated[str, _about("Path under which the protocol is served.")] = "/delta-sharing"
    public_url: Annotated[
        str | None,
        _about(
            "URL by which recipients reach the server, without the prefix; by default from host and port."
        ),
    ] = None
    admin_host: Annotated[str, _about("Address of the admin listener.")] = "127.0.0.1"
    admin_port: Annotated[Port, _about("Port of the admin listener; 0 takes a free one.")] = 8081
    allow_plain_http: Annotated[
        bool, _about("Serve without TLS on addresses other than loopback (behind a proxy that has TLS).")
    ] = False
    trusted_proxies: Annotated[
        tuple[str, ...], _about("Networks of proxies whose X-Forwarded-For is believed.")
    ] = ()
    workers: Annotated[int, Meta(ge=1, le=256, description="Worker processes.")] = 2
    drain_seconds: Annotated[Seconds, _about("Time that running requests get when the server stops.")] = 30
    tls: Tls = Tls()
    limits: Limits = Limits()
    lifetimes: Lifetimes = Lifetimes()
    cache: Cache = Cache()
    audit: Audit = Audit()
    log: Log = Log()
    storage: Annotated[
        dict[str, dict[str, str]],
        _about(
            "Options of the store for each table root (see below); `${NAME}` is read from the environment."
        ),
    ] = {}

    def __repr__(self) -> str:
        return "Settings(…)"

    @property
    def base_url(self) -> str:
        """The URL by which recipients reach the server, without the prefix and a slash at its end."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        scheme = "http" if self.tls.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def endpoint(self) -> str:
        """The URL that goes into profile files."""
        return self.base_url + self.prefix

    @property
    def key_path(self) -> Path:
        """The key file."""
        return Path(self.key_file)

    @property
    def cache_folder(self) -> Path:
        """The folder of rendered lines."""
        if self.cache.folder is not None:
            return Path(self.cache.folder)
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        return Path(base) / "distributary"

    def storage_options(self, location: str) -> dict[str, str]:
        """Give the options of the store for a table: those of the innermost root that it lies in."""
        place = parse_root(location)
        roots = [(parse_root(root), options) for root, options in self.storage.items()]
        holding = [found for found in roots if found[0] == place or found[0].key_of(place) is not None]
        if not holding:
            return {}
        _, options = max(holding, key=lambda found: len(found[0].path))
        return {name: resolved_reference(value, name) for name, value in options.items()}


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, as `config show` and the documentation have it."""

    key: str
    type: str
    default: str
    meaning: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "DISTRIBUTARY_" + self.key.upper().replace(".", "__")


def setting_rows(struct: type[msgspec.Struct] = Settings, prefix: str = "") -> Iterator[SettingRow]:
    """Give every setting, in the order of the struct."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        key, hint = prefix + field.name, hints[field.name]
        if isinstance(field.default, msgspec.Struct):
            yield from setting_rows(type(field.default), f"{key}.")
        else:
            meaning = next(text for meta in hint.__metadata__ if (text := meta.description))
            default = {} if field.default is msgspec.NODEFAULT else field.default
            yield SettingRow(
                key=key, type=_type_name(hint), default=shown_value(key, default), meaning=meaning
            )


def value_of(settings: Settings, key: str) -> Any:
    """Give the value of one setting by its key."""
    value: Any = settings
    for part in key.split("."):
        value = getattr(value, part)
    return value


def shown_value(key: str, value: Any) -> str:
    """Write a value as a user may see it: no password and no secret of a store."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str() if key == "database":
            return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", value)
        case Mapping():
            return msgspec.json.encode(_without_secrets(value)).decode()
        case tuple() | list():
            return msgspec.json.encode(value).decode()
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def resolved_reference(value: str, name: str) -> str:
    """Read `${NAME}` from the environment; any other text is itself."""
    match = _REFERENCE.fullmatch(value)
    if match is None:
        return value
    found = os.environ.get(match[1])
    if found is None:
        raise InvalidInputError(
            f"storage option {name} is read from {match[1]}, which is not in the environment"
        )
    return found


def _without_secrets(storage: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    def shown(name: str, value: str) -> str:
        return "***" if is_secret_option(name) and not _REFERENCE.fullmatch(value) else value

    return {
        root: {name: shown(name, value) for name, value in options.items()}
        for root, options in storage.items()
    }


def _type_name(hint: Any) -> str:
    """Name a type as a user would."""
    bare = hint.__origin__
    while hasattr(bare, "__metadata__"):
        bare = bare.__origin__
    if get_origin(bare) is Literal:
        return " or ".join(get_args(bare))
    if bare in _TYPE_NAMES:
        return _TYPE_NAMES[bare]
    inner = [part for part in get_args(bare) if part is not type(None)]
    return _TYPE_NAMES.get(inner[0], "text")


_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TYPE_NAMES: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    tuple[str, ...]: "list of texts",
    dict[str, dict[str, str]]: "mapping",
}
