"""The hint: parsed when sound, nothing when not."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from distributary.delta.log.last_checkpoint import hint_checksum, parse_last_checkpoint


def test_fields_of_the_hint_are_parsed() -> None:
    """LR-060, CK-015: version, size, and parts for a multi-part checkpoint."""
    hint = parse_last_checkpoint(b'{"version":10,"size":1000,"parts":3,"sizeInBytes":5,"unknown":{"a":1}}')
    assert hint is not None
    assert (hint.version, hint.size, hint.parts, hint.size_in_bytes) == (10, 1000, 3, 5)
    bare = parse_last_checkpoint(b'{"version":0}')
    assert bare is not None
    assert (bare.version, bare.size, bare.parts) == (0, None, None)


def test_checksum_of_the_specification_is_reproduced() -> None:
    """The sample of the protocol text (Part D 3 of the additions)."""
    sample = (
        '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": '
        '["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
    )
    assert hint_checksum(json.loads(sample)) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_checksum_of_a_real_hint_is_reproduced(delta_tables) -> None:
    """The hint of a table that Spark wrote carries the checksum that we compute (Part D 3)."""
    data = (delta_tables.tables / "golden__v2-checkpoint-json/_delta_log/_last_checkpoint").read_bytes()
    assert (
        json.loads(data)["checksum"] == hint_checksum(json.loads(data)) == "d09f95a326aab562c60d415a32ddd216"
    )
    assert parse_last_checkpoint(data) is not None


def test_every_real_hint_is_accepted(delta_tables) -> None:
    """LR-060: each hint of the corpus parses, but for those that are meant to be broken."""
    refused = {
        path.parent.parent.name
        for path in delta_tables.tables.glob("*/_delta_log/_last_checkpoint")
        if parse_last_checkpoint(path.read_bytes()) is None
    }
    assert refused <= {"golden__corrupted-last-checkpoint-kernel"}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"{}",
        b'{"version":-1}',
        b'{"version":"10"}',
        b'{"version":1.5}',
        b'{"version":null}',
        b'{"version":9223372036854775808}',
        b'{"version":10,"size":"x"}',
        b'{"version":10,"checksum":"00000000000000000000000000000000"}',
        b'{"version":10,"checksum":null}',
        b'{"version":10} trailing',
        b"\xef\xbb\xbf" + b'{"version":10}',
        b'{"version":10,"a":"\xff"}',
        b'{"version":10,"a":"\\ud800","checksum":"x"}',
        b'{"version":10,"a":NaN}',
        b'{"version":10,"a":' + b"[" * 100_000,
        b"\0" * 40,
    ],
)
def test_a_broken_hint_is_no_hint(text: bytes) -> None:
    """LR-061: torn, of wrong types, or of a wrong checksum."""
    assert parse_last_checkpoint(text) is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.binary(max_size=200) | _json.map(lambda value: json.dumps(value).encode()))
@example(b'{"version":1e400}')
@settings(max_examples=300)
def test_no_bytes_make_the_hint_fail(data: bytes) -> None:
    """LR-061: whatever the file holds, it is a hint or nothing."""
    hint = parse_last_checkpoint(data)
    assert hint is None or hint.version >= 0


@given(st.dictionaries(st.text(st.characters(blacklist_categories=("Cs",)), max_size=5), _json, max_size=4))
def test_a_hint_with_its_own_checksum_is_believed(fields: dict) -> None:
    """A right checksum is accepted for any further fields."""
    content = {**fields, "version": 3}
    for name in ("size", "parts", "sizeInBytes", "numOfAddFiles", "checksum"):
        content.pop(name, None)
    text = json.dumps(content).encode()
    if parse_last_checkpoint(text) is None:
        return  # not JSON that is read here, such as a lone surrogate
    decoded = json.loads(text)
    content["checksum"] = hint_checksum(decoded)
    assert parse_last_checkpoint(json.dumps(content).encode()) is not None
