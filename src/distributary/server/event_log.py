"""The log of the server: one JSON object a line, on standard error.

Every value is written as JSON, so line breaks and terminal escapes that a client put into a header stay
inside their string (RELIABILITY G5). Requests are logged by the name of their route and by names that the
catalog has, never by their path, query, headers or body: tickets, tokens and signatures are in those.
Lines are collected and written by a thread, so that a slow terminal or disk holds up no request.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import msgspec

FLUSH_SECONDS: Final = 0.2
_LONGEST_TEXT: Final = 300
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_INFO: Final = 1
_encode = msgspec.json.Encoder().encode


class RequestLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What is logged of one request; a value rather than a dictionary, since there are so many."""

    time: str = ""
    level: str = ""
    event: str = ""
    request_id: str
    method: str
    route: str
    status: int
    ms: float
    bytes: int
    address: str
    recipient: str | None = None
    user_agent: str | None = None
    complete: bool | None = None


class EventLog:
    """Writes events; `close` writes what is left."""

    def __init__(self, stream: BinaryIO | None = None, *, level: str = "info", as_text: bool = False) -> None:
        self._stream = sys.stderr.buffer if stream is None else stream
        self._least = _LEVELS.index(level)
        self._render = _text_line if as_text else _encode
        self._lines: list[bytes | tuple[float, RequestLine]] = []
        self._beside: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write_on, name="event-log", daemon=True)
        self._writer.start()

    def write(self, event: str, *, level: str = "info", **fields: Any) -> None:
        """Note an event; fields without a value are left out, long texts are cut."""
        if _LEVELS.index(level) < self._least:
            return
        entry: dict[str, Any] = {"time": time_text(), "level": level, "event": event}
        entry.update((name, _shown(value)) for name, value in fields.items() if value is not None)
        self._lines.append(self._render(entry))

    def request(self, line: RequestLine) -> None:
        """Note a request; it is put into words when it is written."""
        if self._least <= _INFO:
            self._lines.append((time.time(), line))

    def beside(self, work: Callable[[], None]) -> None:
        """Have the thread that writes do something else too, each time."""
        self._beside = work

    def error(self, event: str, error: BaseException, **fields: Any) -> None:
        """Note an error with where it came from: files and lines, no values of variables."""
        trace = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in _frames(error)]
        # The message may name places in a store, which is for the operator and not for recipients.
        self.write(event, level="error", error=type(error).__name__, message=str(error), **fields)
        self.write("trace", level="error", request_id=fields.get("request_id"), frames=trace[-12:])

    def flush(self) -> None:
        """Write what has been collected."""
        with contextlib.suppress(OSError, ValueError):  # metrics whose files are gone stop no log
            self._beside()
        with self._lock:
            lines, self._lines = self._lines, []
            if lines:
                try:
                    self._stream.write(b"\n".join(map(self._worded, lines)) + b"\n")
                    self._stream.flush()
                except (OSError, ValueError):
                    return  # standard error was closed: there is nowhere to say so

    def _worded(self, noted: bytes | tuple[float, RequestLine]) -> bytes:
        if isinstance(noted, bytes):
            return noted
        at, line = noted
        line.time, line.ms = time_text(at), round(line.ms, 2)
        line.level, line.event = "info", "request"
        line.user_agent = _shown(line.user_agent)
        return _encode(line) if self._render is _encode else _text_line(msgspec.to_builtins(line))

    def close(self) -> None:
        """Stop the thread and write the rest."""
        self._stop.set()
        self._writer.join(timeout=2)
        self.flush()

    def _write_on(self) -> None:
        while not self._stop.wait(FLUSH_SECONDS):
            self.flush()


def time_text(at: float | None = None) -> str:
    """A moment, without one the present, as it stands in the log."""
    moment = datetime.datetime.fromtimestamp(time.time() if at is None else at, datetime.UTC)
    return moment.isoformat(timespec="milliseconds")


class JsonLines(logging.Formatter):
    """Writes what libraries log through `logging` in the same form."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as one line."""
        entry = {
            "time": time_text(record.created),
            "level": record.levelname.lower(),
            "event": "log",
            "logger": record.name,
            "message": _shown(record.getMessage()),
        }
        if record.exc_info is not None and record.exc_info[1] is not None:
            error = record.exc_info[1]
            entry["error"] = f"{type(error).__name__}: {_shown(str(error))}"
        return _encode(entry).decode()


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _text_line(entry: dict[str, Any]) -> bytes:
    """The same for people: values are still JSON, so that a line stays a line."""
    shown = {name: value for name, value in entry.items() if name not in ("time", "level", "event")}
    rest = b" ".join(name.encode() + b"=" + _encode(value) for name, value in shown.items())
    return f"{entry['time']} {entry['level']} {entry['event']} ".encode() + rest


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…"
        return text.encode("utf-8", "replace").decode()
    return value
