"""Limits of the texts that describe an entry (DM-014 to DM-016, and the newest edition's for properties)."""

from __future__ import annotations

from collections.abc import Mapping

from distributary.catalog.errors import InvalidEntryError
from distributary.sharing.objects import (
    MAX_COMMENT,
    MAX_DISPLAY_NAME,
    MAX_PROPERTIES,
    MAX_PROPERTY_KEY,
    MAX_PROPERTY_VALUE,
)


def checked_display_name(text: str | None) -> str | None:
    """Give a display name back; an empty one is none."""
    return _checked_text(text, "the display name", MAX_DISPLAY_NAME)


def checked_comment(text: str | None) -> str | None:
    """Give a comment back; an empty one is none."""
    return _checked_text(text, "the comment", MAX_COMMENT)


def checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Give properties back, or say which is too long or that there are too many."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidEntryError(f"{len(properties)} properties are too many: at most {MAX_PROPERTIES}")
    for name, value in properties.items():
        if not name:
            raise InvalidEntryError("a property needs a name")
        _checked_text(name, "the name of a property", MAX_PROPERTY_KEY)
        _checked_text(value, f"the value of property {name!r}", MAX_PROPERTY_VALUE)
    return dict(properties)


def _checked_text(text: str | None, what: str, longest: int) -> str | None:
    if not text:
        return None
    if len(text) > longest:
        raise InvalidEntryError(f"{what} has {len(text)} characters: at most {longest}")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidEntryError(
            f"{what} holds a character that no text may hold (NUL or half a surrogate pair)"
        )
    return text
