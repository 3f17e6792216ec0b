"""`distributary config …`: the settings, where they come from, and how they are changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.catalog_options import config_option, write_entries
from distributary.cli.output import output_options, write_text
from distributary.cli.result import result_option, write_result

if TYPE_CHECKING:
    from distributary.server.settings_file import LoadedSettings


@click.group(short_help="The settings of the server.")
def config() -> None:
    """Settings: flags count before the environment, that before the file, and that before defaults.

    \b
    Examples:
      distributary config show --origin
      distributary config set port 9000
      distributary config get lifetimes.url_seconds
    """


@config.command("show", short_help="Every setting with its value.")
@click.option("--origin", is_flag=True, help="Also where each value comes from.")
@click.option("--all/--changed", "everything", default=True, help="Also settings that have their default.")
@output_options
@config_option
def show_config(
    loaded: LoadedSettings, origin: bool, everything: bool, format: str, output: Path | None
) -> None:
    """Show every setting; passwords and secrets of stores are not shown.

    \b
    Examples:
      distributary config show --origin
      distributary config show --changed -o json
    """
    from distributary.server.settings import setting_rows, shown_value, value_of

    entries = [
        {
            "setting": row.key,
            "value": shown_value(row.key, value_of(loaded.settings, row.key)),
            "origin": loaded.origin(row.key),
            "meaning": row.meaning,
        }
        for row in setting_rows()
        if everything or loaded.origin(row.key) != "default"
    ]
    columns = ("setting", "value", "origin", "meaning") if origin else ("setting", "value", "meaning")
    write_entries(entries, columns, format, output)


@config.command("get", short_help="One setting.")
@click.argument("key", metavar="KEY")
@config_option
def get_config(loaded: LoadedSettings, key: str) -> None:
    """Print the value of one setting.

    \b
    Examples:
      distributary config get port
      distributary config get lifetimes.url_seconds
    """
    from distributary.server.settings import shown_value, value_of
    from distributary.server.settings_file import require_key

    write_text(shown_value(key, value_of(loaded.settings, require_key(key))))


@config.command("set", short_help="Change a setting in the file.")
@click.argument("key", metavar="KEY")
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("--unset", is_flag=True, help="Take the setting out of the file, so that its default holds.")
@result_option
@config_option
def set_config(loaded: LoadedSettings, key: str, value: str | None, unset: bool, result: str) -> None:
    """Change a setting in the file of settings; a running server sees it when it starts anew.

    The file is written anew: its other settings stay, comments in it do not.

    \b
    Examples:
      distributary config set limits.burst 800
      distributary config set port --unset
    """
    from distributary.server.settings_file import FILE_NAME, write_setting

    if (value is None) is not unset:
        raise click.UsageError("Give a VALUE, or --unset.")
    file = loaded.file or Path(FILE_NAME)
    write_setting(file, key, value)
    done = f"Took {key} out of {file}." if unset else f"Set {key} in {file}."
    write_result(done, {"setting": key, "file": str(file)}, result)


@config.command("path", short_help="The file of settings that is used.")
@config_option
def config_path(loaded: LoadedSettings) -> None:
    """Print the path of the file of settings that is used, or where one would be looked for.

    \b
    Examples:
      distributary config path
      distributary config path --config /srv/sharing/distributary.yaml
    """
    from distributary.server.settings_file import FILE_NAME

    write_text(str((loaded.file or Path(FILE_NAME)).absolute()))
