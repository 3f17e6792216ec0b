"""Third-party tables read through Spark give the rows that the engine gives.

What the engine gives is held against the recorded rows in tests/delta/test_corpus.py. A run takes a third of
the tables, always the same; DISTRIBUTARY_WHOLE_CORPUS=1 takes all.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.spark import read_table

sys.path.insert(0, str(Path(__file__).parent))

from corpus_frames import arrow_rows, plain_variants, with_variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = 6
_FEW_ROWS = 3_000
# Features of reading that must be in every run, whatever the sample is.
ALWAYS = (
    "dat__all_primitive_types",
    "dat__nested_types",
    "golden__data-reader-partition-values",
    "golden__table-with-columnmapping-mode-id",
    "golden__type-widening",
    "kernelrs__partition_cm.name",
    "kernelrs__void-column",
    "kernelrs__with-short-dv",
    "kjava__column-mapping-id",
    "kjava__spark-shredded-variant-preview-delta",
    "spark__partitioned-table-with-dv-large",
    "trino__databricks122.deletion_vectors",
    "trino__databricks153.type_widening",
    "trino__databricks153.type_widening_partition",
    "trino__databricks153.variant",
    "golden__data-reader-escaped-chars",
    "golden__hive.deltatbl-special-chars-in-partition-column",
)


def _chosen(folder: Path) -> list[str]:
    listed = json.loads((folder / "tables" / "MANIFEST.json").read_text())["tables"]
    names = [table["name"] for table in listed]
    if os.environ.get("DISTRIBUTARY_WHOLE_CORPUS"):
        return names
    return [name for at, name in enumerate(names) if name in ALWAYS or at % 3 == 0]


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


@pytest.mark.parametrize("group", range(GROUPS))
def test_tables_of_the_corpus_read_as_the_engine_reads_them(
    spark: SparkSession, shared_dir: Path, delta_tables: Any, canonical_rows: ModuleType, group: int
) -> None:
    """LR-004, LR-029, LR-052: files, deletion vectors, mapped, missing, widened and partition columns."""
    wrong: list[str] = []
    for name in _chosen(shared_dir)[group::GROUPS]:
        expected = json.loads((delta_tables.expected / f"{name}.json").read_text())
        if expected["expect"] == "ok" and not _same(spark, delta_tables.tables / name, canonical_rows):
            wrong.append(name)
    assert wrong == []


def _same(spark: SparkSession, path: Path, canonical_rows: ModuleType) -> bool:
    snapshot = ds.DeltaTable(path).snapshot()
    variants = with_variant(snapshot.schema)
    engine = snapshot.to_arrow()
    found = arrow_rows(read_table(spark, str(path)), snapshot.arrow_schema, variants)
    if engine.num_rows > _FEW_ROWS:
        order = [(name, "ascending") for name in engine.column_names]
        return found.sort_by(order).equals(engine.sort_by(order).cast(found.schema))
    for name in variants:
        texts = plain_variants(engine.column(name).to_pylist(), snapshot.schema.field(name).data_type)
        engine = engine.set_column(engine.column_names.index(name), name, pa.array(texts, pa.string()))
    return (
        canonical_rows.canon(found, json_cols=variants)[0]
        == (canonical_rows.canon(engine, json_cols=variants)[0])
    )
