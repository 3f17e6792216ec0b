"""Checkpoints that we write hold the state of their version, whatever their kind and whoever reads them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import hypothesis.strategies as st
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distributary as ds
from distributary.delta.errors import DeltaError, UnsupportedFeatureError
from distributary.delta.log.checkpoint_writer import CheckpointInfo, write_checkpoint
from distributary.delta.log.last_checkpoint import hint_checksum, read_last_checkpoint
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.table_features import FEATURES, FeatureKind, supported_feature_names
from distributary.errors import InvalidInputError, ObjectNotFoundError
from distributary.storage import open_store

KINDS = ["single", "multi-part", "v2", "v2-json"]
NOW = 1_700_000_100_000
DAY = 24 * 60 * 60 * 1000
_MANY_ROWS = 20_000


def _write(snapshot: Snapshot, kind: str, **options: Any) -> CheckpointInfo:
    store = open_store(snapshot.root)
    if kind == "v2-json":
        return write_checkpoint(store, snapshot, kind="v2", top_format="json", **options)
    return write_checkpoint(store, snapshot, kind=kind, **options)  # type: ignore[arg-type]


def _state(snapshot: Snapshot, since: int) -> dict[str, Any]:
    """All that a checkpoint must keep, with the forms of statistics made equal."""
    metadata = snapshot.metadata
    adds = [_plain(add) for add in snapshot.files.adds()]
    removes = [_plain(remove) for remove in snapshot.tombstones() if (remove.deletion_timestamp or 0) > since]
    for remove in removes:
        remove.pop("tags", None)
        remove.pop("stats", None)
    return {
        "version": snapshot.version,
        "protocol": snapshot.protocol,
        "metadata": (metadata.id, metadata.name, metadata.description, metadata.format.provider),
        "table": (metadata.schema_string, metadata.partitioning, metadata.properties, metadata.created_time),
        "adds": sorted(adds, key=repr),
        "removes": sorted(removes, key=repr),
        "transactions": dict(snapshot.transactions),
        "domains": dict(snapshot.domains),
    }  # fmt: skip


def _plain(action: Any) -> dict[str, Any]:
    fields = msgspec.to_builtins(action)
    fields.pop("dataChange")
    return {name: value for name, value in fields.items() if value not in (None, {})}


def _only_this_checkpoint(table: Path, info: CheckpointInfo) -> None:
    """Take away every log file that a reader of the checkpoint's version does not need."""
    kept = {table / path for path in info.paths}
    for path in (table / "_delta_log").rglob("*"):
        if path.is_file() and path not in kept and path.name != "_last_checkpoint":
            path.unlink()


def _copy(source: Path, target: Path) -> Path:
    """A copy whose log may be changed; data files are linked."""
    shutil.copytree(source, target, copy_function=os.link, ignore=shutil.ignore_patterns("_delta_log"))
    shutil.copytree(source / "_delta_log", target / "_delta_log")
    for folder, _, _ in os.walk(target):
        os.chmod(folder, 0o755)
    return target


def _with_v2_feature(table: Path) -> None:
    """Commit a protocol that supports v2 checkpoints, listing all that the old one implied."""
    snapshot = load_snapshot(open_store(str(table)))
    old = snapshot.protocol
    names = supported_feature_names(
        old.min_reader_version, old.min_writer_version, old.reader_features, old.writer_features
    ) | {"v2Checkpoint"}
    if not names <= set(FEATURES):
        raise UnsupportedFeatureError("a feature that nobody knows")
    both = sorted(name for name in names if FEATURES[name].kind is FeatureKind.READER_WRITER)
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": both, "writerFeatures": sorted(names),
    }  # fmt: skip
    line = json.dumps({"protocol": protocol}) + "\n"
    info = {"inCommitTimestamp": NOW * 2, "timestamp": NOW * 2, "operation": "UPGRADE PROTOCOL"}
    text = json.dumps({"commitInfo": info}) + "\n" + line
    (table / "_delta_log" / f"{snapshot.version + 1:020d}.json").write_text(text)


def _corpus_names() -> list[str]:
    folder = Path(os.environ.get("DISTRIBUTARY_SHARED", Path(__file__).parents[4] / "shared"))
    manifest = folder / "tables" / "MANIFEST.json"
    if not manifest.is_file():
        return []
    return [table["name"] for table in json.loads(manifest.read_text())["tables"]]


@pytest.fixture(scope="session")
def canonical_rows(shared_dir: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("canon", shared_dir / "tables" / "canonical_rows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("at", "name"), list(enumerate(_corpus_names() or ["(no corpus)"])))
def test_table_of_the_corpus_reads_the_same_from_its_checkpoint_alone(
    at: int, name: str, delta_tables: Any, canonical_rows: ModuleType, tmp_path: Path
) -> None:
    """CK-003, CK-004, CK-005, CK-009: the log before the checkpoint is gone, state and rows are the same.

    Every table gets a single-file checkpoint, and one of the other kinds in turn.
    """
    expected = json.loads((delta_tables.expected / f"{name}.json").read_text())
    if expected["expect"] != "ok":
        return
    _checkpointed_alone(_copy(delta_tables.tables / name, tmp_path / "single"), "single")
    table = _copy(delta_tables.tables / name, tmp_path / "other")
    if _checkpointed_alone(table, KINDS[1 + at % 3]) and _is_comparable(expected):
        content, _ = canonical_rows.canon(ds.DeltaTable(table).snapshot().to_arrow())
        assert (content["rows"], content["sha256"]) == (expected["rows"], expected["content_sha256"])


def _is_comparable(expected: dict[str, Any]) -> bool:
    """Rows can be hashed as they are, and quickly: no dispute about them, no variant or void column."""
    special = expected.get("contested") or expected.get("variant_columns") or expected["rows"] > _MANY_ROWS
    return not special and "void" not in json.dumps(expected["schema"])


def _checkpointed_alone(table: Path, kind: str) -> bool:
    """Write a checkpoint and take the rest of the log away; false where the table cannot be written."""
    try:
        if kind.startswith("v2"):
            _with_v2_feature(table)
        snapshot = load_snapshot(open_store(str(table)))
        if kind == "multi-part" and "v2Checkpoint" in (snapshot.protocol.writer_features or ()):
            return True
        if any("%" in value for value in snapshot.metadata.properties.values()):
            return False  # a template whose properties were never filled in
        retention = round(snapshot.properties.deleted_file_retention.total_seconds() * 1000)
        info = _write(snapshot, kind, parts=None if kind == "single" else 2, now=NOW + retention)
    except UnsupportedFeatureError:
        return False
    before = _state(snapshot, NOW)
    if info.written:
        _only_this_checkpoint(table, info)
    after = _state(load_snapshot(open_store(str(table))), 0 if info.written else NOW)
    if not snapshot.properties.write_stats_as_json or any("stats" not in add for add in before["adds"]):
        for add in (*before["adds"], *after["adds"]):
            add.pop("stats", None)
    assert after == before
    return True


_PEER = """
import importlib.util, json, sys
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
spec = importlib.util.spec_from_file_location("canon", sys.argv[1])
canon = importlib.util.module_from_spec(spec)
spec.loader.exec_module(canon)

def content(path):
    try:
        rows = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t")
        found, _ = canon.canon(pa.table(rows.read_all()))
        return [found["rows"], found["sha256"]]
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

print(json.dumps([[content(path) for path in pair] for pair in json.load(sys.stdin)]))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_deltalake_reads_the_same_rows_from_our_checkpoint(
    kind: str, delta_tables: Any, shared_dir: Path, peer_python: Path, tmp_path: Path
) -> None:
    """CK-003, CK-008, CK-013: each table of the corpus that the peer can read, from our checkpoint alone."""
    names = [name for name in _corpus_names()[KINDS.index(kind) :: len(KINDS)] if "clone" not in name]
    pairs = [(str(delta_tables.tables / name), str(tmp_path / name)) for name in names]
    pairs = [pair for pair in pairs if _prepared_for_peer(Path(pair[0]), Path(pair[1]), kind)]
    command = [str(peer_python), "-c", _PEER, str(shared_dir / "tables" / "canonical_rows.py")]
    answer = subprocess.run(command, input=json.dumps(pairs), capture_output=True, text=True, check=True)
    found = zip(pairs, json.loads(answer.stdout), strict=True)
    comparable = [(pair[1], before, after) for pair, (before, after) in found if isinstance(before, list)]
    assert [(path, after) for path, before, after in comparable if before != after] == []
    assert len(comparable) >= 10


def _prepared_for_peer(source: Path, table: Path, kind: str) -> bool:
    expected = json.loads((source.parent.parent / "expected" / f"{source.name}.json").read_text())
    readable = expected["expect"] == "ok" and expected["rows"] <= _MANY_ROWS
    return readable and _checkpointed_alone(_copy(source, table), kind)


def _rows_of(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist(maps_as_pydicts="strict")


def _actions(path: Path, kind: str) -> list[dict[str, Any]]:
    return [row[kind] for row in _rows_of(path) if row.get(kind) is not None]


def _flip_a_path(path: Path) -> None:
    """Flip one bit in the last page of a column of paths."""
    footer = pq.read_metadata(path)
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    (chunk, *_) = [c for c in chunks if c.path_in_schema == "add.path" and c.statistics.has_min_max]
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start + chunk.total_compressed_size - 2] ^= 1
    path.write_bytes(bytes(data))


class TestContents:
    """What stands in the files."""

    def test_each_row_is_one_action(self, busy_log: Any) -> None:
        """CK-008, CK-009, CK-013, C-20, C-21: every kind of action, each in its column."""
        info = _write(busy_log.load(), "single", now=NOW)
        assert info.paths == ("_delta_log/00000000000000000010.checkpoint.parquet",)
        rows = _rows_of(busy_log.root / info.paths[0])
        assert all(sum(value is not None for value in row.values()) == 1 for row in rows)
        assert {name for row in rows for name, value in row.items() if value is not None} == {
            "protocol", "metaData", "txn", "domainMetadata", "add", "remove",
        }  # fmt: skip
        kinds = pq.read_schema(busy_log.root / info.paths[0])
        assert kinds.field("add").type.field("stats").type == pa.string()
        assert kinds.field("metaData").type.field("schemaString").type == pa.string()
        assert all(txn["lastUpdated"] is not None for txn in _actions(busy_log.root / info.paths[0], "txn"))

    def test_data_change_is_false_and_removes_have_no_statistics(self, busy_log: Any) -> None:
        """CK-017."""
        path = busy_log.root / _write(busy_log.load(), "single", now=NOW).paths[0]
        files = _actions(path, "add") + _actions(path, "remove")
        assert {file["dataChange"] for file in files} == {False}
        assert not {"stats", "tags"} & set(_actions(path, "remove")[0])

    def test_tombstone_stays_until_it_expires(self, log: Any) -> None:
        """RET-002, RET-003, C-16: kept while the deletion plus the retention is later than now."""
        log.create(
            log.add("a"), log.add("b"), configuration={"delta.deletedFileRetentionDuration": "interval 1 day"}
        )
        log.commit(log.remove("a", deletionTimestamp=NOW), log.remove("b", deletionTimestamp=NOW + 1))
        path = log.root / _write(log.load(), "single", now=NOW + DAY).paths[0]
        assert [remove["path"] for remove in _actions(path, "remove")] == ["b"]

    def test_retention_of_removed_files_is_a_week_unless_set(self, log: Any) -> None:
        """RET-003."""
        log.create(log.add("a"), log.add("b"))
        log.commit(log.remove("a", deletionTimestamp=NOW), log.remove("b", deletionTimestamp=NOW + 1))
        path = log.root / _write(log.load(), "single", now=NOW + 7 * DAY).paths[0]
        assert [remove["path"] for remove in _actions(path, "remove")] == ["b"]

    def test_tombstones_of_the_last_checkpoint_go_on(
        self, log: Any, shown: Callable[[Snapshot], Any]
    ) -> None:
        """CK-003: removed before a checkpoint, added again or touched after it, or left alone."""
        vector = log.vector("v")
        log.create(log.add("a"), log.add("b"), log.add("c", deletionVector=vector))
        log.commit(log.remove("a"), log.remove("b"), log.remove("c", deletionVector=vector))
        log.checkpoint()
        log.commit(log.add("a"), log.add("c"))
        info = _write(log.load(), "single", now=NOW)
        _only_this_checkpoint(log.root, info)
        assert shown(log.load()) == log.state().shown()

    def test_old_transactions_are_forgotten_where_the_table_says_so(self, log: Any) -> None:
        def txn(app: str, updated: int | None) -> dict[str, Any]:
            return {"txn": {"appId": app, "version": 1} | ({"lastUpdated": updated} if updated else {})}

        log.create(
            txn("old", NOW - DAY), txn("new", NOW - DAY + 1), txn("unknown", None),
            configuration={"delta.setTransactionRetentionDuration": "interval 1 day"},
        )  # fmt: skip
        path = log.root / _write(log.load(), "single", now=NOW).paths[0]
        assert {found["appId"] for found in _actions(path, "txn")} == {"new", "unknown"}

    def test_pages_have_checksums(self, busy_log: Any) -> None:
        path = busy_log.root / _write(busy_log.load(), "single", now=NOW).paths[0]
        _flip_a_path(path)
        with pytest.raises(OSError, match="CRC"):
            pq.read_table(path, page_checksum_verification=True)


_COLUMNS = {
    "i": "integer", "l": "long", "d": "decimal(20,4)", "x": "double", "f": "float", "s": "string",
    "b": "boolean", "t": "timestamp", "n": "timestamp_ntz", "day": "date", "blob": "binary", "p": "date",
}  # fmt: skip
_MINIMA = (
    '{"i":-3,"l":-9007199254740993,"d":-1234567890123456.7891,"x":-0.1,"f":-0.1,"s":"a\\"\\\\ü\\n","b":false,'
    '"t":"2020-02-29T01:02:03.123456Z","n":"1969-12-31T23:59:59.001","day":"1900-01-01"}'
)
_STATS = (
    f'{{"numRecords":5,"tightBounds":false,"minValues":{_MINIMA},"maxValues":{_MINIMA},'
    '"nullCount":{"i":1,"b":2,"blob":3}}'
)


def _with_statistics(log: Any, **configuration: str) -> None:
    properties = {f"delta.checkpoint.{name}": value for name, value in configuration.items()}
    log.create(
        log.add("p=2020-01-01/a", partitionValues={"p": "2020-01-01"}, stats=_STATS),
        log.add("p=2020-01-01/none", partitionValues={"p": None}),
        columns=_COLUMNS,
        partitionColumns=["p"],
        configuration=properties,
    )


class TestStatistics:
    """Statistics as text, as columns, both, or neither."""

    @pytest.mark.parametrize("json_too", ["true", "false", None])
    @pytest.mark.parametrize("struct_too", ["true", "false", None])
    def test_properties_choose_the_form(self, log: Any, json_too: str | None, struct_too: str | None) -> None:
        """CK-010, CK-011, CK-012, CN-040, C-38: text by default, columns only on request."""
        chosen = {"writeStatsAsJson": json_too, "writeStatsAsStruct": struct_too}
        _with_statistics(log, **{name: value for name, value in chosen.items() if value is not None})
        path = log.root / _write(log.load(), "single", now=NOW).paths[0]
        names = {field.name for field in pq.read_schema(path).field("add").type}
        assert ("stats" in names) == (json_too != "false")
        assert ("stats_parsed" in names) == (struct_too == "true")
        assert ("partitionValues_parsed" in names) == (struct_too == "true")

    def test_columns_have_the_types_of_the_table(self, log: Any) -> None:
        """CK-010, CK-012, CK-014, C-15: no order, no minimum; partition columns have no statistics."""
        _with_statistics(log, writeStatsAsStruct="true")
        path = log.root / _write(log.load(), "single", now=NOW).paths[0]
        kind = pq.read_schema(path).field("add").type
        assert kind.field("partitionValues_parsed").type == pa.struct({"p": pa.date32()})
        parsed = kind.field("stats_parsed").type
        assert {field.name: field.type for field in parsed.field("minValues").type} == {
            "i": pa.int32(), "l": pa.int64(), "d": pa.decimal128(20, 4), "x": pa.float64(), "f": pa.float32(),
            "s": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.timestamp("us"), "day": pa.date32(),
        }  # fmt: skip
        assert {field.name for field in parsed.field("nullCount").type} == set(_COLUMNS) - {"p"}

    def test_values_are_exact_in_columns(self, log: Any) -> None:
        _with_statistics(log, writeStatsAsStruct="true", writeStatsAsJson="false")
        path = log.root / _write(log.load(), "single", now=NOW).paths[0]
        first, second = (add["stats_parsed"] for add in _actions(path, "add"))
        assert second is None
        lowest = first["minValues"]
        assert (first["numRecords"], first["tightBounds"]) == (5, False)
        assert (lowest["i"], lowest["l"]) == (-3, -9007199254740993)
        assert str(lowest["d"]) == "-1234567890123456.7891"
        assert (lowest["x"], lowest["s"], str(lowest["day"])) == (-0.1, 'a"\\ü\n', "1900-01-01")
        assert lowest["t"].isoformat() == "2020-02-29T01:02:03.123456+00:00"
        assert lowest["n"].isoformat() == "1969-12-31T23:59:59.001000"
        assert (first["nullCount"]["i"], first["nullCount"]["blob"], first["nullCount"]["l"]) == (1, 3, None)

    def test_text_comes_back_from_columns_without_loss(self, log: Any) -> None:
        """CK-011: the text was left out of one checkpoint and is asked for in the next."""
        _with_statistics(log, writeStatsAsStruct="true", writeStatsAsJson="false")
        _only_this_checkpoint(log.root, _write(log.load(), "single", now=NOW))
        log.commit(log.metadata(_COLUMNS, partitionColumns=["p"]))
        path = log.root / _write(log.load(), "single", now=NOW).paths[0]
        first, second = (add["stats"] for add in _actions(path, "add"))
        expected = json.loads(_STATS, parse_float=str)
        del expected["minValues"]["b"], expected["maxValues"]["b"]
        assert json.loads(first, parse_float=str) == expected
        assert second is None

    def test_null_counts_by_their_other_name_are_read(self, log: Any) -> None:
        """C-15."""
        log.create(
            log.add("a", stats='{"numRecords":2,"nullCounts":{"id":1}}'),
            configuration={"delta.checkpoint.writeStatsAsStruct": "true"},
        )
        path = log.root / _write(log.load(), "single", now=NOW).paths[0]
        (add,) = _actions(path, "add")
        assert add["stats_parsed"]["nullCount"] == {"id": 1, "value": None}

    def test_unreadable_text_is_kept_as_it_is(self, log: Any) -> None:
        log.create(log.add("a", stats="{torn"), configuration={"delta.checkpoint.writeStatsAsStruct": "true"})
        path = log.root / _write(log.load(), "single", now=NOW).paths[0]
        (add,) = _actions(path, "add")
        assert (add["stats"], add["stats_parsed"]) == ("{torn", None)


class TestKinds:
    """Which kind is written, and how its files fit together."""

    def test_default_is_a_single_file(self, busy_log: Any) -> None:
        """CK-001, CK-004, C-33: any version can have one; multi-part only on request."""
        for version in (0, 5, 10):
            info = write_checkpoint(busy_log.store, busy_log.load(version), now=NOW)
            assert info.paths == (f"_delta_log/{version:020d}.checkpoint.parquet",)

    def test_policy_of_the_table_chooses_v2(self, log: Any) -> None:
        features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
        log.commit(
            log.protocol(3, 7, **features), log.metadata(configuration={"delta.checkpointPolicy": "v2"})
        )
        info = write_checkpoint(log.store, log.load(), now=NOW)
        assert info.kind == "v2"
        assert [path.rpartition("/")[0] for path in info.paths] == ["_delta_log", "_delta_log/_sidecars"]

    def test_kinds_that_the_protocol_forbids_are_refused(self, log: Any, busy_log: Any) -> None:
        with pytest.raises(InvalidInputError, match="v2Checkpoint"):
            _write(busy_log.load(), "v2")
        _with_v2_feature(busy_log.root)
        with pytest.raises(InvalidInputError, match="multi-part"):
            _write(busy_log.load(), "multi-part")
        with pytest.raises(InvalidInputError, match="parts"):
            _write(busy_log.load(), "v2", parts=0)

    def test_parts_of_two_attempts_fit_together(
        self, busy_log: Any, new_log: Callable[[], Any], tmp_path: Path
    ) -> None:
        """CK-005, CK-006, CK-007: one attempt replays commits, the other starts from a checkpoint."""
        other = tmp_path / "other"
        shutil.copytree(busy_log.root, other)
        first = _write(busy_log.load(), "multi-part", parts=3, now=NOW)
        write_checkpoint(open_store(str(other)), load_snapshot(open_store(str(other)), 6), now=NOW)
        again = load_snapshot(open_store(str(other)))
        assert again.segment.checkpoint is not None
        second = _write(again, "multi-part", parts=3, now=NOW)
        assert (
            first.paths
            == second.paths
            == tuple(
                f"_delta_log/00000000000000000010.checkpoint.000000000{part}.0000000003.parquet"
                for part in (1, 2, 3)
            )
        )
        for path in first.paths:
            mine, theirs = _rows_of(busy_log.root / path), _rows_of(other / path)
            assert sorted(map(repr, mine)) == sorted(map(repr, theirs))

    def test_incomplete_parts_are_finished_by_the_next_attempt(self, busy_log: Any, shown: Any) -> None:
        """CK-006, CK-007."""
        before = shown(busy_log.load())
        first = _write(busy_log.load(), "multi-part", parts=3, now=NOW)
        (busy_log.root / first.paths[1]).unlink()
        busy_log.hint(None)
        assert busy_log.load().segment.checkpoint is None
        second = _write(busy_log.load(), "multi-part", parts=3, now=NOW)
        assert second.paths == first.paths
        _only_this_checkpoint(busy_log.root, second)
        assert shown(busy_log.load()) == before

    def test_parts_of_another_engine_are_not_mixed_with_ours(self, busy_log: Any, shown: Any) -> None:
        """CK-007: an attempt of somebody else, clustered in another way, was left incomplete."""
        before = shown(busy_log.load())
        foreign = busy_log.checkpoint(kind="multi-part", parts=2, hint=False)
        foreign[0].unlink()
        info = _write(busy_log.load(), "multi-part", parts=2, now=NOW)
        assert info.parts == 3
        assert shown(busy_log.load()) == before

    def test_sidecars_come_before_the_file_that_names_them(
        self, busy_log: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failure at the top-level file leaves no checkpoint and no sidecar."""
        _with_v2_feature(busy_log.root)
        snapshot = busy_log.load()
        store = busy_log.store
        plain = store.open_output

        def failing(path: str) -> Any:
            if "/_sidecars/" not in path:
                assert len(list(store.list_from("_delta_log/_sidecars"))) == 2
                raise ObjectNotFoundError("the disk is gone")
            return plain(path)

        monkeypatch.setattr(store, "open_output", failing)
        with pytest.raises(ObjectNotFoundError, match="disk is gone"):
            write_checkpoint(store, snapshot, kind="v2", parts=2)
        assert list(store.list_from("_delta_log/_sidecars")) == []
        assert load_snapshot(busy_log.store).segment.checkpoint is None


class TestSafety:
    """When a checkpoint is written, and what it never does."""

    def test_version_without_a_commit_gets_none(self, busy_log: Any) -> None:
        """CK-002: the commit is not there (any more)."""
        snapshot = busy_log.load()
        busy_log.commit_file(10).unlink()
        with pytest.raises(ObjectNotFoundError):
            _write(snapshot, "single")
        assert not list(busy_log.log.glob("*checkpoint*"))

    def test_sound_checkpoint_is_left_alone(self, busy_log: Any) -> None:
        """Readers may be in the middle of it."""
        first = _write(busy_log.load(), "single", now=NOW)
        before = (busy_log.root / first.paths[0]).stat()
        second = _write(busy_log.load(), "single", now=NOW)
        assert (first.written, second.written) == (True, False)
        assert (busy_log.root / first.paths[0]).stat().st_ino == before.st_ino
        assert (second.num_actions, second.num_adds) == (first.num_actions, first.num_adds)

    def test_damaged_checkpoint_is_replaced(self, busy_log: Any, shown: Any) -> None:
        before = shown(busy_log.load())
        path = busy_log.root / _write(busy_log.load(), "single", now=NOW).paths[0]
        path.write_bytes(path.read_bytes()[:-200])
        info = _write(busy_log.load(), "single", now=NOW)
        assert info.written
        _only_this_checkpoint(busy_log.root, info)
        assert shown(busy_log.load()) == before

    def test_last_resort_is_never_removed(self, busy_log: Any) -> None:
        """It looks damaged, but the version cannot be rebuilt without it."""
        snapshot = busy_log.load()
        path = busy_log.root / _write(snapshot, "single", now=NOW).paths[0]
        data = path.read_bytes()
        busy_log.clean(5)
        path.write_bytes(data[:-200])
        with pytest.raises(DeltaError):
            _write(snapshot, "single", now=NOW)
        assert path.exists()

    def test_state_comes_from_the_commits_where_the_last_checkpoint_is_damaged(
        self, busy_log: Any, shown: Any
    ) -> None:
        before = shown(busy_log.load())
        (path,) = busy_log.checkpoint(8)
        _flip_a_path(path)
        info = _write(busy_log.load(), "single", now=NOW)
        _only_this_checkpoint(busy_log.root, info)
        assert shown(busy_log.load()) == before

    def test_table_that_cannot_be_written_gets_none(self, log: Any) -> None:
        log.commit(log.protocol(1, 7, writerFeatures=["somethingNew"]), log.metadata())
        with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
            _write(log.load(), "single")


class TestHint:
    """The file `_last_checkpoint`."""

    @pytest.mark.parametrize("kind", ["single", "multi-part", "v2"])
    def test_hint_describes_the_checkpoint(self, busy_log: Any, kind: str) -> None:
        """CK-015."""
        if kind == "v2":
            _with_v2_feature(busy_log.root)
        info = _write(busy_log.load(), kind, parts=None if kind == "single" else 3, now=NOW)
        hint = json.loads((busy_log.log / "_last_checkpoint").read_text())
        rows = [row for path in info.paths for row in _rows_of(busy_log.root / path)]
        assert hint["version"] == info.version
        assert hint["size"] == len(rows)
        assert hint["sizeInBytes"] == sum((busy_log.root / path).stat().st_size for path in info.paths)
        assert hint["numOfAddFiles"] == sum(row.get("add") is not None for row in rows)
        assert hint.get("parts") == (3 if kind == "multi-part" else None)
        assert hint["checksum"] == hint_checksum(hint)

    def test_hint_never_moves_back(self, busy_log: Any) -> None:
        """CK-015."""
        _write(busy_log.load(), "single", now=NOW)
        _write(busy_log.load(4), "single", now=NOW)
        hint = read_last_checkpoint(busy_log.store)
        assert hint is not None
        assert hint.version == 10

    def test_hint_is_written_after_the_checkpoint(
        self, busy_log: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = busy_log.store
        plain = store.put

        def put(path: str, data: bytes) -> None:
            assert path == "_delta_log/_last_checkpoint"
            assert list(busy_log.log.glob("*.checkpoint.parquet"))
            plain(path, data)

        monkeypatch.setattr(store, "put", put)
        write_checkpoint(store, busy_log.load())
        assert read_last_checkpoint(store) is not None


_NAMES = st.sampled_from(["a", "b", "c=1/ä %20.parquet", "d%2520e", "f"])
_VECTORS = st.none() | st.sampled_from(["v1", "v2"])
_MAPS = st.none() | st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3), max_size=2)


@st.composite
def _commits(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Commits of random actions; a file is named once by each."""
    commits: list[list[dict[str, Any]]] = []
    for _ in range(draw(st.integers(1, 6))):
        actions: list[dict[str, Any]] = []
        for name in draw(st.lists(_NAMES, unique=True, max_size=4)):
            vector = draw(_VECTORS)
            fields: dict[str, Any] = {} if vector is None else {"deletionVector": vector}
            if draw(st.booleans()):
                optional = {
                    "stats": draw(st.none() | st.sampled_from(['{"numRecords":3}', "{"])),
                    "tags": draw(_MAPS),
                    "baseRowId": draw(st.none() | st.integers(0, 2**62)),
                    "clusteringProvider": draw(st.none() | st.just("liquid")),
                }
                fields |= {key: value for key, value in optional.items() if value is not None}
                actions.append({"add": {"path": name, **fields}})
            else:
                actions.append(
                    {
                        "remove": {
                            "path": name,
                            "deletionTimestamp": draw(st.integers(NOW - 3, NOW + 3)),
                            **fields,
                        }
                    }
                )
        if draw(st.booleans()):
            actions.append(
                {"txn": {"appId": draw(st.text(min_size=1, max_size=2)), "version": draw(st.integers(0, 9))}}
            )
        if draw(st.booleans()):
            domain = {
                "domain": draw(st.sampled_from("xy")),
                "configuration": "{}",
                "removed": draw(st.booleans()),
            }
            actions.append({"domainMetadata": domain})
        commits.append(actions)
    return commits


def _commit(log: Any, actions: list[dict[str, Any]]) -> None:
    filled = []
    for action in actions:
        ((kind, body),) = action.items()
        fields = {key: value for key, value in body.items() if key != "path"}
        if "deletionVector" in fields:
            fields["deletionVector"] = log.vector(fields["deletionVector"])
        make = {"add": log.add, "remove": log.remove}.get(kind)
        filled.append(action if make is None else make(body["path"], **fields))
    log.commit(*filled)


@hypothesis.given(
    commits=_commits(), kind=st.sampled_from(KINDS), parts=st.integers(1, 3), halfway=st.integers(0, 6),
    as_struct=st.booleans(),
)  # fmt: skip
@hypothesis.settings(
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
def test_any_state_survives_two_checkpoints(
    commits: list[list[dict[str, Any]]],
    kind: str,
    parts: int,
    halfway: int,
    as_struct: bool,
    new_log: Callable[[], Any],
) -> None:
    """CK-003, CK-009: a checkpoint of a checkpoint and what follows equals plain replay."""
    log = new_log()
    features = ["deletionVectors", "v2Checkpoint"] if kind.startswith("v2") else ["deletionVectors"]
    log.commit(
        log.protocol(3, 7, readerFeatures=features, writerFeatures=[*features, "domainMetadata"]),
        log.metadata(configuration={"delta.checkpoint.writeStatsAsStruct": str(as_struct).lower()}),
    )
    for number, actions in enumerate(commits):
        _commit(log, actions)
        if number == halfway:
            _write(log.load(), kind, parts=parts, now=NOW - 10)
    before = _state(log.load(), NOW)
    truth = log.state()
    assert len(before["adds"]) == len(truth.adds)
    snapshot = log.load()
    info = _write(snapshot, kind, parts=parts, now=NOW + 7 * DAY)
    if info.written:
        _only_this_checkpoint(log.root, info)
    assert _state(log.load(), NOW) == before
