"""SigningKeys: what page tokens, refresh tokens and file tickets ask of the key ring.

Each purpose has a key of its own, derived from the ring's, so that a text signed for one purpose never
passes for another. A text names the key it was signed with; keys that were rotated out of signing are
still found until they are retired.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Protocol


class SigningKeys(Protocol):
    """A source of secret keys that have ids."""

    @property
    def current_id(self) -> str:
        """The id of the key that signs new texts: letters, digits, `-` and `_` only."""
        ...

    def secret(self, key_id: str) -> bytes | None:
        """The secret of a key, or None where the ring does not (or no longer) have it."""
        ...


def purpose_key(secret: bytes, purpose: str) -> bytes:
    """The key for one purpose, from which neither the secret nor another purpose's key can be found."""
    return hmac.digest(secret, b"distributary/" + purpose.encode(), hashlib.sha256)
