"""The documentation agrees with the code: commands, error codes, obligations, and examples that run."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import distributary
from distributary.cli.main import cli
from distributary.cli.sample_table import make_sample_table
from distributary.errors import DistributaryError

PROJECT = Path(__file__).resolve().parent.parent
SPARK = "distributary.spark"  # such examples run in tests/spark, where there is a session
PAGES = [
    PROJECT / "README.md",
    *sorted((PROJECT / "docs").glob("*.md")),
    *sorted((PROJECT / "docs" / "server").glob("*.md")),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What the Delta engine answers for; the rest is the server's and the client's.
WHOLE_FAMILIES = ("LR-", "LW-", "CK-", "ST-", "SC-", "PV-", "CN-", "RET-")
CHANGE_FEED = {"CDF-002", "CDF-004", "CDF-005"}


def tool(name: str):
    """Import a script of tools/."""
    spec = importlib.util.spec_from_file_location(name, PROJECT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_everything() -> None:
    """Import every module, so that every error is known whatever ran before in this process."""
    for module in pkgutil.walk_packages(distributary.__path__, "distributary."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def error_classes(root: type[DistributaryError]) -> Iterator[type[DistributaryError]]:
    yield root
    for child in root.__subclasses__():
        yield from error_classes(child)


def test_every_error_code_is_explained_with_its_exit_code():
    import_everything()
    page = (PROJECT / "docs" / "errors.md").read_text()
    documented = dict(re.findall(r"`([A-Z_]+)`(?: \|| \(exit) (\d)", page))
    expected = {error.code: str(error.exit_code) for error in error_classes(DistributaryError)}
    assert documented == expected


def test_every_error_has_a_code_of_its_own():
    import_everything()
    codes = [error.code for error in error_classes(DistributaryError)]
    assert sorted(set(codes)) == sorted(codes)


def test_command_line_page_is_current():
    page = tool("cli_page")
    assert page.PAGE.read_text() == page.render(), "docs/cli.md is out of date: run `make pages`"


def test_help_of_every_command_shows_examples():
    page = tool("cli_page")
    for path, command, context in page.commands(cli, page.root_context()):
        examples = command.get_help(context).partition("Examples:")[2]
        assert f"{path}" in examples, f"{path} --help has no example of itself"


def test_obligations_page_is_current():
    page = tool("obligations_page")
    proofs = page.cited_obligations(PROJECT / "tests")
    assert page.PAGE.read_text() == page.render(proofs), (
        "docs/obligations.md is out of date: run `make pages`"
    )


def test_every_obligation_of_the_delta_engine_has_a_test(shared_dir):
    defined = set(re.findall(r"\*\*([A-Z]+-\d+)\*\*", (shared_dir / "spec" / "obligations.md").read_text()))
    expected = {name for name in defined if name.startswith(WHOLE_FAMILIES)} | (CHANGE_FEED & defined)
    assert expected
    cited = tool("obligations_page").cited_obligations(PROJECT / "tests")
    assert sorted(expected - set(cited)) == [], "no test cites these obligations"


def blocks(language: str) -> list:
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (kind, text) in enumerate(BLOCK.findall(page.read_text()))
        if kind == language and SPARK not in text
    ]


@pytest.fixture
def beside_sample(tmp_path, monkeypatch) -> Path:
    """A working directory that has the table which the documentation reads."""
    make_sample_table(tmp_path / "sample" / "orders")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", blocks("python"))
def test_python_example_runs(code, beside_sample):
    exec(compile(code, "example", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("commands", blocks("sh"))
def test_shell_example_runs(commands, beside_sample):
    """Commands of `distributary` are run; `make` targets and `pip` must at least be what exists."""
    targets = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    for line in commands.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "make":
            assert set(arguments) <= set(targets)
        elif program == "distributary":
            if "demo" not in arguments:
                assert_runs(arguments)
        else:
            assert program == "pip"


def assert_runs(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, (
        f"distributary {shlex.join(arguments)}: {result.output} {result.exception!r}"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_named_in_prose_exists(page):
    for words in re.findall(r"`distributary ((?:[a-z-]+ ?)+)", page.read_text()):
        command: click.Command | None = cli
        context = click.Context(cli)
        for word in words.split():
            if isinstance(command, click.Group):
                command = command.get_command(context, word)
                assert command is not None, f"{page.name} names `distributary {words}`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_inside_the_docs_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert os.path.exists(page.parent / target), f"{page.name} links to {target}"
