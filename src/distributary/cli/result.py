"""What a command that changes a table says when it is done: a sentence, or facts for programs with `-o json`.

Before it is done: `--dry-run` only says what would be done, and what cannot be undone is asked about on a
terminal, unless `--yes` is given. Where nobody can answer (a script, a pipe) nothing is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from distributary.cli.output import write_text, write_value

FORMATS = ("table", "json", "ndjson")

Command = TypeVar("Command", bound=Callable[..., Any])


def result_option(command: Command) -> Command:
    """Add ``-o``: how the result is written; the command gets it as ``result``."""
    return click.option(
        "-o",
        "--result",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How the result is written: a sentence, or JSON for programs.",
    )(command)


def dry_run_option(command: Command) -> Command:
    """Add ``--dry-run``."""
    return click.option("--dry-run", is_flag=True, help="Only say what would be done.")(command)


def yes_option(command: Command) -> Command:
    """Add ``--yes``."""
    return click.option("--yes", is_flag=True, help="Do not ask on a terminal.")(command)


def write_result(sentence: str, facts: Mapping[str, Any], result: str) -> None:
    """Say what was done, or would be."""
    if result == "table":
        from distributary.cli.text_table import cell_text

        write_text(cell_text(sentence))
    else:
        write_value(dict(facts), result)


def confirm(question: str, yes: bool) -> None:
    """Ask on a terminal, and stop where the answer is no."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Texts of the form KEY=VALUE."""
    found: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        found[key.strip()] = value.strip()
    return found


def names(text: str | None, option: str) -> list[str]:
    """Names separated by commas."""
    found = [name.strip() for name in (text or "").split(",")] if text is not None else []
    if not all(found):
        raise click.BadParameter("names no column", param_hint=option)
    return found
