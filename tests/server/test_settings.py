"""Settings: where they come from, what is refused, and that the documentation names every one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distributary.catalog.errors import ShareFileError
from distributary.errors import DistributaryError, InvalidInputError
from distributary.server.settings import Settings, setting_rows, shown_value, value_of
from distributary.server.settings_file import InvalidSettingError, load_settings, write_setting

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server" / "configuration.md"


def write(folder: Path, text: str) -> Path:
    file = folder / "distributary.yaml"
    file.write_text(text)
    return file


def load(file: Path | None, environment: dict[str, str] | None = None, **flags):
    return load_settings(file, flags=flags, environment=environment or {})


def test_flag_counts_before_environment_before_file_before_default(tmp_path):
    file = write(tmp_path, "port: 1\nhost: 10.0.0.1\nlimits: {burst: 5}\n")
    environment = {"DISTRIBUTARY_PORT": "2", "DISTRIBUTARY_LIMITS__BURST": "6", "OTHER": "x"}
    loaded = load(file, environment, port=3, host=None)
    settings = loaded.settings
    assert (settings.port, settings.limits.burst, settings.host, settings.workers) == (3, 6, "10.0.0.1", 2)
    assert loaded.origin("port") == "flag"
    assert loaded.origin("limits.burst") == "DISTRIBUTARY_LIMITS__BURST"
    assert loaded.origin("host") == str(file)
    assert loaded.origin("workers") == "default"


def test_paths_of_a_file_start_at_the_file(tmp_path):
    file = write(tmp_path, "database: my.db\ntls: {certificate: c.pem}\n")
    settings = load(file).settings
    assert (settings.database, settings.key_file) == (f"{tmp_path}/my.db", f"{tmp_path}/distributary.keys")
    assert settings.tls.certificate == f"{tmp_path}/c.pem"
    url = "postgresql://u@h/d"
    assert load(write(tmp_path, f"database: {url}\n")).settings.database == url


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot: 1\n", "did you mean port"),
        ("limits: {brust: 1}\n", "did you mean limits.burst"),
        ("port: x\n", "setting port"),
        ("port: 70000\n", "65535"),
        ("lifetimes: {url_seconds: 3601}\n", "3600"),
        ("workers: 0\n", "setting workers"),
        ("log: {level: loud}\n", "log.level"),
        ("storage: {s3://x: {a: [1]}}\n", "storage"),
    ],
)
def test_setting_that_cannot_be_is_named_with_its_origin(tmp_path, text, complaint):
    """RELIABILITY G7: an unknown key is refused with a suggestion."""
    with pytest.raises(InvalidSettingError, match=complaint):
        load(write(tmp_path, text))


def test_misspelt_variable_is_refused_and_those_of_others_are_not(tmp_path):
    with pytest.raises(InvalidSettingError, match="DISTRIBUTARY_LIMITS__BURST"):
        load(write(tmp_path, ""), {"DISTRIBUTARY_LIMITS__BURSTS": "1"})
    kubernetes = {"DISTRIBUTARY_PORT": "tcp://10.0.0.1:80", "DISTRIBUTARY_SERVICE_HOST": "10.0.0.1"}
    assert load(write(tmp_path, ""), kubernetes).settings.port == 8080


def test_storage_options_are_those_of_the_innermost_root(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKE_SECRET", "canary-secret")
    text = """
storage:
  s3://lake: {aws_region: eu-west-1, aws_secret_access_key: "${LAKE_SECRET}"}
  s3://lake/special: {aws_region: us-east-1}
"""
    settings = load(write(tmp_path, text)).settings
    assert settings.storage_options("s3a://lake/t/") == {
        "aws_region": "eu-west-1",
        "aws_secret_access_key": "canary-secret",
    }
    assert settings.storage_options("s3://lake/special/t") == {"aws_region": "us-east-1"}
    assert settings.storage_options("s3://lake/special") == {"aws_region": "us-east-1"}
    assert settings.storage_options("s3://lake/specials") == settings.storage_options("s3://lake")
    assert settings.storage_options("s3://lakes/t") == {}
    assert "canary" not in repr(settings) + shown_value("storage", settings.storage)
    monkeypatch.delenv("LAKE_SECRET")
    with pytest.raises(InvalidInputError, match="LAKE_SECRET"):
        settings.storage_options("s3://lake/t")


def test_secrets_are_never_shown():
    """RELIABILITY P7."""
    assert shown_value("database", "postgresql://u:canary@h/d") == "postgresql://u:***@h/d"
    shown = shown_value("storage", {"s3://x": {"aws_secret_access_key": "canary", "aws_region": "r"}})
    assert "canary" not in shown
    assert '"aws_region":"r"' in shown


def test_setting_is_changed_in_the_file_and_the_rest_stays(tmp_path):
    file = write(tmp_path, "port: 1\nlimits:\n  burst: 5\n")
    write_setting(file, "limits.json_depth", "7")
    write_setting(file, "trusted_proxies", "10.0.0.0/8, 192.0.2.0/24")
    write_setting(file, "limits.burst", None)
    settings = load(file).settings
    assert (settings.port, settings.limits.json_depth, settings.limits.burst) == (1, 7, 400)
    assert settings.trusted_proxies == ("10.0.0.0/8", "192.0.2.0/24")
    for key, value in (("nothing", "1"), ("port", "x")):
        with pytest.raises(InvalidSettingError):
            write_setting(file, key, value)
    assert load(file).settings == settings


def test_file_of_the_reference_server_gives_settings(tmp_path):
    text = """
version: 1
shares: []
host: "0.0.0.0"
port: 9999
endpoint: "/api"
preSignedUrlTimeoutSeconds: 7200
stalenessAcceptable: true
queryTablePageTokenTtlMs: 60000
deltaTableCacheSize: 10
ssl: {selfSigned: false, certificateFile: c.pem, certificateKeyFile: k.pem}
"""
    loaded = load(write(tmp_path, text))
    settings = loaded.settings
    assert loaded.is_reference_file
    assert (settings.host, settings.port, settings.prefix) == ("0.0.0.0", 9999, "/api")
    assert (settings.lifetimes.url_seconds, settings.lifetimes.page_token_seconds) == (3600, 60)
    assert settings.cache.staleness_seconds > 0
    assert settings.tls.key == f"{tmp_path}/k.pem"
    assert settings.endpoint == "https://0.0.0.0:9999/api"
    with pytest.raises(DistributaryError):
        load(write(tmp_path, "shares: []\nversion: 2\n"))
    with pytest.raises(DistributaryError, match="self-signed"):
        load(write(tmp_path, "shares: []\nversion: 1\nssl: {selfSigned: true}\n"))


def test_file_that_is_named_must_be_there(tmp_path):
    with pytest.raises(ShareFileError, match="cannot be read"):
        load(tmp_path / "none.yaml")


def test_every_setting_has_a_meaning_and_is_in_the_documentation():
    rows = {row.key: row for row in setting_rows()}
    documented = dict(re.findall(r"^\| `([a-z_.]+)` \| [^|]+ \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE))
    assert {key: text.strip().strip("`") for key, text in documented.items()} == {
        key: row.default for key, row in rows.items()
    }
    for key, row in rows.items():
        assert value_of(Settings(), key) is not None or row.default == ""
        assert row.meaning in PAGE.read_text(), key
