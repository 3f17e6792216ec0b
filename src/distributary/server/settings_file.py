"""Where settings come from: flags, the environment, a file, defaults; and the file that commands write.

The file is the one that is named, else `distributary.yaml` in the current folder, else `config.yaml` in the
user's configuration folder. A key that no setting has is refused with the nearest one that has.
"""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from distributary.catalog.yaml_document import read_yaml_file, write_yaml
from distributary.errors import DistributaryError, InvalidInputError
from distributary.server.reference_settings import is_reference_file, reference_settings
from distributary.server.settings import Settings, setting_rows, value_of

FILE_NAME: Final = "distributary.yaml"
ENVIRONMENT_PREFIX: Final = "DISTRIBUTARY_"

_PATHS: Final = (
    "database",
    "key_file",
    "tls.certificate",
    "tls.key",
    "tls.key_password_file",
    "cache.folder",
)


class InvalidSettingError(DistributaryError):
    """A setting has a value that it cannot have, or there is no such setting."""

    code = "INVALID_SETTING"
    exit_code = 2


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, and for each key where its value came from."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None
    is_reference_file: bool = False
    """Whether the file is the reference server's, which also holds shares."""

    def origin(self, key: str) -> str:
        """Say where a value came from."""
        return self.origins.get(key, "default")


def load_settings(
    file: Path | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Gather the settings; flags that are None were not given."""
    variables = os.environ if environment is None else environment
    found = file or find_file(variables)
    document = {} if found is None else read_yaml_file(found)
    foreign = is_reference_file(document)
    values = flattened(reference_settings(document) if foreign else document)
    folder = Path.cwd() if found is None else found.absolute().parent
    gathered = {key: (value, str(found)) for key, value in _resolved(values, folder).items()}
    gathered |= {key: (value, _variable(key)) for key, value in _from_environment(variables).items()}
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    gathered |= {key: (value, "flag") for key, value in given.items()}
    gathered = {**_default_paths(folder), **gathered}
    settings = _built({key: value for key, (value, _) in gathered.items()}, gathered)
    origins = {key: origin for key, (_, origin) in gathered.items() if origin != "default"}
    return LoadedSettings(settings=settings, origins=origins, file=found, is_reference_file=foreign)


def find_file(environment: Mapping[str, str] | None = None) -> Path | None:
    """Find the file of settings: `DISTRIBUTARY_CONFIG`, the current folder, the user's own folder."""
    variables = os.environ if environment is None else environment
    if named := variables.get("DISTRIBUTARY_CONFIG"):
        return Path(named)
    home = variables.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    for candidate in (Path(FILE_NAME), Path(home) / "distributary" / "config.yaml"):
        if candidate.is_file():
            return candidate
    return None


def write_setting(file: Path, key: str, text: str | None) -> None:
    """Set one key in a file of settings, or take it out; the other keys stay."""
    require_key(key)
    document = read_yaml_file(file) if file.exists() else {}
    if is_reference_file(document):
        raise InvalidSettingError(
            f"{file} is a file of the reference server, which is not changed: edit it yourself"
        )
    *outer, last = key.split(".")
    inner = document
    for part in outer:
        inner = cast("dict[str, Any]", inner.setdefault(part, {}))
    if text is None:
        inner.pop(last, None)
    else:
        inner[last] = value_of(_built({key: text}, {key: (text, "the command")}), key)
    load = flattened({key: value for key, value in document.items() if value != {}})
    _built(load, {name: (value, str(file)) for name, value in load.items()})
    replace_file(file, write_yaml({key: value for key, value in _plain(document).items() if value != {}}))


def replace_file(file: Path, text: str) -> None:
    """Write a file in one step, readable by its owner alone."""
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        beside.replace(file)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be written: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)


def flattened(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn a nested document into keys with periods; what lies in `storage` stays together."""
    flat: dict[str, Any] = {}
    groups = {key.rpartition(".")[0] for key in _keys() if "." in key}
    for name, value in document.items():
        key = f"{prefix}{name}"
        if key in groups and isinstance(value, Mapping):
            flat |= flattened(cast("Mapping[str, Any]", value), f"{key}.")
        elif key in groups and value is None:
            continue
        else:
            flat[require_key(key)] = value
    return flat


def require_key(key: str) -> str:
    """Give a key back, or name the nearest that a setting has."""
    if key in _keys():
        return key
    near = difflib.get_close_matches(key, _keys(), n=1)
    hint = f"did you mean {near[0]}?" if near else "`distributary config show` lists them all"
    raise InvalidSettingError(f"there is no setting {key!r}: {hint}")


def _keys() -> list[str]:
    return [row.key for row in setting_rows()]


def _variable(key: str) -> str:
    return next(row.variable for row in setting_rows() if row.key == key)


def _from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Read `DISTRIBUTARY_…`; a variable that is nearly a setting's would silently do nothing: refused."""
    known = {row.variable: row for row in setting_rows()}
    found: dict[str, Any] = {}
    for name, text in variables.items():
        if name in known and not _is_of_kubernetes(name, text):
            found[known[name].key] = _parsed(text, known[name].type)
        elif name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.93)
            if near:
                raise InvalidSettingError(f"{name} in the environment is no setting: did you mean {near[0]}?")
    return found


def _is_of_kubernetes(name: str, text: str) -> bool:
    """Tell the variable that Kubernetes sets for a service called `distributary` from the setting `port`."""
    return name == "DISTRIBUTARY_PORT" and text.startswith("tcp://")


def _parsed(text: str, type_name: str) -> Any:
    """Read a text as a list or a mapping where the setting is one; msgspec reads the rest."""
    if type_name not in ("list of texts", "mapping"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return [part.strip() for part in text.split(",") if part.strip()]


def _resolved(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Let relative paths of a file start at its folder."""
    return {
        key: _below(folder, value) if key in _PATHS and isinstance(value, str) else value
        for key, value in values.items()
    }


def _default_paths(folder: Path) -> dict[str, tuple[str, str]]:
    return {key: (_below(folder, getattr(Settings(), key)), "default") for key in ("database", "key_file")}


def _below(folder: Path, path: str) -> str:
    return path if "://" in path else str(folder / Path(path).expanduser())


def _built(values: Mapping[str, Any], origins: Mapping[str, tuple[Any, str]]) -> Settings:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *outer, last = require_key(key).split(".")
        inner = nested
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = _parsed(value, _types()[key]) if isinstance(value, str) else value
    try:
        return msgspec.convert(nested, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error, origins) from None


def _types() -> dict[str, str]:
    return {row.key: row.type for row in setting_rows()}


def _invalid(error: msgspec.ValidationError, origins: Mapping[str, tuple[Any, str]]) -> InvalidSettingError:
    """Name the key and where its value came from, never the value, which may be a secret."""
    what, _, where = str(error).partition(" - at `$.")
    key = where.rstrip("`")
    known = next((name for name in origins if key == name or key.startswith((f"{name}.", f"{name}["))), None)
    source = f" (from {origins[known][1]})" if known else ""
    return InvalidSettingError(f"setting {key or 'file'}{source}: {what[:1].lower()}{what[1:]}")


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Turn frozen values into what YAML writes."""
    return cast("dict[str, Any]", msgspec.to_builtins(document))
