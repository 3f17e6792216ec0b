"""Dates and times as Spark reads them from text.

A date is ``yyyy[-M[-d]]``, optionally followed by a blank or ``T`` and anything; a timestamp adds
``H:m[:s[.fraction]]`` and a zone (``Z``, ``UTC``, ``+02:00``, ``+2``, ``Europe/Paris``). A fraction is
cut to microseconds. None is the answer for a text that is neither. Years run from 1 to 9999. Words that
mean another moment each time (``now``, ``today``) are not read.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_DAY = r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_DATE = re.compile(rf"{_DAY}(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    rf"{_DAY}(?:[ T]([0-9]{{1,2}})(?::([0-9]{{1,2}})(?::([0-9]{{1,2}})(?:\.([0-9]*))?)?)?"
    r"[ ]*([A-Za-z+-].*)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?")


def parse_date(text: str) -> date | None:
    """Read a date as CAST(text AS DATE) does."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None


def parse_timestamp(text: str) -> datetime | None:
    """Read a timestamp: aware when the text names a zone, naive when it does not."""
    moment, zone = _parts(text)
    if moment is None or zone is None:
        return moment
    try:
        return in_utc(moment, time_zone(zone))
    except (ValueError, OverflowError):
        return None


def parse_wall_time(text: str) -> datetime | None:
    """Read a wall time as CAST(text AS TIMESTAMP_NTZ) does: a zone in the text is passed over."""
    return None if parse_timestamp(text) is None else _parts(text)[0]


def _parts(text: str) -> tuple[datetime | None, str | None]:
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None, None
    year, *rest, fraction, zone = match.groups()
    month, day, hour, minute, second = (int(part) if part else None for part in rest)
    micro = int((fraction or "")[:6].ljust(6, "0"))
    try:
        moment = datetime(int(year), month or 1, day or 1, hour or 0, minute or 0, second or 0, micro)
    except ValueError:
        return None, None
    return moment, zone.strip() if zone else None


@lru_cache(maxsize=256)
def time_zone(name: str) -> tzinfo:
    """Find a time zone by region or offset; a name that is neither raises ValueError."""
    if name in ("Z", "UTC", "GMT", "UT", "Etc/UTC"):
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"{name!r} is not a time zone") from error


def in_utc(moment: datetime, zone: tzinfo) -> datetime:
    """Turn a wall time of a zone into an instant; of two the earlier, in a gap moved on by its length."""
    return moment.replace(tzinfo=zone).astimezone(UTC)


def zone_name(name: str) -> str:
    """Give the one spelling of a zone that Arrow knows too: ``UTC``, ``+02:00`` or a region."""
    zone = time_zone(name)
    if isinstance(zone, ZoneInfo):
        return name
    text = str(zone).removeprefix("UTC")
    if text.count(":") > 1:
        raise ValueError(f"the offset of {name!r} is not whole minutes")
    return text or "UTC"
