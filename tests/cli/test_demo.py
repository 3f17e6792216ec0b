"""`distributary demo`: reads back what it wrote, and leaves or cleans up as asked."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from distributary.cli.main import cli


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_demo_with_demo_exit_checks_every_version_and_leaves_nothing(temporary_folder):
    result = CliRunner().invoke(cli, ["demo"], env={"DEMO_EXIT": "1"}, catch_exceptions=False)
    assert result.exit_code == 0
    assert "version 4: 34 rows read back as written" in result.output
    assert list(temporary_folder.iterdir()) == []


def test_demo_without_demo_exit_keeps_the_table_and_says_where(temporary_folder):
    result = CliRunner().invoke(cli, ["demo"], env={"DEMO_EXIT": None}, catch_exceptions=False)
    assert result.exit_code == 0
    (folder,) = temporary_folder.iterdir()
    assert f"distributary table history {folder / 'orders'}" in result.output
    assert (folder / "orders" / "_delta_log").is_dir()


def test_demo_into_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    result = CliRunner().invoke(cli, ["demo", "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "not empty" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
