"""The pages about the client: their examples run against a server."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
from scripted_server import ScriptedServer

from distributary.cli.sample_table import make_sample_table

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPARK = ("spark", "streaming")  # these run in tests/spark, where there is a session
EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in sorted((DOCS / "client").glob("*.md"))
    for number, code in enumerate(BLOCK.findall(page.read_text()))
    if page.stem not in SPARK
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a table of orders."""
    folder = tmp_path_factory.mktemp("shop")
    make_sample_table(folder / "orders")
    return folder


@pytest.mark.parametrize("code", EXAMPLES)
def test_example_runs(code, shop, tmp_path, monkeypatch):
    server = ScriptedServer(shop)
    server.script = lambda asked: server.all_tables() if asked.path.endswith("/all-tables") else None
    monkeypatch.chdir(tmp_path)
    profile = tmp_path / "acme.share"
    profile.write_text(json.dumps(server.profile))
    profile.chmod(0o600)
    try:
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    finally:
        server.close()


def test_the_notebook_shows_what_its_cells_give():
    """Its cells are run anew; outputs have neither tokens nor places of a machine."""
    spec = importlib.util.spec_from_file_location(
        "client_notebook", DOCS.parent / "tools" / "client_notebook.py"
    )
    assert spec is not None
    assert spec.loader is not None
    notebook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebook)
    committed = notebook.PAGE.read_text()
    assert committed == notebook.render(), "docs/client/quickstart.ipynb is out of date: run `make pages`"
    assert "bearerToken" not in committed
    assert not re.search(r"/(home|root|tmp|work)/|127\.0\.0\.1", committed)


@pytest.mark.parametrize("page", sorted((DOCS / "client").glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
