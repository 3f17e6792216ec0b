"""Options of format("deltaSharing"): profiles, sizes and settings of the network; no secrets in errors."""

from __future__ import annotations

import pytest

from distributary.client.connection import ConnectionSettings
from distributary.client.spark_frame import connection_options
from distributary.errors import DistributaryError, InvalidInputError
from distributary.sharing.profile import JwtBearer, PrivateKey, Profile
from distributary.spark.share_options import ShareOptions

SECRET = "canary-secret-55d1"


@pytest.mark.parametrize(
    "profile",
    [
        Profile(share_credentials_version=1, endpoint="https://h/d", bearer_token=SECRET),
        Profile(
            share_credentials_version=2,
            endpoint="https://h/d",
            type="oauth_client_credentials",
            token_endpoint="https://h/t",
            client_id="me",
            client_secret=SECRET,
            scope="read",
        ),
        Profile(
            share_credentials_version=2, endpoint="https://h/d", type="basic", username="u", password=SECRET
        ),
        Profile(
            share_credentials_version=2,
            endpoint="https://h/d",
            type="oauth_jwt_bearer_private_key_jwt",
            auth=JwtBearer("https://h/t", "i", "c", "a", PrivateKey("key.pem", "k1")),
        ),
    ],
    ids=lambda profile: profile.auth_type,
)
def test_profile_and_connection_go_through_options_and_back(profile):
    """PF-005, PF-009."""
    connection = ConnectionSettings(timeout=7.5, verify=False, ca_file="ca.pem")
    options = ShareOptions({**connection_options(profile, connection), "path": "s.c.t"})
    assert options.profile() == profile
    assert options.connection() == connection
    assert str(options.table_name) == "s.c.t"
    assert SECRET not in repr(options)


def test_profile_of_the_environment_is_taken_where_nothing_else_says(monkeypatch):
    monkeypatch.setenv("DELTA_SHARING_ENDPOINT", "https://h/d")
    monkeypatch.setenv("DELTA_SHARING_BEARER_TOKEN", SECRET)
    assert ShareOptions({"path": "s.c.t"}).profile().endpoint == "https://h/d"


@pytest.mark.parametrize(("text", "size"), [("12", 12), ("64m", 64 << 20), ("2 GB", 2 << 30), ("1kb", 1024)])
def test_sizes_are_read_with_units(text, size):
    assert ShareOptions({"maxBytesPerTrigger": text}).size("maxBytesPerTrigger") == size


@pytest.mark.parametrize(
    "options",
    [
        {"path": "s.c.t", "endpoint": "https://h", "shareCredentialsVersion": "x", "bearerToken": SECRET},
        {"path": "s.c.t", "endpoint": "https://h", "shareCredentialsVersion": "9", "bearerToken": SECRET},
        {"path": '{"bearerToken": "' + SECRET + '"}#s.c.t'},
        {"path": '{"bearerToken": "' + SECRET + '"}#s.c'},
    ],
)
def test_what_cannot_be_used_is_told_without_the_secret(options):
    with pytest.raises(DistributaryError) as caught:
        ShareOptions(options).table(ShareOptions(options).profile())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "ask", "message"),
    [
        ({"connection.colour": "1"}, ShareOptions.connection, "connection.colour is not known"),
        ({"connection.timeout": "soon"}, ShareOptions.connection, "cannot be used"),
        ({"maxBytesPerTrigger": "much"}, lambda found: found.size("maxBytesPerTrigger"), "number of bytes"),
        ({}, lambda found: found.table_name, "needs a table"),
        ({"endpoint": "https://h", "auth": "{"}, ShareOptions.profile, "option auth is not JSON"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, ask, message):
    with pytest.raises(InvalidInputError, match=message):
        ask(ShareOptions(options))
