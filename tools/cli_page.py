"""Write docs/cli.md: every command of the command line with its options and examples, from its own help.

Run it with `make pages` after changing a command; a test fails while the page is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from distributary.cli.main import cli

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "cli.md"

HEADER = """\
# Command line

Data goes to stdout, messages go to stderr. `-o table|json|ndjson|csv|parquet|arrow` chooses how rows are
written; on a terminal, tables are cut to its width. `make pages` generates this page from the help of the
commands.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | error |
| 2 | wrong usage |
| 3 | not found |
| 4 | denied |
| 5 | conflict |
| 6 | unavailable: try again later |
| 130 | interrupted |
| 141 | the reader of stdout went away |
"""


def commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Walk through a command and everything below it."""
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            yield from commands(child, child.context_class(child, info_name=name, parent=context))


def root_context() -> click.Context:
    """Make the context in which `distributary` itself runs, with a fixed width."""
    return cli.context_class(cli, info_name="distributary", terminal_width=100, **cli.context_settings)


def render() -> str:
    """Write the page."""
    sections = [
        f"\n## `{path}`\n\n```text\n{command.get_help(context)}\n```\n"
        for path, command, context in commands(cli, root_context())
    ]
    return HEADER + "".join(sections)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(render())
    print(f"{PAGE.relative_to(PROJECT)}: written")


if __name__ == "__main__":
    main()
