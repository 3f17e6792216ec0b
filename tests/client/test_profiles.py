"""Profiles from wherever they are kept, and how a client proves who it is."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import pytest
from scripted_server import TOKEN, Reply, ScriptedServer, lines

import distributary.client as delta_sharing
from distributary.client.credentials import load_profile
from distributary.client.errors import (
    InsecureConnectionWarning,
    ProfileWarning,
    TokenExpiredError,
    TokenRequestError,
    UntrustedAddressError,
)
from distributary.errors import InvalidInputError
from distributary.sharing.profile import InvalidProfileError

PLAIN = {"shareCredentialsVersion": 1, "endpoint": "https://sharing.example/api/", "bearerToken": TOKEN}


def test_a_profile_is_read_from_everywhere(tmp_path, monkeypatch):
    """PF-001, PF-004, PF-005: file, dict, text, open files and the environment are one profile."""
    path = tmp_path / "p.share"
    path.write_text(json.dumps(PLAIN))
    path.chmod(0o600)
    sources = [str(path), path, path.as_uri(), PLAIN, json.dumps(PLAIN), io.StringIO(json.dumps(PLAIN))]
    sources.append(io.BytesIO(json.dumps(PLAIN).encode()))
    found = [load_profile(source) for source in sources]
    monkeypatch.setenv("DELTA_SHARING_PROFILE", str(path))
    found.append(load_profile())
    monkeypatch.delenv("DELTA_SHARING_PROFILE")
    monkeypatch.setenv("DELTA_SHARING_ENDPOINT", "https://sharing.example/api//")
    monkeypatch.setenv("DELTA_SHARING_BEARER_TOKEN", TOKEN)
    found.append(load_profile())
    assert {(each.endpoint, each.bearer_token) for each in found} == {("https://sharing.example/api", TOKEN)}
    assert TOKEN not in repr(found)


def test_a_profile_is_read_from_an_object_store(monkeypatch):
    from distributary.storage.object_store import open_store

    open_store("memory:///profiles").put("p.share", json.dumps(PLAIN).encode())
    assert load_profile("memory:///profiles/p.share").bearer_token == TOKEN


def test_without_a_profile_the_error_says_what_to_set(monkeypatch):
    for name in ("DELTA_SHARING_PROFILE", "DELTA_SHARING_ENDPOINT", "DELTA_SHARING_BEARER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidProfileError, match="DELTA_SHARING_PROFILE"):
        load_profile()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shareCredentialsVersion": 3}, "Upgrade"),
        ({"shareCredentialsVersion": "1"}, "whole number"),
        ({"endpoint": None}, "endpoint is missing"),
        ({"bearerToken": ""}, "bearerToken is missing"),
        ({"expirationTime": "tomorrow"}, "expirationTime"),
        ({"shareCredentialsVersion": 2, "type": "magic"}, "type must be one of"),
    ],
)
def test_a_wrong_profile_is_told_by_its_field(change, said):
    """PF-002, PF-003, PF-008: the field is named, nothing of the secret is."""
    with pytest.raises(InvalidProfileError, match=said) as raised:
        load_profile({**PLAIN, **change})
    assert TOKEN not in str(raised.value)
    assert load_profile({**PLAIN, "unknown": 1}).bearer_token == TOKEN


@pytest.mark.parametrize("moment", ["2021-11-12T00:12:29.0Z", "2021-11-12T00:12:29.123456789+01:00"])
def test_an_expired_profile_warns(moment):
    """PF-006, PF-007: any number of digits, Z or an offset; without a time it never expires."""
    with pytest.warns(ProfileWarning, match="has expired"):
        load_profile({**PLAIN, "expirationTime": moment})
    load_profile({**PLAIN, "expirationTime": "2999-01-01T00:00:00Z"})
    load_profile(PLAIN)


def test_a_refused_token_that_has_expired_is_told_as_such(plain_server, connect):
    """CL-019."""
    profile = {**plain_server.profile, "bearerToken": "old", "expirationTime": "2021-11-12T00:12:29.0Z"}
    with pytest.warns(ProfileWarning):
        client = connect(profile)
    with pytest.raises(TokenExpiredError, match="expired on 2021-11-12"):
        client.list_shares()


def test_a_profile_that_others_can_read_warns(tmp_path):
    """H5."""
    path = tmp_path / "p.share"
    path.write_text(json.dumps(PLAIN))
    path.chmod(0o644)
    with pytest.warns(ProfileWarning, match="chmod 600"):
        load_profile(path)


@pytest.mark.parametrize(
    "endpoint", ["http://sharing.example/api", "http://169.254.169.254/api", "https://169.254.169.254/api"]
)
def test_endpoints_that_must_not_see_a_token_are_refused(endpoint):
    """H1: plain http elsewhere than on loopback, and the addresses of clouds' secrets."""
    with pytest.raises(UntrustedAddressError):
        delta_sharing.SharingClient({**PLAIN, "endpoint": endpoint})


def test_private_hosts_can_be_refused():
    with pytest.raises(UntrustedAddressError, match="private network"):
        delta_sharing.SharingClient({**PLAIN, "endpoint": "https://10.1.2.3/api"}, allow_private_hosts=False)


def test_unverified_certificates_warn_loudly():
    """H4."""
    with pytest.warns(InsecureConnectionWarning, match="NOT verified"):
        delta_sharing.SharingClient(PLAIN, verify=False).close()
    with pytest.raises(InvalidInputError, match="ca_file"):
        delta_sharing.SharingClient(PLAIN, ca_file="/nowhere/ca.pem")


def guarded(server: ScriptedServer, expected: str):
    """Answer lists to those who carry a header."""

    def script(asked):
        if asked.path.startswith("/api/"):
            allowed = asked.headers.get("authorization") == expected
            return Reply(200, lines({"items": [{"name": "s"}]})) if allowed else Reply(401)
        return None

    server.script = script


@pytest.mark.parametrize("version", [1, 2])
def test_a_bearer_token_is_sent_under_both_versions(plain_server, connect, version):
    guarded(plain_server, f"Bearer {TOKEN}")
    more = {"shareCredentialsVersion": version, **({"type": "bearer_token"} if version == 2 else {})}
    assert len(connect({**plain_server.profile, **more}).list_shares()) == 1


def test_basic_authentication(plain_server, connect):
    guarded(plain_server, "Basic " + base64.b64encode(b"ann:sesame").decode())
    profile = {
        "shareCredentialsVersion": 2,
        "type": "basic",
        "endpoint": plain_server.profile["endpoint"],
        "username": "ann",
        "password": "sesame",
    }
    assert len(connect(profile).list_shares()) == 1


def client_credentials(server: ScriptedServer) -> dict:
    return {
        "shareCredentialsVersion": 2,
        "type": "oauth_client_credentials",
        "endpoint": server.profile["endpoint"],
        "tokenEndpoint": f"{server.origin}/token/",
        "clientId": "me",
        "clientSecret": "sesame",
        "scope": "a b&c",
    }


def test_client_credentials_are_asked_for_once_and_again_when_refused(plain_server, connect):
    """A13: one question for many threads, a new one after a 401; the scope is encoded properly."""
    tokens = iter(["first", "second", "third"])
    valid: list[str] = []

    def script(asked):
        if asked.path == "/token":
            assert asked.headers["authorization"] == "Basic " + base64.b64encode(b"me:sesame").decode()
            assert asked.body == b"grant_type=client_credentials&scope=a+b%26c"
            valid[:] = [next(tokens)]
            return Reply(200, lines({"access_token": valid[0], "expires_in": "3600"}))
        allowed = asked.headers.get("authorization") == f"Bearer {valid[0]}"
        return Reply(200, lines({"items": []})) if allowed else Reply(401)

    plain_server.script = script
    client = connect(client_credentials(plain_server))
    client.list_shares()
    client.list_shares()
    assert len(plain_server.asked_for("/token")) == 1
    valid[:] = ["revoked"]
    client.list_shares()
    assert len(plain_server.asked_for("/token")) == 2


def test_a_token_that_ends_soon_is_renewed(plain_server, connect):
    plain_server.script = lambda asked: (
        Reply(200, lines({"access_token": "x", "expires_in": 0.001}))
        if asked.path == "/token"
        else Reply(200, lines({"items": []}))
    )
    client = connect(client_credentials(plain_server))
    client.list_shares()
    client.list_shares()
    assert len(plain_server.asked_for("/token")) == 2


@pytest.mark.parametrize("reply", [Reply(400), Reply(200, b"{}"), Reply(200, b"no"), Reply(503)])
def test_no_token_is_told_without_secrets(plain_server, connect, reply):
    plain_server.script = lambda asked: reply if asked.path == "/token" else None
    with pytest.raises(TokenRequestError) as raised:
        connect(client_credentials(plain_server), retry_seconds=0.1).list_shares()
    assert "sesame" not in str(raised.value)


def test_private_key_assertions_are_signed(plain_server, connect, tmp_path):
    """A13: the token endpoint can check the signature and the claims."""
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    key = RSAKey.generate_key(2048)
    Path(tmp_path / "key.pem").write_bytes(key.as_pem(private=True))

    def script(asked):
        if asked.path == "/token":
            form = dict(part.split("=", 1) for part in asked.body.decode().split("&"))
            assert form["grant_type"].endswith("jwt-bearer")
            token = jwt.decode(form["assertion"], key, algorithms=["RS256"])
            assert token.header["kid"] == "k1"
            assert {token.claims[name] for name in ("iss", "aud", "resource", "scope")} == {
                "me",
                "is",
                "au",
                "sc",
            }
            assert token.claims["exp"] - token.claims["iat"] == 120
            return Reply(200, lines({"access_token": "signed", "expires_in": 3600}))
        return Reply(200, lines({"items": []}))

    plain_server.script = script
    auth = {
        "tokenEndpoint": f"{plain_server.origin}/token",
        "issuer": "is",
        "clientId": "me",
        "audience": "au",
        "scope": "sc",
        "privateKey": {"privateKeyFile": str(tmp_path / "key.pem"), "keyId": "k1"},
    }
    profile = {
        "shareCredentialsVersion": 2,
        "type": "oauth_jwt_bearer_private_key_jwt",
        "endpoint": plain_server.profile["endpoint"],
        "auth": auth,
    }
    connect(profile).list_shares()
    assert plain_server.asked[-1].headers["authorization"] == "Bearer signed"
