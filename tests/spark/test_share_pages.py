"""The pages about shared tables on Spark: their examples run against a server, one page after the other."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from distributary.cli.sample_table import make_sample_table

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from scripted_server import scripted_server
from slow_workers import despite_slow_workers

DOCS = Path(__file__).resolve().parents[2] / "docs" / "client"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["spark", "streaming"])
def test_examples_of_a_page_run_in_order(page, spark, tmp_path):
    make_sample_table(tmp_path / "orders")
    profile = tmp_path / "acme.share"
    with scripted_server(tmp_path, "delta") as server:
        profile.write_text(json.dumps(server.profile))
        profile.chmod(0o600)
        names: dict[str, object] = {"__name__": "example", "spark": spark}
        for number, code in enumerate(BLOCK.findall((DOCS / f"{page}.md").read_text())):
            # Spark's workers were started elsewhere: they know no relative paths of this test.
            placed = code.replace("acme.share", str(profile)).replace("/data/", f"{tmp_path}/data/")
            made = compile(placed, f"{page}, example {number}", "exec")
            despite_slow_workers(partial(exec, made, names))
