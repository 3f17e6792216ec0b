"""The command line as a user meets it: help, versions, errors, exit codes, pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

import distributary
from distributary.cli import main
from distributary.delta.errors import TableNotFoundError
from distributary.errors import AccessDeniedError, InvalidInputError, ThrottledError

PROGRAM = [sys.executable, "-m", "distributary.cli.main"]


def test_help_lists_every_command_with_a_summary():
    result = CliRunner().invoke(main.cli, ["--help"])
    assert result.exit_code == 0
    for name in main.COMMANDS:
        assert f"\n  {name} " in result.output


def test_help_imports_none_of_the_heavy_libraries():
    """What makes `--help` answer in under 0.4 s: nothing heavy is imported for it."""
    code = (
        "import sys; from click.testing import CliRunner; from distributary.cli.main import cli;"
        "CliRunner().invoke(cli, ['--help']);"
        "print(*{'pyarrow', 'obstore', 'numpy', 'rich', 'msgspec', 'pandas'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == ""


def test_version_short_is_the_packages_version():
    assert CliRunner().invoke(main.cli, ["version", "--short"]).output == f"{distributary.__version__}\n"
    assert CliRunner().invoke(main.cli, ["--version"]).output == f"distributary {distributary.__version__}\n"


def test_version_names_the_libraries_that_read_tables():
    output = CliRunner().invoke(main.cli, ["version"]).output
    assert "pyarrow " in output
    assert "obstore " in output


def test_unknown_command_is_a_usage_error():
    result = CliRunner().invoke(main.cli, ["no-such-command"])
    assert result.exit_code == 2
    assert "no-such-command" in result.stderr


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (InvalidInputError("bad"), 2),
        (TableNotFoundError("bad"), 3),
        (AccessDeniedError("bad"), 4),
        (ThrottledError("bad"), 6),
    ],
)
def test_error_of_the_package_is_one_line_on_stderr_and_its_exit_code(error, exit_code):
    result = CliRunner().invoke(group_whose_command_raises(error), ["fail"])
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert result.stderr == f"{error.code}: bad\n"


@pytest.mark.parametrize(
    ("error", "exit_code"), [(KeyboardInterrupt(), 130), (click.Abort(), 130), (BrokenPipeError(), 141)]
)
def test_interruption_and_closed_pipe_have_their_own_exit_codes(error, exit_code):
    result = CliRunner().invoke(group_whose_command_raises(error), ["fail"])
    assert result.exit_code == exit_code
    assert result.stdout == ""


def group_whose_command_raises(error: BaseException) -> click.Group:
    def fail() -> None:
        raise error

    class Group(main.CommandLine):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return click.Command(cmd_name, callback=fail)

    return Group("group")


def test_reader_of_stdout_gone_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    answer = subprocess.run([*PROGRAM, "version"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert answer.returncode == 141
    assert answer.stderr == ""


def test_interrupt_signal_ends_with_130():
    code = (  # a program started behind a `&` inherits that interrupts are ignored
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "import click, time; from distributary.cli import main;"
        "main.CommandLine.get_command = lambda s, c, n: click.Command(n, callback=lambda:"
        "(click.echo('ready'), __import__('sys').stdout.flush(), time.sleep(60)));"
        "main.cli(['wait'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "interrupted\n"
