"""The command `distributary`: the group of all commands, and how their errors reach the user.

Commands are imported when they are called or listed, and import what they need when they run, so that
``--help`` answers at once. Data goes to stdout, messages go to stderr. Exit codes: 0 done, 1 error, 2 usage,
3 not found, 4 denied, 5 conflict, 6 unavailable, 130 interrupted, 141 when the reader of stdout went away.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

import click

import distributary
from distributary.errors import DistributaryError

COMMANDS: Mapping[str, str] = {
    "apply": "distributary.cli.apply:apply",
    "audit": "distributary.cli.audit:audit",
    "cat": "distributary.cli.shared_data:cat",
    "changes": "distributary.cli.shared_data:changes",
    "config": "distributary.cli.config:config",
    "demo": "distributary.cli.demo:demo",
    "describe": "distributary.cli.shared_list:describe",
    "download": "distributary.cli.shared_data:download",
    "export": "distributary.cli.apply:export",
    "grant": "distributary.cli.grant:grant",
    "head": "distributary.cli.shared_data:head",
    "init": "distributary.cli.init:init",
    "keys": "distributary.cli.keys:keys",
    "ls": "distributary.cli.shared_list:ls",
    "profile": "distributary.cli.profile:profile",
    "recipient": "distributary.cli.recipient:recipient",
    "revoke": "distributary.cli.grant:revoke",
    "serve": "distributary.cli.serve:serve",
    "share": "distributary.cli.share:share",
    "sync": "distributary.cli.sync:sync",
    "table": "distributary.cli.table:table",
    "token": "distributary.cli.token:token",
    "version": "distributary.cli.version:version",
}
"""Each command's name and where it lives; a new noun is one line here."""


class ReportedError(click.ClickException):
    """An error of the package, shown as ``CODE: message``."""

    def __init__(self, error: DistributaryError) -> None:
        super().__init__(f"{error.code}: {error}")
        self.exit_code = error.exit_code  # pyright: ignore[reportAttributeAccessIssue]  # click's class variable

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the error to stderr."""
        click.echo(self.message, file=file, err=file is None)


class CommandLine(click.Group):
    """A group that imports its commands late and turns errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, in the order of the help text."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        return getattr(importlib.import_module(module), attribute)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever goes wrong ends in a message on stderr and an exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except DistributaryError as error:
            raise ReportedError(error) from error
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(130)
        except BrokenPipeError:
            _discard_stdout()
            ctx.exit(141)


def _discard_stdout() -> None:
    """Point stdout nowhere, so that the interpreter's last flush does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Run `distributary COMMAND --help` for the options and examples of a command.",
)
@click.version_option(distributary.__version__, message="distributary %(version)s")
def cli() -> None:
    """Share live Delta tables: read and write them on any store, at any version.

    \b
    Examples:
      distributary demo
      distributary table show s3://lake/orders
      distributary table append ./orders new_orders.csv
    """


def main() -> None:
    """Run the command line."""
    cli(prog_name="distributary")


if __name__ == "__main__":
    main()
