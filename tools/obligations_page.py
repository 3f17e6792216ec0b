"""Write docs/obligations.md: which tests prove which obligation of the two protocols.

A test proves an obligation when its name, docstring or body cites the obligation's id. Run it with
`make pages` after adding tests; a test fails while the page is out of date.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "obligations.md"
OBLIGATION = re.compile(r"\b(?:DM|REST|FLT|RF|CAP|AM|PF|CL|LR|LW|CK|ST|SC|PV|CN|CDF|RET|C)-\d+\b")

HEADER = """\
# Obligations

Every rule of the protocols that this project keeps has an id; the tests that prove it cite that id. This page
is generated from the tests by `make pages`, and a test fails when it is out of date.

| Sections | Ids |
|---|---|
| Shares, schemas, tables and their names | `DM` |
| Server: requests, lists, tables | `REST` |
| Filtering | `FLT` |
| Response formats | `RF` |
| Capabilities | `CAP` |
| Access modes | `AM` |
| Profile files | `PF` |
| Client | `CL` |
| Delta log: reading | `LR` |
| Delta log: writing | `LW` |
| Delta log: checkpoints | `CK` |
| Statistics | `ST` |
| Schemas | `SC` |
| Partition values | `PV` |
| Constraints and table properties | `CN` |
| Change data feed | `CDF` |
| Retention | `RET` |
| Decisions where the texts contradict themselves | `C` |

"""


def cited_obligations(tests: Path) -> Mapping[str, list[str]]:
    """Find every obligation that a test cites, with the tests that cite it, both in order."""
    proofs: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text()
        for name, source in _tests_of(ast.parse(text), text):
            for obligation in sorted(set(OBLIGATION.findall(source))):
                proofs[obligation].append(f"{path.relative_to(tests.parent).as_posix()}::{name}")
    return dict(sorted(proofs.items(), key=lambda item: _order(item[0])))


def _tests_of(tree: ast.Module, text: str) -> Iterator[tuple[str, str]]:
    """Give each test's name and source; a class's own docstring counts for each of its tests."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            heading = ast.get_docstring(node) or ""
            for name, source in _functions(node.body, text):
                yield f"{node.name}::{name}", f"{heading}\n{source}"
    yield from _functions(tree.body, text)


def _functions(nodes: list[ast.stmt], text: str) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield node.name, "\n".join(lines[first - 1 : node.end_lineno])


def _order(obligation: str) -> tuple[str, int]:
    family, _, number = obligation.rpartition("-")
    return family, int(number)


def render(proofs: Mapping[str, list[str]]) -> str:
    """Write the page."""
    lines = [
        HEADER,
        f"{len(proofs)} obligations are proved by tests so far.\n",
        "| Id | Tests |",
        "|---|---|",
    ]
    for obligation, tests in proofs.items():
        lines.append(f"| {obligation} | {'<br>'.join(f'`{test}`' for test in tests)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page anew."""
    proofs = cited_obligations(PROJECT / "tests")
    PAGE.write_text(render(proofs))
    print(f"{PAGE.relative_to(PROJECT)}: {len(proofs)} obligations")


if __name__ == "__main__":
    main()
