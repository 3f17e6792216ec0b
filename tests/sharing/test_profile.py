"""Profile files: what a recipient needs to reach a server."""

from __future__ import annotations

import datetime
import json
import stat

import pytest

from distributary.sharing.profile import (
    InvalidProfileError,
    bearer_profile,
    encode_profile,
    parse_profile,
    read_profile,
    write_profile,
)

SEED = {
    "shareCredentialsVersion": 1,
    "endpoint": "https://sharing.delta.io/delta-sharing/",
    "bearerToken": "faaieXXXXXXX",
    "expirationTime": "2021-11-12T00:12:29.0Z",
}
NOW = datetime.datetime(2022, 1, 1, tzinfo=datetime.UTC)


def without(name):
    return {key: value for key, value in SEED.items() if key != name}


def test_the_profile_of_the_protocol_is_read():
    """PF-001, PF-002, PF-004, PF-005, PF-006, PF-007."""
    profile = parse_profile(json.dumps({**SEED, "unknown": 1}))
    assert profile.endpoint == "https://sharing.delta.io/delta-sharing"
    assert profile.bearer_token == "faaieXXXXXXX"
    assert profile.auth_type == "bearer_token"
    assert profile.expires_at == datetime.datetime(2021, 11, 12, 0, 12, 29, tzinfo=datetime.UTC)
    assert profile.is_expired(NOW)
    assert not parse_profile(json.dumps(without("expirationTime"))).is_expired(NOW)


@pytest.mark.parametrize("text", ["2030-01-02T03:04:05Z", "2030-01-02T03:04:05.123456789Z",
                                  "2030-01-02T04:04:05.5+01:00"])  # fmt: skip
def test_times_may_have_any_fraction_and_zone(text):
    """PF-008."""
    moment = parse_profile(json.dumps({**SEED, "expirationTime": text})).expires_at
    assert moment is not None
    assert moment.replace(microsecond=0) == datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def test_a_newer_version_asks_for_an_upgrade():
    """PF-003."""
    with pytest.raises(InvalidProfileError, match="Upgrade"):
        parse_profile(json.dumps({**SEED, "shareCredentialsVersion": 3}))


@pytest.mark.parametrize("name", ["endpoint", "bearerToken", "shareCredentialsVersion"])
def test_a_missing_field_is_named(name):
    """PF-008."""
    with pytest.raises(InvalidProfileError, match=name):
        parse_profile(json.dumps(without(name)))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"shareCredentialsVersion":"1"}'])
def test_what_is_no_profile_is_refused(text):
    with pytest.raises(InvalidProfileError):
        parse_profile(text)


@pytest.mark.parametrize(
    "change", [{"endpoint": "ftp://x"}, {"expirationTime": "tomorrow"}, {"bearerToken": 5}]
)
def test_an_error_never_shows_the_token(change):
    """PF-009."""
    with pytest.raises(InvalidProfileError) as refused:
        parse_profile(json.dumps({**SEED, **change}))
    assert "faaie" not in str(refused.value)
    assert "faaie" not in repr(parse_profile(json.dumps(SEED)))


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "bearer_token", "bearerToken": "t"},
        {
            "type": "oauth_client_credentials",
            "tokenEndpoint": "https://t",
            "clientId": "i",
            "clientSecret": "s",
        },
        {"type": "basic", "username": "u", "password": "p"},
        {
            "type": "oauth_jwt_bearer_private_key_jwt",
            "auth": {
                "tokenEndpoint": "https://t",
                "issuer": "i",
                "clientId": "c",
                "audience": "a",
                "privateKey": {"privateKeyFile": "k.pem", "keyId": "1"},
            },
        },
    ],
)
def test_profiles_of_version_two_are_read_and_written(fields):
    """beyond A13."""
    profile = parse_profile(json.dumps({"shareCredentialsVersion": 2, "endpoint": "https://x/", **fields}))
    assert profile.auth_type == fields["type"]
    assert parse_profile(encode_profile(profile)) == profile


def test_a_profile_is_written_for_its_owner_only(tmp_path):
    """PF-002, PF-005, PF-006: version 1, which every client reads."""
    path = tmp_path / "me.share"
    end = datetime.datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.UTC)
    write_profile(bearer_profile("https://x/delta-sharing", "secret", end), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "shareCredentialsVersion": 1,
        "endpoint": "https://x/delta-sharing",
        "bearerToken": "secret",
        "expirationTime": "2030-01-02T03:04:05.678Z",
    }
    assert read_profile(path).expires_at == end
    assert list(tmp_path.iterdir()) == [path]
