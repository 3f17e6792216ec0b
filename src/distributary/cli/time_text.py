"""Times and lengths of time as people write them on a command line: `90d`, `24h`, `2027-01-31`."""

from __future__ import annotations

import datetime
import re
from typing import Final

import click

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_LENGTH: Final = re.compile(r"(\d{1,6})\s*([smhdw])", re.IGNORECASE)


class Length(click.ParamType):
    """A length of time; the command gets milliseconds."""

    name = "length"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read `30m`, `24h`, `90d` or `0`."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        match = _LENGTH.fullmatch(text)
        if match is not None:
            return int(match[1]) * _UNITS[match[2].lower()]
        if text != "0":
            self.fail(f"{text!r} is no length of time: write 30m, 24h, 90d or 12w", param, ctx)
        return 0


class Moment(click.ParamType):
    """A time, absolute or so long from now; the command gets milliseconds since 1970."""

    name = "time"

    def __init__(self, *, past: bool = False) -> None:
        self._sign = -1 if past else 1

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read `90d` (from now, or ago) or ISO 8601, UTC where it has no zone."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        match = _LENGTH.fullmatch(text)
        if match is not None:
            now = datetime.datetime.now(datetime.UTC).timestamp() * 1000
            return int(now) + self._sign * int(match[1]) * _UNITS[match[2].lower()]
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is no time: write 90d, 2027-01-31 or 2027-01-31T12:00:00Z", param, ctx)
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
        return int(aware.timestamp() * 1000)


def time_text(milliseconds: int | None) -> str | None:
    """Write a time of the catalog as ISO 8601 in UTC."""
    if milliseconds is None:
        return None
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
