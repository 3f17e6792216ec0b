"""The package as it is imported: lazy names, version, house rules that a tool can check."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import distributary

LONGEST_FILE = 500
LONGEST_FUNCTION = 60


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, distributary; print(*{'pyarrow', 'obstore', 'numpy'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == ""


@pytest.mark.parametrize("module", ["delta.table", "catalog.administration", "server.runner"])
def test_importing_a_part_does_not_import_pandas(module):
    """pyarrow imports pandas for the first array of a list, which no module shall make when it is loaded."""
    code = f"import sys, distributary.{module}; print('pandas' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize("name", distributary.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(distributary, name) is not None
    assert name in dir(distributary)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        distributary.no_such_name  # noqa: B018


def test_version_is_the_same_in_package_and_metadata(project_dir: Path):
    declared = tomllib.loads((project_dir / "pyproject.toml").read_text())["project"]["version"]
    assert distributary.__version__ == declared == metadata.version("distributary")


def test_source_files_and_functions_stay_short(project_dir: Path):
    too_long = []
    for path in sorted((project_dir / "src").rglob("*.py")):
        text = path.read_text()
        if text.count("\n") > LONGEST_FILE:
            too_long.append(f"{path.name}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    too_long.append(f"{path.name}:{node.lineno} {node.name}: {lines} lines")
    assert too_long == []


def test_layers_hold(project_dir: Path):
    """The import contracts of DESIGN 1; `make check` runs them too."""
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed in this environment")
    answer = subprocess.run([linter, "--no-cache"], cwd=project_dir, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout
