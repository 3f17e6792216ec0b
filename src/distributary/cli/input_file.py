"""A file of rows as a user names it: a path or `-`, a format, and bytes that are read once, front to back.

The first bytes can be looked at before they are read. Files whose name ends in `.gz` are unpacked as they are
read. How far reading has come is told in bytes of the file itself.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import click

from distributary.errors import InvalidInputError

FORMATS = ("csv", "json", "ndjson", "parquet", "arrow")
STDIN = "-"

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of rows."""

    path: str
    format: str
    delimiter: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return "stdin" if self.path == STDIN else self.path

    @property
    def size(self) -> int | None:
        """Its bytes, where they are known before they are read."""
        return None if self.path == STDIN else Path(self.path).stat().st_size

    def open(self, advance: Advance) -> ByteStream:
        """Open it for reading from front to back."""
        return ByteStream(self._bytes(), advance, packed=self.path.endswith(".gz"))

    def open_seekable(self) -> Any:
        """Open it for reading anywhere; stdin, and what is packed, goes to a temporary file first."""
        if self.path != STDIN and not self.path.endswith(".gz"):
            return self._bytes()
        return spooled(self.open(lambda _count: None))

    def _bytes(self) -> Any:
        import pyarrow as pa

        if self.path == STDIN:
            return sys.stdin.buffer
        try:
            return pa.OSFile(self.path)
        except OSError as error:
            raise InvalidInputError(f"{self.path} cannot be opened: {error.strerror or error}") from error


def input_files(paths: Sequence[str], format: str | None, delimiter: str | None) -> list[InputFile]:
    """The files that a command was given; stdin where it was given none."""
    named = list(paths) or [STDIN]
    if named.count(STDIN) > 1:
        raise click.UsageError("Stdin (-) can be read once only.")
    return [InputFile(path, format or _guessed(path), delimiter or _delimiter(path)) for path in named]


def _guessed(path: str) -> str:
    if path == STDIN:
        raise click.UsageError(f"Stdin has no name to guess from: add --format {'|'.join(FORMATS)}.")
    found = _ENDINGS.get(_ending(path))
    if found is None:
        raise click.UsageError(f"The name of {path} does not tell its format: add --format.")
    return found


def _ending(path: str) -> str:
    return Path(path.removesuffix(".gz")).suffix.lower()


def _delimiter(path: str) -> str:
    return "\t" if _ending(path) == ".tsv" else ","


def spooled(stream: ByteStream) -> IO[bytes]:
    """What is left of a stream, in a temporary file that can be read anywhere."""
    place = tempfile.TemporaryFile()  # noqa: SIM115  # closed by who reads it
    with stream:
        shutil.copyfileobj(cast("Any", stream), place)
    place.seek(0)
    return place


class ByteStream(io.RawIOBase):
    """Bytes from front to back, with a look ahead, and a word about how many of the file were taken."""

    def __init__(self, raw: IO[bytes], advance: Advance, *, packed: bool) -> None:
        counted = _Counted(raw, advance)
        self._source: Any = gzip.GzipFile(fileobj=cast("Any", counted)) if packed else counted
        self._raw = raw
        self._ahead = b""

    def peek(self, count: int) -> tuple[bytes, bool]:
        """The next bytes, which stay to be read, and whether they are all that is left."""
        while len(self._ahead) < count:
            more = self._take(count - len(self._ahead))
            if not more:
                return self._ahead, True
            self._ahead += more
        return self._ahead[:count], False

    def take(self, count: int) -> tuple[bytes, bool]:
        """The next bytes, as many as are asked for unless they are the last, and whether they are that."""
        taken, at_end = self.peek(count)
        self._ahead = self._ahead[len(taken) :]
        return taken, at_end

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes; it stays unfilled at the end only."""
        taken, _ = self.take(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        """Close the file, unless it is stdin."""
        if not self.closed and self._raw is not sys.stdin.buffer:
            with contextlib.suppress(OSError):
                self._raw.close()
        super().close()

    def _take(self, count: int) -> bytes:
        try:
            return self._source.read(count) or b""
        except (OSError, EOFError) as error:
            raise InvalidInputError(f"the input cannot be read: {error}") from error


class _Counted:
    """A file that tells how much of it was read."""

    def __init__(self, raw: IO[bytes], advance: Advance) -> None:
        self._raw = raw
        self._advance = advance

    def read(self, count: int = -1) -> bytes:
        taken = self._raw.read(count)
        self._advance(len(taken))
        return taken
