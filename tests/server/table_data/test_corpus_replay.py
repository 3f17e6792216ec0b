"""Tables of other writers, served and read back as clients do: the rows are those of the table.

The answer to a query is written into a local log, as clients of the delta format do (RF-067), and read with
the engine; what a correct reader returns for each table comes with the corpus.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from distributary import DeltaTable
from distributary.errors import DistributaryError
from distributary.sharing.error_response import SharingError

EVERYTHING = (
    "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping,timestampntz,typewidening,"
    "varianttype,variantshredding"
)


@pytest.fixture(scope="module")
def canonical_rows(shared_dir: Path):
    """How rows of the corpus are compared."""
    spec = importlib.util.spec_from_file_location(
        "canonical_rows", shared_dir / "tables" / "canonical_rows.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def readable(expected: Path) -> list[str]:
    names = []
    for path in sorted(expected.glob("*.json")):
        facts = json.loads(path.read_text())
        if (
            facts["expect"] == "ok"
            and not facts.get("contested")
            and facts["num_files"] <= 100
            and facts["rows"] <= 1_000
        ):
            names.append(path.stem)
    return names


def replayed(answer, folder: Path, root: Path) -> DeltaTable:
    """A local table whose log is the answer."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    lines = []
    for line in answer.lines:
        if "protocol" in line:
            found = line["protocol"]
            lines.append(
                {"protocol": found.get("deltaProtocol", {"minReaderVersion": 1, "minWriterVersion": 2})}
            )
        elif "metaData" in line:
            found = line["metaData"]
            keys = ("id", "format", "schemaString", "partitionColumns", "configuration")
            plain = {key: found[key] for key in keys if key in found}
            lines.append({"metaData": found.get("deltaMetadata", plain)})
        else:
            file = line["file"]
            action = file.get("deltaSingleAction") or {
                "add": {
                    "path": file["url"],
                    "partitionValues": file["partitionValues"],
                    "size": file["size"],
                    "modificationTime": 0,
                    "dataChange": True,
                    **({"stats": file["stats"]} if "stats" in file else {}),
                }
            }
            lines.append(action)
    (log / f"{0:020d}.json").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return DeltaTable(folder, allowed_roots=[str(root)])


class FileUrls:
    """URLs that are places on this disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def sign(self, paths):
        urls = [
            path if "://" in path else f"file://{quote(str(self.root))}/{quote(path)}"
            for path in paths.to_pylist()
        ]
        return pa.array(urls, pa.string()), 1


def test_every_table_of_the_corpus_reads_the_same_through_the_wire(
    provider, delta_tables, tmp_path, canonical_rows
):
    """RF-060 to RF-067, REST-176, CAP-005: deletion vectors, column mapping, odd paths and types."""
    provider.folder = delta_tables.tables
    found = {"parquet": 0, "delta": 0}
    wrong: dict[str, str] = {}
    for name in readable(delta_tables.expected):
        root = delta_tables.tables / name
        provider.urls = FileUrls(root)
        try:
            rows = DeltaTable(root).snapshot().to_arrow()
        except DistributaryError:  # a table that the engine refuses, for reasons of its own
            continue
        try:
            answer = provider.query(name, {}, EVERYTHING)
            shown = replayed(answer, tmp_path / name, root).snapshot().to_arrow()
        except DistributaryError as error:
            wrong[name] = repr(error)
            continue
        found[answer.answer.response_format] += 1
        if shown.schema.names != rows.schema.names:
            wrong[name] = f"columns {shown.schema.names}"
        elif canonical_rows.canon(shown) != canonical_rows.canon(rows):
            wrong[name] = "other rows"
    assert wrong == {}
    assert found["parquet"] > 50
    assert found["delta"] > 20


def test_every_table_of_the_corpus_is_answered_or_refused_in_the_protocols_words(provider, delta_tables):
    """REST-005, REST-018: whatever a log holds, no answer is an unexpected failure or names a place."""
    provider.folder = delta_tables.tables
    answered, telling = 0, []
    for root in sorted(delta_tables.tables.iterdir()):
        for ask in (
            lambda name=root.name: provider.query(name, {"maxFiles": 3}, EVERYTHING),
            lambda name=root.name: provider.query(name, {"startingVersion": 0}, EVERYTHING),
            lambda name=root.name: provider.changes(name, {"startingVersion": 0}, EVERYTHING),
        ):
            try:
                answered += len(ask().lines) > 0
            except SharingError as error:
                telling += [str(error)] if str(delta_tables.tables) in str(error) else []
    assert telling == []
    assert answered > 250
