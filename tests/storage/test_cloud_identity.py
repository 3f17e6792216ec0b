"""Credentials that expire are asked for again."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

from distributary.storage.cloud_identity import aws_identity, aws_keys
from distributary.storage.storage_options import AWS, read_options

PROCESS = """
import json, pathlib
state = pathlib.Path({state!r})
count = int(state.read_text()) + 1 if state.exists() else 1
state.write_text(str(count))
print(json.dumps({{"Version": 1, "AccessKeyId": f"key{{count}}", "SecretAccessKey": "s", "SessionToken": "t",
                  "Expiration": {expiration}}}))
"""


@pytest.mark.parametrize(("minutes", "second_key"), [(60, "key1"), (5, "key3")])
def test_botocore_credentials_are_refreshed_before_they_expire(tmp_path, monkeypatch, minutes, second_key):
    pytest.importorskip("botocore")
    script = tmp_path / "process.py"
    expiration = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
    script.write_text(PROCESS.format(state=str(tmp_path / "state"), expiration=json.dumps(expiration)))
    config = tmp_path / "config"
    config.write_text(f"[profile p]\ncredential_process = {sys.executable} {script}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    provide = aws_identity(aws_keys(read_options(AWS, {"profile": "p"}, {})))
    assert provide is not None
    first, second = provide(), provide()
    assert first["token"] == "t"
    assert second["access_key_id"] == second_key
    assert first["expires_at"] < datetime.now(UTC) + timedelta(minutes=6)


def test_keys_say_when_they_end_and_show_no_secret(tmp_path, monkeypatch):
    pytest.importorskip("botocore")
    script = tmp_path / "process.py"
    end = datetime.now(UTC) + timedelta(minutes=60)
    script.write_text(PROCESS.format(state=str(tmp_path / "state"), expiration=json.dumps(end.isoformat())))
    config = tmp_path / "config"
    config.write_text(f"[profile p]\ncredential_process = {sys.executable} {script}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    source = aws_keys(read_options(AWS, {"profile": "p"}, {}))
    assert source is not None
    keys = source()
    assert keys.expires_at is not None
    assert abs(keys.expires_at - end) < timedelta(seconds=2)
    assert "key1" not in repr(keys)


def test_keys_of_the_options_do_not_expire():
    options = read_options(AWS, {"access_key_id": "a", "secret_access_key": "b", "token": "c"}, {})
    provide = aws_identity(aws_keys(options))
    assert provide is not None
    assert provide() == {
        "access_key_id": "a",
        "secret_access_key": "b",
        "token": "c",
        "expires_at": None,
    }


def test_anonymous_reading_needs_no_identity():
    assert aws_identity(aws_keys(read_options(AWS, {"skip_signature": "true"}, {}))) is None
