"""The commands that run a catalog, from `init` to `audit verify`."""

from __future__ import annotations

import datetime
import json
import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from distributary import DeltaTable
from distributary.catalog.bearer_tokens import authenticate
from distributary.catalog.database import Database
from distributary.cli.main import cli


class Shell:
    """Runs commands in a folder that has a catalog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str, fails: int = 0, input: bytes | None = None) -> str:
        result = CliRunner().invoke(cli, list(arguments), input=input)
        assert result.exit_code == fails, (arguments, result.output, result.exception)
        return result.output

    def json(self, *arguments: str):
        return json.loads(self.run(*arguments, "-o", "json"))


@pytest.fixture
def shell(tmp_path, monkeypatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DISTRIBUTARY_")]:
        monkeypatch.delenv(name)
    schema = pa.schema([("id", pa.int64()), ("country", pa.string())])
    table = DeltaTable.create("lake/eu/orders", schema=schema, partition_by=["country"])
    table.append(pa.table({"id": [1, 2], "country": ["DE", "FR"]}, schema=schema))
    DeltaTable.create("lake/plain", schema=schema)
    made = Shell(tmp_path)
    made.run("init")
    return made


def test_init_makes_private_files_and_changes_nothing_the_second_time(shell):
    names = ("distributary.yaml", "distributary.db", "distributary.keys")
    assert [stat.S_IMODE(Path(name).stat().st_mode) for name in names] == [0o600] * 3
    before = Path("distributary.keys").read_bytes()
    assert shell.json("init") | {"database": ""} == {
        "settings": "distributary.yaml",
        "database": "",
        "key_file": str(shell.folder / "distributary.keys"),
        "made_settings": False,
        "made_keys": False,
    }
    assert Path("distributary.keys").read_bytes() == before
    shell.run("audit", "verify")


def test_password_on_the_command_line_is_refused(shell):
    output = shell.run("init", "other", "--database", "postgresql://u:canary@h/d", fails=2)
    assert "PGPASSWORD" in output
    assert "canary" not in output


def test_commands_without_a_catalog_say_what_to_do(shell):
    Path("empty").mkdir()
    Path("empty/distributary.yaml").write_text("")
    output = shell.run("share", "list", "--config", "empty/distributary.yaml", fails=3)
    assert "distributary init" in output


def test_share_is_made_filled_shown_changed_and_dropped(shell):
    shell.run("share", "create", "sales", "--comment", "x", "--property", "owner=me")
    shell.run("share", "create", "SALES", fails=5)
    shell.run("share", "create", "SALES", "--if-not-exists")
    shell.run("share", "create", "a b", fails=2)
    shell.run("share", "add-table", "sales", "lake/eu/orders", "--as", "eu.orders", "--no-history")
    shell.run("share", "add-table", "sales", "lake/nowhere", fails=3)
    shell.run("share", "add-table", "sales", "lake/plain", "--partition", "id = 1", fails=2)
    shell.run("share", "add-table", "sales", "lake/plain", "--as", "noperiod", fails=2)
    added = shell.json("share", "add-folder", "sales", "lake")
    assert added["tables"] == ["sales.default.plain"]
    tables = shell.json("share", "show", "sales")
    assert [(table["schema"], table["table"], table["history_shared"]) for table in tables] == [
        ("default", "plain", True),
        ("eu", "orders", False),
    ]
    shell.run("share", "update-table", "sales", "eu.orders", "--partition", "country = 'DE'", "--history")
    shell.run("share", "update-table", "sales", "eu.orders", "--access", "dir", fails=2)
    shell.run("share", "update-table", "sales", "eu.orders", "--partition", "", "--rename", "all")
    shell.run("share", "update", "sales", "--rename", "sold", "--unset-property", "owner")
    assert [row["share"] for row in shell.json("share", "list")] == ["sold"]
    shell.run("share", "remove-table", "sold", "eu.all", "--yes")
    shell.run("share", "remove-table", "sold", "eu.all", fails=3)
    shell.run("share", "drop", "sold", "--yes")
    shell.run("share", "drop", "sold", fails=3)
    shell.run("share", "drop", "sold", "--if-exists")
    shell.run("audit", "verify")


def test_recipient_gets_a_profile_that_is_never_replaced_silently(shell):
    shell.run("share", "create", "sales")
    shell.run(
        "recipient", "create", "acme", "--grant", "sales", "--profile", "acme.share", "--expires", "30d"
    )
    profile = json.loads(Path("acme.share").read_text())
    assert stat.S_IMODE(Path("acme.share").stat().st_mode) == 0o600
    assert profile["endpoint"] == "http://127.0.0.1:8080/delta-sharing"
    end = datetime.datetime.fromisoformat(profile["expirationTime"])
    assert 29 <= (end - datetime.datetime.now(datetime.UTC)).days <= 30
    database = Database("distributary.db")
    assert authenticate(database, profile["bearerToken"]) is not None
    before = Path("acme.share").read_bytes()
    shell.run("recipient", "create", "other", "--profile", "acme.share", fails=5)
    shell.run("recipient", "show", "other", fails=3)
    assert Path("acme.share").read_bytes() == before
    shell.run("recipient", "rotate", "acme", "--old-expires", "0", "--profile", "acme.share", "--overwrite")
    assert authenticate(database, profile["bearerToken"]) is None
    renewed = json.loads(Path("acme.share").read_text())
    assert authenticate(database, renewed["bearerToken"]) is not None
    shell.run("recipient", "revoke", "acme", "--yes")
    assert authenticate(database, renewed["bearerToken"]) is None
    database.close()


def test_tokens_are_shown_once_and_listed_without_their_secret(shell):
    made = shell.json("recipient", "create", "acme")
    listed = shell.run("token", "list", "acme", "-o", "json")
    assert made["token_id"] in listed
    assert made["token"].rsplit("_", 1)[1] not in listed + shell.run("audit", "list", "-o", "json")
    second = shell.json("token", "create", "acme", "--expires", "7d")
    shell.run("token", "create", "acme", fails=5)
    shell.run("token", "create", "acme", "--expires", "999d", fails=2)
    shell.run("token", "revoke", second["token_id"], "--yes")
    states = {row["token"]: row["state"] for row in shell.json("token", "list")}
    assert states == {made["token_id"]: "active", second["token_id"]: "revoked"}
    shell.run("token", "show", "nothing", fails=3)


def test_grant_warns_of_properties_that_a_filter_needs(shell):
    shell.run("share", "create", "sales")
    shell.run("share", "add-table", "sales", "lake/eu/orders", "--partition", "country = recipient.country")
    shell.run("recipient", "create", "acme", "--no-token")
    assert "sees no rows" in shell.run("grant", "sales", "acme")
    shell.run("recipient", "update", "acme", "--prop", "country=DE", "--ip", "192.0.2.0/24", "--disable")
    shown = shell.json("recipient", "show", "acme")[0]
    assert json.loads(shown["properties"]) == {"country": "DE"}
    assert shown["state"] == "disabled"
    assert shell.json("grant", "sales", "acme")["changed"] is False
    assert [row["recipient"] for row in shell.json("share", "grants", "sales")] == ["acme"]
    assert shell.json("revoke", "sales", "acme")["changed"] is True
    shell.run("grant", "nothing", "acme", fails=3)
    shell.run("recipient", "drop", "acme", "--yes")


def test_export_and_apply_move_a_catalog(shell):
    shell.run("share", "create", "sales")
    shell.run("share", "add-folder", "sales", "lake")
    shell.run("recipient", "create", "acme", "--grant", "sales", "--no-token")
    shell.run("export", "--output", "shares.yaml")
    assert shell.json("apply", "-f", "shares.yaml", "--prune")["changes"] == []
    shell.run("init", "second")
    planned = shell.json("apply", "-f", "shares.yaml", "--dry-run", "--config", "second/distributary.yaml")
    assert len(planned["changes"]) == 5
    shell.run("apply", "-f", "shares.yaml", "--config", "second/distributary.yaml")
    moved = shell.run("export", "--config", "second/distributary.yaml")
    assert moved == Path("shares.yaml").read_text()
    text = "version: 1\nshares: [{name: x}]\nauthorization: {bearerToken: short}\n"
    assert "guessed" in shell.run("apply", "-f", "-", input=text.encode())
    shell.run("apply", "-f", "-", input=b"version: 9", fails=2)


def test_keys_are_rotated_and_the_audit_log_stays_whole(shell):
    first = shell.json("keys", "list")[0]["key"]
    prepared = shell.json("keys", "rotate", "--prepare")["key"]
    assert [row["use"] for row in shell.json("keys", "list")] == ["signs", "prepared"]
    assert shell.json("keys", "rotate")["key"] == prepared
    shell.run("audit", "verify")
    shell.run("keys", "drop", prepared, "--yes", fails=1)
    shell.run("keys", "drop", first, "--yes")
    assert shell.json("audit", "verify")["whole"] is True
    actions = [row["action"] for row in shell.json("audit", "list", "--action", "keys")]
    assert actions == ["keys.use", "keys.prepare", "keys.rotate", "keys.drop"]
    shell.run("audit", "prune", "--older-than", "1d", "--yes")
    shell.run("audit", "verify")


def test_settings_are_shown_with_their_origin_and_changed(shell, monkeypatch):
    monkeypatch.setenv("DISTRIBUTARY_PORT", "9999")
    rows = {row["setting"]: row for row in shell.json("config", "show", "--origin")}
    assert (rows["port"]["value"], rows["port"]["origin"]) == ("9999", "DISTRIBUTARY_PORT")
    shell.run("config", "set", "limits.burst", "7")
    assert shell.run("config", "get", "limits.burst") == "7\n"
    shell.run("config", "set", "limits.burst", "--unset")
    assert shell.run("config", "get", "limits.burst") == "400\n"
    shell.run("config", "set", "limits.burst", fails=2)
    assert "did you mean" in shell.run("config", "get", "limits.brst", fails=2)
    assert shell.run("config", "path").strip() == str(shell.folder / "distributary.yaml")
    shell.run("config", "show", "--changed")
