"""Page tokens and refresh tokens are worth nothing to anyone but the one they were issued for."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.server.continuation_tokens import ContinuationTokens, TokenScope
from distributary.sharing.error_response import InvalidParameterError

SCOPE = TokenScope("recipient-1", "share-1", "table-1", "query-1")
LETTERS = string.ascii_letters + string.digits + "-_.="


@dataclass
class Keys:
    current_id: str = "k1"
    secrets: Mapping[str, bytes] = field(default_factory=lambda: {"k1": b"1" * 32, "k2": b"2" * 32})

    def secret(self, key_id: str) -> bytes | None:
        return self.secrets.get(key_id)


@pytest.fixture
def tokens() -> ContinuationTokens:
    return ContinuationTokens(Keys(), now=lambda: 1_000_000.0)


def refused(tokens: ContinuationTokens, token: str, kind="page", scope=SCOPE) -> bool:
    try:
        tokens.read(kind, scope, token)
    except InvalidParameterError:
        return True
    return False


@given(st.dictionaries(st.text(max_size=20), st.integers(-(2**63), 2**63 - 1) | st.text(max_size=50)))
def test_state_comes_back_as_it_was(state):
    """REST-035: the value of nextPageToken is taken back unchanged."""
    tokens = ContinuationTokens(Keys())
    assert tokens.read("page", SCOPE, tokens.issue("page", SCOPE, state)) == state


@pytest.mark.parametrize(
    "scope",
    [
        TokenScope("recipient-2", "share-1", "table-1", "query-1"),
        TokenScope("recipient-1", "share-2", "table-1", "query-1"),
        TokenScope("recipient-1", "share-1", "table-2", "query-1"),
        TokenScope("recipient-1", "share-1", "table-1", "query-2"),
        TokenScope("recipient-1share-1", "", "table-1", "query-1"),
    ],
)
def test_token_of_another_scope_is_refused(tokens, scope):
    """REST-038: bound to the endpoint and its path; RELIABILITY E2: swapped between recipients and tables."""
    assert refused(tokens, tokens.issue("page", scope, {"n": 1}))


@pytest.mark.parametrize("kind", ["list", "refresh", "job"])
def test_token_of_another_kind_is_refused(tokens, kind):
    assert refused(tokens, tokens.issue(kind, SCOPE, {"n": 1}))


def test_expired_token_is_refused_and_says_so(tokens):
    token = tokens.issue("page", SCOPE, {"n": 1}, lifetime=60)
    later = ContinuationTokens(Keys(), now=lambda: 1_000_060.0)
    with pytest.raises(InvalidParameterError, match="has expired"):
        later.read("page", SCOPE, token)


def test_token_of_a_rotated_key_is_read_and_of_a_dropped_key_refused(tokens):
    token = tokens.issue("page", SCOPE, {"n": 1})
    rotated = ContinuationTokens(Keys("k2"), now=lambda: 1_000_000.0)
    assert rotated.read("page", SCOPE, token) == {"n": 1}
    dropped = ContinuationTokens(Keys("k2", {"k2": b"2" * 32}), now=lambda: 1_000_000.0)
    assert refused(dropped, token)


def test_no_change_of_a_letter_is_accepted(tokens):
    """REST-038, RELIABILITY E2: every letter of the token replaced by many others, cut, doubled."""
    token = tokens.issue("page", SCOPE, {"version": 3, "next": 1000})
    accepted = [
        changed
        for at in range(len(token))
        for letter in LETTERS
        if (changed := token[:at] + letter + token[at + 1 :]) != token and not refused(tokens, changed)
    ]
    assert accepted == []
    assert all(refused(tokens, token[:end]) for end in range(len(token)))
    assert refused(tokens, token + token)
    assert refused(tokens, token + "=")


def test_random_texts_are_refused(tokens):
    chooser = random.Random(7)
    token = tokens.issue("page", SCOPE, {"version": 3})
    for _ in range(10_000):
        text = bytearray(token.encode())
        for _ in range(chooser.randint(1, 4)):
            text[chooser.randrange(len(text))] ^= 1 << chooser.randrange(7)
        assert text.decode() == token or refused(tokens, text.decode())
