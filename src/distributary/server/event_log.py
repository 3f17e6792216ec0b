"""The log of the server: one JSON object a line, on standard error.

Every value is written as JSON, so line breaks and terminal escapes that a client put into a header stay
inside their string (RELIABILITY G5). Requests are logged by the name of their route and by names that the
catalog has, never by their path, query, headers or body: tickets, tokens and signatures are in those.
Lines are collected and written by a thread, so that a slow terminal or disk holds up no request.
"""

from __future__ import annotations

import datetime
import logging
import sys
import threading
import traceback
from typing import Any, BinaryIO, Final

import msgspec

FLUSH_SECONDS: Final = 0.2
_LONGEST_TEXT: Final = 300
_encode = msgspec.json.Encoder().encode


class EventLog:
    """Writes events; `close` writes what is left."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stderr.buffer if stream is None else stream
        self._lines: list[bytes] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write_on, name="event-log", daemon=True)
        self._writer.start()

    def write(self, event: str, *, level: str = "info", **fields: Any) -> None:
        """Note an event; fields without a value are left out, long texts are cut."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {"time": now, "level": level, "event": event}
        entry.update((name, _shown(value)) for name, value in fields.items() if value is not None)
        self._lines.append(_encode(entry))

    def error(self, event: str, error: BaseException, **fields: Any) -> None:
        """Note an error with where it came from: files and lines, no values of variables."""
        trace = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in _frames(error)]
        # The message may name places in a store, which is for the operator and not for recipients.
        self.write(event, level="error", error=type(error).__name__, message=str(error), **fields)
        self.write("trace", level="error", request_id=fields.get("request_id"), frames=trace[-12:])

    def flush(self) -> None:
        """Write what has been collected."""
        with self._lock:
            lines, self._lines = self._lines, []
            if lines:
                try:
                    self._stream.write(b"\n".join(lines) + b"\n")
                    self._stream.flush()
                except (OSError, ValueError):
                    return  # standard error was closed: there is nowhere to say so

    def close(self) -> None:
        """Stop the thread and write the rest."""
        self._stop.set()
        self._writer.join(timeout=2)
        self.flush()

    def _write_on(self) -> None:
        while not self._stop.wait(FLUSH_SECONDS):
            self.flush()


class ForwardedLogs(logging.Handler):
    """Puts what libraries log through `logging` into the event log."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Note one record."""
        self._log.write(
            "log", level=record.levelname.lower(), logger=record.name, message=record.getMessage()
        )


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…"
        return text.encode("utf-8", "replace").decode()
    return value
