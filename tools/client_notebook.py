"""Write docs/client/quickstart.ipynb: a notebook about the client, run from its first cell to its last.

Run it with `make pages` after changing a cell; a test fails while the outputs are not what the cells give.
The cells are run by this script itself, in one namespace and in an empty folder, as a kernel would run them:
what they print and the value of the last line become the outputs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "client" / "quickstart.ipynb"

CELLS: tuple[tuple[str, str], ...] = (
    (
        "markdown",
        """# Shared tables in a notebook

A provider gave you a profile file, `acme.share`. This notebook reads the tables behind it into pandas,
Polars, DuckDB and Arrow. It brings its own provider: the next cell makes a small table and starts a server
for it. It needs `pip install 'distributary[server,pandas,polars,duckdb]'`.""",
    ),
    (
        "code",
        """import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from distributary.cli.sample_table import make_sample_table

make_sample_table(Path("lake/eu/orders"))
command = [sys.executable, "-m", "distributary", "serve", "lake", "--profile", "acme.share"]
with open("server.log", "wb") as log:
    server = subprocess.Popen([*command, "--port", "0", "--admin-port", "0"], stdout=log, stderr=log)


def answers():
    try:
        endpoint = json.loads(Path("acme.share").read_text())["endpoint"]
        return urlopen(endpoint.partition("/delta-sharing")[0] + "/healthz").status == 200
    except OSError:
        return False


deadline = time.monotonic() + 60
while not answers():
    assert time.monotonic() < deadline, Path("server.log").read_text()
    time.sleep(0.2)""",
    ),
    ("markdown", "## What is shared"),
    (
        "code",
        """from distributary.client import SharingClient

client = SharingClient("acme.share")
[f"{table.share}.{table.schema}.{table.name}" for table in client.list_all_tables()]""",
    ),
    (
        "code",
        """orders = client.table("lake.eu.orders")
print("version", orders.version())
orders.arrow_schema""",
    ),
    (
        "markdown",
        """## Rows

Nothing is asked for until a frame is. The predicate goes to the server as a hint, which spares files, and is
enforced here, exactly; of the files only the columns that you name are read.""",
    ),
    (
        "code",
        """rows = orders.snapshot().where("country = 'FR'", "amount > 100")
rows = rows.select("order_id", "customer", "amount")
rows.to_pandas().sort_values("order_id", ignore_index=True)""",
    ),
    (
        "code",
        """plan = rows.explain()
print(plan.needed_files, "of", plan.table_files, "files; hints:", plan.predicate_hints)""",
    ),
    (
        "markdown",
        """## Other frames

Arrow is what every frame is made of. Polars asks for the columns that a lazy query needs; DuckDB queries the
rows with SQL.""",
    ),
    (
        "code",
        """import polars as pl

lazy = orders.snapshot().to_lazy()
totals = lazy.group_by("country").agg(pl.len().alias("orders"), pl.col("amount").sum().alias("sum"))
totals.sort("country").collect().to_dicts()""",
    ),
    (
        "code",
        """shared_orders = orders.snapshot().to_duckdb()
shared_orders.aggregate("country, max(amount) AS highest", "country").order("country").fetchall()""",
    ),
    (
        "code",
        """batches = orders.snapshot().to_record_batches()  # as they come, in bounded memory
sum(batch.num_rows for batch in batches)""",
    ),
    ("markdown", "## Earlier versions, and what changed"),
    (
        "code",
        """versions = range(orders.version() + 1)
[orders.snapshot(version=version).to_arrow().num_rows for version in versions]""",
    ),
    (
        "code",
        """changes = orders.changes(starting_version=4).to_pandas()
changes.groupby(["_commit_version", "_change_type"]).size().to_dict()""",
    ),
    (
        "markdown",
        """## A copy of your own

`sync` makes a Delta table with the rows of the shared one, and brings it up to date whenever it is run
again.""",
    ),
    (
        "code",
        """first = orders.sync("copy")
again = orders.sync("copy")
print("version", first.shared_version, "with", first.added_files, "files")
print(again.downloaded_bytes, "bytes the second time")""",
    ),
    (
        "code",
        """client.close()
server.terminate()
server.wait() is not None""",
    ),
)


def render() -> str:
    """The notebook as text, with the outputs of a run of now."""
    cells, count = list[dict[str, Any]](), 0
    with _empty_folder():
        names: dict[str, Any] = {"__name__": "__main__"}
        try:
            for number, (kind, source) in enumerate(CELLS):
                cell = {
                    "cell_type": kind,
                    "id": f"cell-{number:02d}",
                    "metadata": {},
                    "source": _lines(source),
                }
                if kind == "code":
                    count += 1
                    cell |= {"execution_count": count, "outputs": _outputs(source, names, count)}
                cells.append(cell)
        finally:
            _stop(names)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run a cell, and give what it printed and what its last line is worth."""
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        found.append(
            {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        )
    return found


def _stop(names: dict[str, Any]) -> None:
    """End the server where a cell failed before it did."""
    server = names.get("server")
    if server is not None and server.poll() is None:
        server.kill()
        server.wait()


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    PAGE.write_text(render())
