"""`distributary init`: the folder of a sharing server: its settings, its catalog and its keys."""

from __future__ import annotations

from pathlib import Path

import click

from distributary.cli.catalog_options import actor, load
from distributary.cli.result import result_option, write_result
from distributary.errors import InvalidInputError


@click.command(short_help="Make the settings, the catalog and the keys of a server.")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--database",
    metavar="URL",
    help="The catalog: postgresql://… (its password in PGPASSWORD or ~/.pgpass) or a SQLite file.",
)
@click.option(
    "--reseal-audit",
    is_flag=True,
    help="The key that sealed the audit log is lost for good: seal it with the present key.",
)
@result_option
def init(folder: Path, database: str | None, reseal_audit: bool, result: str) -> None:
    """Make what a sharing server needs, in a folder: distributary.yaml, the catalog and the key file.

    What is there already stays: an older catalog is upgraded, keys are never replaced. The key file is
    readable by its owner alone; keep a copy of it in a safe place.

    \b
    Examples:
      distributary init
      distributary init /srv/sharing --database postgresql://sharing@db.internal/sharing
    """
    file = folder / "distributary.yaml"
    made = _write_settings(file, database)
    loaded = load(file)
    new_keys = _open(loaded.settings.database, loaded.settings.key_path, reseal_audit)
    facts = {
        "settings": str(file),
        "database": _shown(loaded.settings.database),
        "key_file": loaded.settings.key_file,
        "made_settings": made,
        "made_keys": new_keys,
    }
    keys = "made" if new_keys else "kept"
    write_result(
        f"The catalog is ready at {facts['database']}; settings in {file}; "
        f"keys {keys} in {loaded.settings.key_file}. Next: cd {folder} && distributary share create NAME",
        facts,
        result,
    )


def _write_settings(file: Path, database: str | None) -> bool:
    """Write the file of settings, unless there is one; a new database URL is put into an old one."""
    from distributary.catalog.database import parsed_url
    from distributary.server.settings_file import write_setting

    if database is not None and parsed_url(database).password:
        raise InvalidInputError(
            "a command line is not the place for a password: other users read it. Leave it out of the URL "
            "and set PGPASSWORD, or use ~/.pgpass"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    new = not file.exists()
    if database is not None or new:
        write_setting(file, "database", database or "distributary.db")
    if new:
        write_setting(file, "key_file", "distributary.keys")
    return new


def _open(database_url: str, key_file: Path, reseal: bool) -> bool:
    from distributary.catalog.administration import initialise
    from distributary.catalog.database import Database, now_ms
    from distributary.server.key_ring import KeyRing, create_key_file

    new = not key_file.exists()
    keys = create_key_file(key_file, now=now_ms()) if new else KeyRing(key_file)
    database = Database(database_url)
    try:
        initialise(database, keys, actor=actor(), reseal=reseal)
    finally:
        database.close()
    return new


def _shown(database: str) -> str:
    from distributary.server.settings import shown_value

    return shown_value("database", database)
