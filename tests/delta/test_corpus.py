"""Every third-party table of the corpus behaves as its expectation says.

Rows and content hash for tables marked `ok` (older versions and change feeds too), the state
of the log for `log_only`, refusal for `error`. Contested tables follow their note: the rows
recorded there are the ones of the reader that the note sides with. The closing summary counts
what passed of each kind.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.data_types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
    schema_to_json,
)

# Its note: the compacted logs are wrong, so what delta-spark recorded by them (files, version 12) is too.
_COMPACTED_WRONGLY = "kernelrs__compacted-log-files-table"
# Its note: the column of type void is null in every row; the recording leaves the column out.
_WITH_VOID = "kernelrs__void-column"
# The recorded feed misses a row that a commit deletes while it restores others; the versions recorded
# beside it show the row going and coming back. So the feed is held against the versions.
_FEED_BY_VERSIONS = "kernelrs__cdf-table-with-dv"


def _names() -> list[str]:
    folder = Path(os.environ.get("DISTRIBUTARY_SHARED", Path(__file__).parents[3] / "shared"))
    manifest = folder / "tables" / "MANIFEST.json"
    if not manifest.is_file():
        return []
    return [table["name"] for table in json.loads(manifest.read_text())["tables"]]


class Corpus:
    """One table of the corpus with what a correct reader returns."""

    def __init__(self, name: str, tables: Path, expected: Path, canonical: ModuleType) -> None:
        self.name = name
        self.path = tables / name
        self.expected: dict[str, Any] = json.loads((expected / f"{name}.json").read_text())
        self._canonical = canonical

    @property
    def kind(self) -> str:
        return self.expected["expect"] + (" (contested)" if self.expected.get("contested") else "")

    def open(self) -> ds.DeltaTable:
        return ds.DeltaTable(self.path)

    def content(self, table: pa.Table, variants: StructType | None = None) -> tuple[int, str]:
        """The number of rows and the order-insensitive hash of a table."""
        names = self.expected.get("variant_columns", ())
        for name in names:
            values = _variant_texts(table.column(name).to_pylist(), variants.field(name).data_type)
            table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
        found, _ = self._canonical.canon(table, json_cols=names)
        return found["rows"], found["sha256"]


def _variant_texts(values: list[Any], data_type: DataType) -> list[str | None]:
    return [None if value is None else json.dumps(_plain(value, data_type)) for value in values]


def _plain(value: Any, data_type: DataType) -> Any:
    """A column that holds a variant somewhere, as one JSON value: null members of structs are left out."""
    if value is None:
        return None
    match data_type:
        case StructType():
            members = {field.name: _plain(value[field.name], field.data_type) for field in data_type.fields}
            return {name: member for name, member in members.items() if member is not None}
        case ArrayType():
            return [_plain(item, data_type.element_type) for item in value]
        case MapType():
            return {key: _plain(item, data_type.value_type) for key, item in value}
    return json.loads(value) if str(data_type) == "variant" else value


@pytest.fixture(scope="session")
def canonical_rows(shared_dir: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "canonical_rows", shared_dir / "tables" / "canonical_rows.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=_names() or ["(no corpus)"])
def corpus(
    request: pytest.FixtureRequest,
    delta_tables: Any,
    canonical_rows: ModuleType,
    record_property: Any,
) -> Corpus:
    table = Corpus(request.param, delta_tables.tables, delta_tables.expected, canonical_rows)
    record_property("corpus", table.kind)
    return table


def test_table_of_the_corpus_reads_as_its_expectation_says(corpus: Corpus) -> None:
    """LR-002, LR-005, LR-007, LR-020, LR-024, LR-026, LR-028, LR-029, LR-052: real tables of many engines."""
    if corpus.expected["expect"] == "error":
        with pytest.raises(ds.DistributaryError):
            corpus.open().snapshot().to_arrow()
        return
    _check_log(corpus)
    if corpus.expected["expect"] == "ok":
        _check_rows(corpus)
        _check_versions(corpus)
        _check_changes(corpus)


def _check_log(corpus: Corpus) -> None:
    expected = corpus.expected
    snapshot = corpus.open().snapshot()
    assert snapshot.version == expected["version"]
    assert snapshot.metadata.id == expected["metadata_id"]
    assert list(snapshot.metadata.partitioning) == expected["partition_columns"]
    assert snapshot.protocol.min_reader_version == expected["protocol"]["minReaderVersion"]
    assert snapshot.protocol.min_writer_version == expected["protocol"]["minWriterVersion"]
    if snapshot.metadata.schema_string is not None:
        assert json.loads(schema_to_json(snapshot.schema)) == expected["schema"]
        assert delta_schema(snapshot.arrow_schema).names == snapshot.schema.names
    if corpus.name == _COMPACTED_WRONGLY:
        return
    assert snapshot.num_files() == expected["num_files"]
    vectors = snapshot.state.files.deletion_vectors()
    if "num_files_with_dv" in expected:
        assert sum(vector is not None for vector in vectors) == expected["num_files_with_dv"]
    sizes = sorted(snapshot.state.files.column("size").to_pylist())
    if expected["num_files"] == len(expected.get("files") or ()):
        assert sizes == sorted(file["size"] for file in expected["files"])


def _check_rows(corpus: Corpus) -> None:
    expected = corpus.expected
    snapshot = corpus.open().snapshot()
    table = snapshot.to_arrow()
    if corpus.name == _WITH_VOID:
        assert table.column("void_col").null_count == table.num_rows
        table = table.drop_columns(["void_col"])
    assert table.column_names == expected["columns"]
    assert corpus.content(table, snapshot.schema) == (expected["rows"], expected["content_sha256"])
    assert snapshot.count() == expected["rows"]


def _check_versions(corpus: Corpus) -> None:
    for number, expected in (corpus.expected.get("versions") or {}).items():
        if "error" in expected or "sha256" not in expected:
            continue
        if corpus.name == _COMPACTED_WRONGLY and expected["by"].startswith("delta-spark"):
            continue
        snapshot = corpus.open().snapshot(version=int(number))
        if corpus.expected.get("variant_columns") and not expected["by"].startswith("delta-spark"):
            assert snapshot.count() == expected["rows"]  # recorded as raw bytes, not as values
            continue
        found = corpus.content(snapshot.to_arrow(), snapshot.schema)
        assert found == (expected["rows"], expected["sha256"]), f"version {number}"


def _check_changes(corpus: Corpus) -> None:
    expected = corpus.expected.get("cdf")
    if not expected or "error" in expected:
        return
    if corpus.name == _FEED_BY_VERSIONS:
        _check_feed_by_versions(corpus.open())
        return
    changes = corpus.open().changes(expected["starting_version"], expected["ending_version"])
    table = changes.to_arrow().drop_columns(["_commit_timestamp"])
    assert table.column_names == expected["columns"]
    assert corpus.content(table) == (expected["rows"], expected["sha256"])


def _check_feed_by_versions(table: ds.DeltaTable) -> None:
    """Each version is the one before it, less the deletes, plus the inserts."""
    rows = Counter[int]()
    for version in range(table.version() + 1):
        for change in table.changes(version, version).to_arrow().to_pylist():
            rows[change["value"]] += 1 if change["_change_type"] == "insert" else -1
        expected = table.snapshot(version=version).to_arrow().column("value").to_pylist()
        assert +rows == Counter(expected)
