"""`distributary keys …`: the key file that tickets, page tokens and the audit log are signed with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.catalog_options import config_option, open_catalog, write_entries
from distributary.cli.output import output_options
from distributary.cli.result import confirm, result_option, write_result, yes_option
from distributary.cli.time_text import time_text

if TYPE_CHECKING:
    from distributary.server.settings_file import LoadedSettings


@click.group(short_help="The keys that the server signs with.")
def keys() -> None:
    """Keys: what file tickets, page tokens and the audit log are signed with. They are never shown.

    \b
    Examples:
      distributary keys list
      distributary keys rotate
    """


@keys.command("list", short_help="The ids and ages of the keys.")
@output_options
@config_option
def list_keys(loaded: LoadedSettings, format: str, output: Path | None) -> None:
    """List the keys of the key file: which one signs, and since when each is there.

    \b
    Examples:
      distributary keys list
      distributary keys list -o json
    """
    from distributary.server.key_ring import KeyRing

    ring = KeyRing(loaded.settings.key_path)
    at = [key.id for key in ring.keys].index(ring.current_id)
    uses = ["checks"] * at + ["signs"] + ["prepared"] * (len(ring.keys) - at - 1)
    entries = [
        {"key": key.id, "use": use, "created": time_text(key.created_at)}
        for key, use in zip(ring.keys, uses, strict=True)
    ]
    write_entries(entries, ("key", "use", "created"), format, output)


@keys.command("rotate", short_help="Sign with a new key.")
@click.option("--prepare", is_flag=True, help="Only add the key; copy the file to every server, then rotate.")
@result_option
@config_option
def rotate_keys(loaded: LoadedSettings, prepare: bool, result: str) -> None:
    """Sign with a new key; the old ones still check what they signed, until they are dropped.

    Running servers use the new file within a second. With several servers: rotate --prepare, copy the key
    file to each, then rotate and copy again.

    \b
    Examples:
      distributary keys rotate
      distributary keys rotate --prepare
    """
    from distributary.catalog import key_ids
    from distributary.catalog.database import now_ms
    from distributary.server import key_ring

    admin = open_catalog(loaded)
    key = key_ring.rotate(loaded.settings.key_path, now=now_ms(), prepare=prepare)
    with admin.database.write() as connection:
        key_ids.record(connection, key.id)
        admin.audit_many(connection, [("keys.prepare" if prepare else "keys.rotate", key.id, {})])
    done = "is prepared" if prepare else "signs from now on"
    write_result(f"Key {key.id} {done}.", {"key": key.id, "signs": not prepare}, result)


@keys.command("drop", short_help="Take an old key out.")
@click.argument("key", metavar="KEY")
@yes_option
@result_option
@config_option
def drop_key(loaded: LoadedSettings, key: str, yes: bool, result: str) -> None:
    """Take an old key out of the key file: whatever it signed is refused from then on.

    \b
    Examples:
      distributary keys drop k3f9a0c1d2e4b
      distributary keys drop k3f9a0c1d2e4b --yes
    """
    from distributary.catalog import audit_log, key_ids
    from distributary.server import key_ring
    from distributary.server.key_ring import KeyRing

    admin = open_catalog(loaded)
    confirm(f"Take key {key} out? Page tokens and tickets signed with it end.", yes)
    ring = KeyRing(loaded.settings.key_path)
    key_ring.require_old(ring, key)
    # The seal moves to another key before this one is gone; a crash in between leaves a key too many.
    with admin.database.write() as connection:
        if key in audit_log.sealing_key_ids(connection):
            audit_log.verify(connection, ring)
            audit_log.reseal(connection, ring)
        key_ids.retire(connection, key)
        admin.audit_many(connection, [("keys.drop", key, {})])
    key_ring.drop(loaded.settings.key_path, key)
    write_result(f"Took key {key} out.", {"key": key}, result)
