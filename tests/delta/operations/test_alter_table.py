"""ALTER TABLE from end to end: real tables, real commits, read back."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import (
    AppendOnlyError,
    ConstraintViolationError,
    GeneratedColumnError,
    InvalidSchemaError,
    NotNullViolationError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    UnsupportedRuleError,
)
from distributary.delta.log.actions import Protocol, Remove
from distributary.delta.log.snapshot import load_snapshot
from distributary.delta.operations.alter_table import TableAlteration
from distributary.delta.operations.append import append
from distributary.delta.operations.create import execute_create, plan_create
from distributary.delta.operations.overwrite import overwrite
from distributary.delta.scan.table_scan import TableScan
from distributary.delta.schema.data_types import INTEGER, LONG, StructField, StructType
from distributary.errors import InvalidInputError, InvalidPredicateError, UnknownColumnError
from distributary.storage.object_store import open_store

DAY = datetime.date(2024, 1, 2)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("items", pa.list_(pa.struct([("k", pa.string())]))),
        ("day", pa.date32()),
    ]
)
ROWS: dict[str, list[Any]] = {
    "id": [1, 2],
    "n": [10, None],
    "s": [{"x": 1, "y": "a"}, None],
    "items": [[{"k": "q"}], None],
    "day": [DAY, DAY],
}


class Table:
    """A small table on disk, and what the tests ask of it."""

    def __init__(self, root: Path, schema: pa.Schema | StructType = SCHEMA, **options: Any) -> None:
        self.root = root
        self.store = open_store(str(root))
        execute_create(self.store, plan_create(self.store, schema, **options))
        self.alter = TableAlteration(self.store, self.snapshot)

    def snapshot(self) -> Any:
        return load_snapshot(self.store)

    @property
    def version(self) -> int:
        return self.snapshot().version

    @property
    def protocol(self) -> Protocol:
        return self.snapshot().protocol

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.snapshot().metadata.properties

    @property
    def schema(self) -> StructType:
        return self.snapshot().schema

    def append(self, rows: Mapping[str, Any] | pa.Table, **options: Any) -> None:
        data = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
        append(self.store, self.snapshot(), data, **options)

    def rows(self, *columns: str) -> list[dict[str, Any]]:
        scan = TableScan(self.snapshot(), self.store, columns=columns or None)
        found = pa.Table.from_batches(list(scan.batches()), scan.arrow_schema).to_pylist()
        return sorted(found, key=lambda row: str(row))

    def commit_info(self, version: int) -> dict[str, Any]:
        text = (self.root / "_delta_log" / f"{version:020d}.json").read_text()
        return json.loads(text.splitlines()[0])["commitInfo"]

    def data_files(self) -> set[str]:
        return {path.name for path in self.root.rglob("*.parquet") if "_delta_log" not in path.parts}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path / "t", partition_by=["day"])
    made.append(pa.table(ROWS, SCHEMA))
    return made


@pytest.fixture
def mapped(table: Table) -> Table:
    table.alter.set_properties({"delta.columnMapping.mode": "name"})
    return table


# --- columns


def test_added_columns_are_null_in_old_rows_and_stand_where_they_were_asked_to(table: Table) -> None:
    table.alter.add_column("price", "decimal(10,2)", comment="in euros", after="ID")
    table.alter.add_column("s.z", pa.int64(), first=True)
    table.alter.add_column("items.element.v", "map<string,int>")
    assert table.schema.names == ("id", "price", "n", "s", "items", "day")
    assert table.schema.field("price").comment == "in euros"
    assert table.rows()[0] == {
        "id": 1,
        "price": None,
        "n": 10,
        "s": {"z": None, "x": 1, "y": "a"},
        "items": [{"k": "q", "v": None}],
        "day": DAY,
    }
    info = table.commit_info(2)
    assert info["operation"] == "ADD COLUMNS"
    assert json.loads(info["operationParameters"]["columns"])[0]["column"]["name"] == "price"


@pytest.mark.parametrize(
    ("column", "error"),
    [
        ("ID", SchemaMismatchError),
        ("s.X", SchemaMismatchError),
        ("q.z", UnknownColumnError),
        ("id.z", UnknownColumnError),
        ("`a b`", InvalidSchemaError),
    ],
)
def test_column_that_cannot_be_added_is_refused_and_nothing_is_committed(
    table: Table, column: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        table.alter.add_column(column, "long")
    assert table.version == 1


def test_columns_of_files_are_renamed_and_dropped_only_with_column_mapping(table: Table) -> None:
    for act in (lambda: table.alter.rename_column("n", "m"), lambda: table.alter.drop_column("n")):
        with pytest.raises(SchemaMismatchError, match=r"delta\.columnMapping\.mode = name"):
            act()
    assert table.version == 1


def test_table_that_starts_to_map_columns_keeps_its_rows_and_gets_the_protocol(mapped: Table) -> None:
    assert mapped.protocol == Protocol(2, 5)
    assert mapped.configuration["delta.columnMapping.maxColumnId"] == "8"
    assert [row["id"] for row in mapped.rows()] == [1, 2]
    mapped.append(pa.table(ROWS, SCHEMA))
    assert [row["id"] for row in mapped.rows()] == [1, 1, 2, 2]


def test_renamed_columns_keep_their_values_in_old_and_new_files(mapped: Table) -> None:
    mapped.alter.rename_column("n", "count of things")
    mapped.alter.rename_column("s.x", "xx")
    mapped.alter.rename_column("items.element.k", "key")
    mapped.alter.rename_column("day", "date")
    mapped.append(
        {
            "id": [3],
            "count of things": pa.array([30], pa.int32()),
            "s": [{"xx": 3, "y": "c"}],
            "items": [[{"key": "r"}]],
            "date": [DAY],
        }
    )
    rows = mapped.rows()
    assert [(row["id"], row["count of things"]) for row in rows] == [(1, 10), (2, None), (3, 30)]
    assert [row["s"] and row["s"]["xx"] for row in rows] == [1, None, 3]
    assert [row["items"] and row["items"][0]["key"] for row in rows] == ["q", None, "r"]
    assert {row["date"] for row in rows} == {DAY}
    assert mapped.snapshot().metadata.partitioning == ("date",)
    info = mapped.commit_info(3)
    assert info["operation"] == "RENAME COLUMN"
    assert info["operationParameters"] == {"oldColumnPath": "n", "newColumnPath": "count of things"}


def test_dropped_column_is_gone_and_a_new_one_of_its_name_is_another(mapped: Table) -> None:
    mapped.alter.drop_column("n", "s.y")
    assert mapped.schema.names == ("id", "s", "items", "day")
    assert mapped.rows()[0]["s"] == {"x": 1}
    mapped.alter.add_column("n", "int")
    assert [row["n"] for row in mapped.rows()] == [None, None]
    assert mapped.configuration["delta.columnMapping.maxColumnId"] == "9"
    assert mapped.commit_info(3)["operation"] == "DROP COLUMNS"


def test_column_that_something_needs_is_neither_renamed_nor_dropped(mapped: Table) -> None:
    mapped.alter.add_constraint("small", "s.x < 100 OR s.x IS NULL")
    for act in (
        lambda: mapped.alter.rename_column("s.x", "z"),
        lambda: mapped.alter.rename_column("s", "z"),
        lambda: mapped.alter.drop_column("s"),
    ):
        with pytest.raises(SchemaMismatchError, match="CHECK constraint small needs it"):
            act()
    with pytest.raises(SchemaMismatchError, match="partitioned by it"):
        mapped.alter.drop_column("day")
    with pytest.raises(SchemaMismatchError, match="already"):
        mapped.alter.rename_column("n", "ID")
    mapped.alter.drop_column("s.y")
    mapped.alter.rename_column("n", "N")
    assert mapped.schema.names == ("id", "N", "s", "items", "day")


def test_columns_with_statistics_follow_renames_and_drops(mapped: Table) -> None:
    mapped.alter.set_properties({"delta.dataSkippingStatsColumns": "id, s.x, n"})
    mapped.alter.rename_column("s", "inner part")
    assert mapped.configuration["delta.dataSkippingStatsColumns"] == "id,`inner part`.x,n"
    mapped.alter.drop_column("inner part", "n")
    assert mapped.configuration["delta.dataSkippingStatsColumns"] == "id"
    with pytest.raises(InvalidInputError, match="does not have"):
        mapped.alter.set_properties({"delta.dataSkippingStatsColumns": "gone"})


def test_comment_and_place_of_a_column_change_nothing_else(table: Table) -> None:
    before = table.rows()
    table.alter.comment_column("s.x", "why")
    table.alter.move_column("day", first=True)
    table.alter.move_column("s.x", after="y")
    assert table.schema.names == ("day", "id", "n", "s", "items")
    assert [row["id"] for row in table.rows()] == [row["id"] for row in before]
    info = table.commit_info(3)
    assert info["operation"] == "CHANGE COLUMN"
    assert info["operationParameters"]["position"] == "FIRST"
    table.alter.comment_column("s.x", None)
    assert "comment" not in str(table.snapshot().metadata.schema_string)


def test_not_null_is_set_only_where_every_row_has_a_value(table: Table) -> None:
    for column, place in {"n": "n", "s": "s"}.items():
        with pytest.raises(NotNullViolationError) as caught:
            table.alter.set_not_null(column)
        assert caught.value.column == place
    table.alter.set_not_null("id")
    table.alter.set_not_null("s.x")
    with pytest.raises(NotNullViolationError, match="id"):
        table.append({"n": pa.array([1], pa.int32()), "day": [DAY]})
    with pytest.raises(NotNullViolationError, match=r"s\.x"):
        table.append({"id": [3], "s": [{"x": None, "y": "a"}], "day": [DAY]})
    table.alter.drop_not_null("s.x")
    table.append({"id": [3], "s": [{"x": None, "y": "a"}], "day": [DAY]})
    assert len(table.rows()) == 3


def test_column_is_widened_where_the_table_allows_it(table: Table) -> None:
    with pytest.raises(SchemaMismatchError, match=r"delta\.enableTypeWidening"):
        table.alter.widen_column("n", "long")
    table.alter.set_properties({"delta.enableTypeWidening": "true"})
    assert "typeWidening" in (table.protocol.reader_features or ())
    table.alter.widen_column("n", "long")
    table.alter.widen_column("s.x", pa.float64())
    table.append({"id": [3], "n": [2**40], "s": [{"x": 0.5, "y": None}], "day": [DAY]})
    assert [row["n"] for row in table.rows("id", "n")] == [10, None, 2**40]
    with pytest.raises(SchemaMismatchError, match="cannot become"):
        table.alter.widen_column("n", "int")


def test_default_fills_later_writes_only(table: Table) -> None:
    table.alter.set_default("n", "40 + 2")
    assert "allowColumnDefaults" in (table.protocol.writer_features or ())
    table.append({"id": [3], "day": [DAY]})
    assert [row["n"] for row in table.rows("id", "n")] == [10, None, 42]
    with pytest.raises(UnsupportedRuleError):
        table.alter.set_default("n", "my_udf()")
    table.alter.set_default("n", None)
    table.append({"id": [4], "day": [DAY]})
    assert table.rows("id", "n")[-1] == {"id": 4, "n": None}


# --- constraints


def test_constraint_is_added_only_when_every_row_satisfies_it(table: Table) -> None:
    """CN-030: adding validates what is there; later writes are held to it."""
    with pytest.raises(ConstraintViolationError, match="n = NULL"):
        table.alter.add_constraint("Small", "n < 100")
    assert table.version == 1
    text = "n < 100  or n IS NULL"
    table.alter.add_constraint("Small", text)
    assert table.configuration["delta.constraints.small"] == text
    assert table.protocol == Protocol(1, 3)
    assert table.commit_info(2)["operationParameters"] == {"name": "Small", "expr": text}
    before = table.data_files()
    with pytest.raises(ConstraintViolationError, match="n = 100"):
        table.append({"id": [3], "n": pa.array([100], pa.int32()), "day": [DAY]})
    assert table.data_files() == before
    with pytest.raises(InvalidInputError, match="already"):
        table.alter.add_constraint("SMALL", "n > 0")
    table.alter.drop_constraint("Small")
    table.append({"id": [3], "n": pa.array([100], pa.int32()), "day": [DAY]})
    assert [table.commit_info(v)["operation"] for v in (2, 3)] == ["ADD CONSTRAINT", "DROP CONSTRAINT"]


def test_constraint_that_is_none_is_refused(table: Table) -> None:
    for text in ("n + 1", "n >", "my_udf(n)", "n > rand()"):
        with pytest.raises(InvalidPredicateError):
            table.alter.add_constraint("c", text)
    with pytest.raises(UnknownColumnError):
        table.alter.add_constraint("c", "q > 1")
    with pytest.raises(InvalidInputError, match="no name"):
        table.alter.add_constraint("a.b", "n > 1")
    with pytest.raises(InvalidInputError, match="no constraint c"):
        table.alter.drop_constraint("c")
    table.alter.drop_constraint("c", if_exists=True)
    assert table.version == 1


def test_rows_that_come_while_a_constraint_is_checked_are_checked_too(table: Table) -> None:
    """CN-030: a constraint never rests on rows that were not looked at."""
    first = True

    def racing() -> Any:
        nonlocal first
        found = table.snapshot()
        if first:
            first = False
            table.append({"id": [9], "n": pa.array([500], pa.int32()), "day": [DAY]})
        return found

    with pytest.raises(ConstraintViolationError, match="n = 500"):
        TableAlteration(table.store, racing).add_constraint("small", "n < 100 OR n IS NULL")
    assert "delta.constraints.small" not in table.configuration


def test_change_is_planned_anew_on_what_another_writer_committed(table: Table) -> None:
    first = True

    def racing() -> Any:
        nonlocal first
        found = table.snapshot()
        if first:
            first = False
            table.alter.add_column("theirs", "int")
        return found

    TableAlteration(table.store, racing).add_column("ours", "int")
    assert {"theirs", "ours"} <= set(table.schema.names)


# --- rules, end to end through append


def rule_table(tmp_path: Path, **metadata: str) -> Table:
    columns = StructType(
        (StructField("a", LONG, True, dict(metadata)), StructField("b", LONG), StructField("i", INTEGER))
    )
    return Table(tmp_path / "rules", columns)


@pytest.mark.parametrize("text", ['{"expression":{"expression":"a > 0"}}', "a > 0"])
def test_append_that_breaks_an_invariant_adds_no_row_and_no_file(tmp_path: Path, text: str) -> None:
    """CN-010, CN-011, CN-012: false and null both abort the transaction."""
    table = rule_table(tmp_path, **{"delta.invariants": text})
    table.append({"a": [1]})
    before = table.data_files()
    for bad in (0, None):
        with pytest.raises(ConstraintViolationError):
            table.append({"a": pa.array([1, bad], pa.int64())})
    assert table.version == 1
    assert table.data_files() == before


def test_append_to_a_table_with_a_generated_column_computes_or_enforces_it(tmp_path: Path) -> None:
    """CN-020, CN-021."""
    table = rule_table(tmp_path, **{"delta.generationExpression": "b * 2"})
    assert table.protocol == Protocol(1, 4)
    table.append({"b": [1, None]})
    table.append({"a": [4], "b": [2]})
    with pytest.raises(GeneratedColumnError):
        table.append({"a": [5], "b": [2]})
    assert [(row["a"], row["b"]) for row in table.rows()] == [(2, 1), (4, 2), (None, None)]


def test_table_with_a_rule_that_cannot_be_evaluated_takes_no_rows(tmp_path: Path) -> None:
    """CN-050: the write is refused before anything is written, and names the expression."""
    table = rule_table(tmp_path)
    log = tmp_path / "rules" / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.constraints.c"] = "aggregate_udf(a) > 1"
    log.write_text("\n".join(json.dumps(line) for line in lines))
    with pytest.raises(UnsupportedRuleError, match="aggregate_udf\\(a\\) > 1"):
        table.append({"a": [1]})
    assert table.version == 0
    assert table.data_files() == set()


@pytest.mark.parametrize("key", ["delta.appendOnly", "appendOnly"])
def test_append_only_table_takes_rows_and_loses_none(tmp_path: Path, key: str) -> None:
    """CN-001, C-19: nothing that changes or removes data is committed."""
    table = Table(tmp_path / "t", pa.schema([("a", pa.int64())]), properties={key: "true"})
    table.append({"a": [1]})
    before = table.data_files()
    with pytest.raises(AppendOnlyError):
        overwrite(table.store, table.snapshot(), pa.table({"a": [2]}))
    table.append({"a": [3]})
    assert [row["a"] for row in table.rows()] == [1, 3]
    assert before <= table.data_files()
    table.alter.unset_properties(key)
    overwrite(table.store, table.snapshot(), pa.table({"a": [2]}))
    assert table.rows() == [{"a": 2}]


def test_append_only_table_may_be_rearranged(tmp_path: Path) -> None:
    """CN-002: `dataChange=false` on every file action; CN-001 holds for the same actions without it."""
    table = Table(tmp_path / "t", pa.schema([("a", pa.int64())]), properties={"delta.appendOnly": "true"})
    table.append({"a": [1]})
    (add,) = table.snapshot().last_commit.adds
    moved = f"moved-{add.path}"
    (table.root / add.path).rename(table.root / moved)
    for data_change in (True, False):
        actions = (
            Remove(add.path, data_change, deletion_timestamp=1),
            msgspec.structs.replace(add, path=moved, data_change=data_change),
        )
        staged = StagedCommit(Operation("OPTIMIZE"), actions)
        if data_change:
            with pytest.raises(AppendOnlyError):
                commit(table.store, table.snapshot(), staged)
        else:
            commit(table.store, table.snapshot(), staged)
    assert table.rows() == [{"a": 1}]
    assert table.version == 2


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 8},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTheFuture"]},
    ],
)
def test_table_of_an_unsupported_writer_is_neither_altered_nor_appended_to(
    tmp_path: Path, protocol: dict[str, Any]
) -> None:
    """LW-010: `minWriterVersion` and the features of the protocol are obeyed."""
    table = Table(tmp_path / "t", pa.schema([("a", pa.int64())]))
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [{"protocol": protocol} if "protocol" in line else line for line in lines]
    log.write_text("\n".join(json.dumps(line) for line in lines))
    acts: list[Callable[[], object]] = [
        lambda: table.append({"a": [1]}),
        lambda: table.alter.add_column("b", "int"),
        lambda: table.alter.set_properties({"x": "y"}),
    ]
    for act in acts:
        with pytest.raises(UnsupportedFeatureError):
            act()
    assert table.version == 0
    assert table.data_files() == set()


# --- properties and features


def test_property_that_needs_a_feature_upgrades_the_protocol_by_just_that(table: Table) -> None:
    """LW-011."""
    table.alter.set_properties({"delta.enableChangeDataFeed": "true"})
    assert table.protocol == Protocol(1, 4)
    table.alter.set_properties({"Delta.EnableDeletionVectors": "true", "mine": "x"})
    assert table.configuration["delta.enableDeletionVectors"] == "true"
    assert table.configuration["mine"] == "x"
    assert table.protocol.reader_features == ("deletionVectors",)
    legacy = {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}
    assert set(table.protocol.writer_features or ()) == legacy | {"deletionVectors"}
    table.alter.set_properties({"delta.checkpointPolicy": "v2"})
    assert "v2Checkpoint" in (table.protocol.reader_features or ())
    table.append(pa.table(ROWS, SCHEMA))
    assert len(table.rows()) == 4


def test_in_commit_timestamps_say_since_when_they_hold(table: Table) -> None:
    table.alter.set_properties({"delta.enableInCommitTimestamps": "true"})
    info = table.commit_info(2)
    assert table.configuration["delta.inCommitTimestampEnablementVersion"] == "2"
    assert table.configuration["delta.inCommitTimestampEnablementTimestamp"] == str(info["inCommitTimestamp"])
    table.alter.unset_properties("delta.enableInCommitTimestamps")
    assert not any("inCommitTimestamp" in key for key in table.configuration)


def test_feature_and_versions_are_asked_for_and_not_stored(table: Table) -> None:
    table.alter.set_properties({"delta.minWriterVersion": "3", "comment": "about"})
    assert table.protocol == Protocol(1, 3)
    assert table.snapshot().metadata.description == "about"
    table.alter.set_properties({"delta.feature.domainMetadata": "supported"})
    assert "domainMetadata" in (table.protocol.writer_features or ())
    assert not any(key.startswith(("delta.feature", "delta.min")) for key in table.configuration)
    table.alter.add_feature("vacuumProtocolCheck")
    info = table.commit_info(4)
    assert info["operation"] == "UPGRADE PROTOCOL"
    assert "vacuumProtocolCheck" in json.loads(info["operationParameters"]["newProtocol"])["readerFeatures"]
    assert table.alter.add_feature("vacuumProtocolCheck").version == 4


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"delta.checkpointIntervall": "1"}, "Did you mean delta.checkpointInterval"),
        ({"delta.checkpointInterval": "often"}, "whole number"),
        ({"delta.constraints.c": "n > 0"}, "add_constraint"),
        ({"delta.columnMapping.maxColumnId": "7"}, "kept by the table"),
        ({"delta.inCommitTimestampEnablementVersion": "7"}, "kept by the table"),
        ({"delta.columnMapping.mode": "id"}, "from none to id"),
        ({"delta.feature.domainMetadata": "maybe"}, "supported"),
        ({"delta.minWriterVersion": "7"}, "name those"),
        ({"": "x"}, "needs a name"),
    ],
)
def test_property_that_cannot_be_set_is_refused(
    table: Table, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        table.alter.set_properties(properties)
    assert table.version == 1


def test_feature_that_we_cannot_write_is_not_switched_on(table: Table) -> None:
    acts: list[Callable[[], object]] = [
        lambda: table.alter.add_feature("catalogManaged"),
        lambda: table.alter.add_feature("madeUp"),
        lambda: table.alter.add_feature("collations"),
        lambda: table.alter.set_properties({"delta.enableRowTracking": "true"}),
    ]
    for act in acts:
        with pytest.raises(UnsupportedFeatureError):
            act()
    assert table.version == 1


def test_columns_that_are_mapped_stay_mapped(mapped: Table) -> None:
    for act in (
        lambda: mapped.alter.unset_properties("delta.columnMapping.mode"),
        lambda: mapped.alter.set_properties({"delta.columnMapping.mode": "none"}),
        lambda: mapped.alter.set_properties({"delta.columnMapping.mode": "id"}),
    ):
        with pytest.raises(InvalidInputError, match="cannot go from name"):
            act()


def test_property_is_unset_and_a_missing_one_is_named(table: Table) -> None:
    table.alter.set_properties({"delta.checkpointInterval": "5", "mine": "x"})
    table.alter.unset_properties("delta.checkpointinterval", "mine")
    assert "delta.checkpointInterval" not in table.configuration
    with pytest.raises(InvalidInputError, match="no property mine"):
        table.alter.unset_properties("mine")
    assert table.alter.unset_properties("mine", if_exists=True).version == 3
    assert table.commit_info(3)["operation"] == "UNSET TBLPROPERTIES"


def test_name_and_description_are_set_and_taken_away(table: Table) -> None:
    table.alter.set_name("orders")
    table.alter.set_comment("all of them")
    metadata = table.snapshot().metadata
    assert (metadata.name, metadata.description) == ("orders", "all of them")
    table.alter.set_comment(None)
    assert table.snapshot().metadata.description is None


def test_dry_run_shows_the_plan_and_commits_nothing(table: Table) -> None:
    planned = table.alter.dry_run().set_properties({"delta.enableDeletionVectors": "true"})
    assert "SET TBLPROPERTIES" in str(planned)
    assert "reader 3, writer 7 (deletionVectors" in str(planned)
    with pytest.raises(ConstraintViolationError):
        table.alter.dry_run().add_constraint("c", "n > 10")
    assert table.version == planned.version == 1


def test_change_that_changes_nothing_commits_nothing(table: Table) -> None:
    table.alter.drop_not_null("id")
    table.alter.comment_column("id", None)
    table.alter.move_column("id", first=True)
    table.alter.widen_column("n", "int")
    assert table.version == 1
    assert "nothing to change" in str(table.alter.drop_not_null("id"))
