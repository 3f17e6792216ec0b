"""A table against a model of it: whatever is done in whatever order, every version has the rows it must have.

The model is a list of rows for each version that was acknowledged. Hypothesis makes up histories of appends,
overwrites, alterations, checkpoints, vacuum, restore, log cleanup, time travel, crashes inside a commit,
restarts, writers with an outdated snapshot, and damage to derived files. What must hold (RELIABILITY P1 to
P3): every version reads equal to the model, or fails with a typed error where cleanup or vacuum may have
taken it; versions are contiguous; `verify_table` finds nothing that the history did not cause. Where
deltalake is at hand it reads every final table too.

DISTRIBUTARY_STATEFUL_EXAMPLES and DISTRIBUTARY_STATEFUL_STEPS make it longer, for evidence.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import distributary as ds
from distributary.delta.commit.post_commit import clean_up
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import (
    CommitConflictError,
    CorruptCheckpointError,
    DataFileError,
    LogGapError,
    VersionNotFoundError,
)
from distributary.delta.log.checkpoint_writer import write_checkpoint
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.append import append, plan_write, write_rows
from distributary.delta.operations.overwrite import overwrite
from distributary.delta.operations.row_stream import row_stream
from distributary.delta.operations.verify import verify_table

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
from peers.process import Peer

EXAMPLES = int(os.environ.get("DISTRIBUTARY_STATEFUL_EXAMPLES", "60"))
STEPS = int(os.environ.get("DISTRIBUTARY_STATEFUL_STEPS", "50" if EXAMPLES > 60 else "25"))
SHARDS = 4
PLACES = ("a", "b c", "ü/%", None)
OLD = 40 * 86400
GONE = (VersionNotFoundError, LogGapError, CorruptCheckpointError)

Row = dict[str, Any]


class Crashed(BaseException):
    """The process ends here, as far as the commit can tell."""


@dataclass(frozen=True)
class Version:
    """What one acknowledged version must hold."""

    columns: tuple[str, ...]  # beside `place`, which is always there
    rows: list[Row]
    appended: list[Row] | None = None  # of a blind append
    changes_metadata: bool = False
    changes_files: bool = False


@dataclass
class Model:
    """All versions; those before `cleaned` or `vacuumed` may be gone from the log or the disk."""

    versions: list[Version] = field(default_factory=list)
    cleaned: int = 0
    vacuumed: int = 0
    transactions: dict[str, int] = field(default_factory=dict)
    damage: set[str] = field(default_factory=set)  # what verify may find

    @property
    def latest(self) -> Version:
        return self.versions[-1]


def as_texts(rows: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


class TableMachine(RuleBasedStateMachine):
    """Drives a table and its model side by side."""

    peer: Peer | None = None

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")  # many small durable writes: a disk would only make it slow
        self.folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
        self.root = self.folder / "table"
        self.log = self.root / "_delta_log"
        self.model = Model()
        self.number = 0

    @initialize(v2=st.booleans(), in_commit=st.booleans(), interval=st.sampled_from([2, 3, 10]))
    def create(self, v2: bool, in_commit: bool, interval: int) -> None:
        properties = {"delta.columnMapping.mode": "name", "delta.checkpointInterval": str(interval)}
        if v2:
            properties["delta.checkpointPolicy"] = "v2"
        if in_commit:
            properties["delta.enableInCommitTimestamps"] = "true"
        schema = pa.schema([("id", pa.int64()), ("place", pa.string())])
        self.table = ds.DeltaTable.create(self.root, schema, partition_by=["place"], properties=properties)
        self.v2 = v2
        self.model.versions.append(Version(("id",), [], changes_metadata=True))
        self.held: tuple[ds.TableSnapshot, int] | None = None
        self.stale: tuple[Snapshot, int] = (self.table.snapshot().state, 0)

    # What the machine and its rules are made of

    def new_rows(self, places: list[str | None], columns: tuple[str, ...]) -> list[Row]:
        rows = []
        for place in places:
            self.number += 1
            rows.append({**dict.fromkeys(columns, self.number), "place": place})
        return rows

    def arrow(self, rows: list[Row], columns: tuple[str, ...]) -> pa.Table:
        schema = pa.schema([*((name, pa.int64()) for name in columns), ("place", pa.string())])
        return pa.Table.from_pylist(rows, schema=schema)

    def acknowledged(
        self, version: int, rows: list[Row], columns: tuple[str, ...], appended: list[Row] | None = None
    ) -> None:
        """Take a version into the model: it must be the next one, and its entry says what kind it is."""
        assert version == len(self.model.versions)
        entry = (self.log / f"{version:020d}.json").read_text().splitlines()
        actions = [json.loads(line) for line in entry]
        moving = [action.get("add") or action.get("remove") for action in actions]
        self.model.versions.append(
            Version(
                columns,
                rows,
                appended,
                changes_metadata=any("metaData" in action or "protocol" in action for action in actions),
                changes_files=any(found["dataChange"] for found in moving if found),
            )
        )

    def since(self, version: int) -> list[Version]:
        return self.model.versions[version + 1 :]

    # Writing

    @rule(places=st.lists(st.sampled_from(PLACES), max_size=4))
    def append_rows(self, places: list[str | None]) -> None:
        now = self.model.latest
        rows = self.new_rows(places, now.columns)
        result = self.table.append(self.arrow(rows, now.columns))
        self.acknowledged(result.version, now.rows + rows, now.columns, rows)

    @rule(app=st.sampled_from(["x", "y"]), version=st.integers(1, 4))
    def append_once(self, app: str, version: int) -> None:
        now, model = self.model.latest, self.model
        rows = self.new_rows(["a"], now.columns)
        result = self.table.append(self.arrow(rows, now.columns), txn=(app, version))
        assert result.skipped == (model.transactions.get(app, 0) >= version)
        if not result.skipped:
            self.acknowledged(result.version, now.rows + rows, now.columns, rows)
            model.transactions[app] = version

    @rule(places=st.lists(st.sampled_from(PLACES), max_size=3))
    def overwrite_all(self, places: list[str | None]) -> None:
        columns = self.model.latest.columns
        rows = self.new_rows(places, columns)
        self.acknowledged(self.table.overwrite(self.arrow(rows, columns)).version, rows, columns)

    @rule(place=st.sampled_from(PLACES), count=st.integers(0, 2))
    def replace_partition(self, place: str | None, count: int) -> None:
        now = self.model.latest
        rows = self.new_rows([place] * count, now.columns)
        where = "place IS NULL" if place is None else f"place = '{place}'"
        result = self.table.overwrite(self.arrow(rows, now.columns), replace_where=where)
        kept = [row for row in now.rows if row["place"] != place]
        self.acknowledged(result.version, kept + rows, now.columns)

    @rule(places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=3))
    def replace_partitions_dynamically(self, places: list[str | None]) -> None:
        now = self.model.latest
        rows = self.new_rows(places, now.columns)
        result = self.table.overwrite(self.arrow(rows, now.columns), dynamic=True)
        kept = [row for row in now.rows if row["place"] not in places]
        self.acknowledged(result.version, kept + rows, now.columns)

    # Altering

    @precondition(lambda self: len(self.model.latest.columns) < 4)
    @rule()
    def add_column(self) -> None:
        now = self.model.latest
        self.number += 1
        name = f"c{self.number}"
        version = self.table.alter.add_column(name, "long").version
        self.acknowledged(version, [{**row, name: None} for row in now.rows], (*now.columns, name))

    @rule(at=st.integers(0, 3))
    def rename_column(self, at: int) -> None:
        now = self.model.latest
        old = now.columns[at % len(now.columns)]
        self.number += 1
        new = f"r{self.number}"
        version = self.table.alter.rename_column(old, new).version
        rows = [{new if name == old else name: value for name, value in row.items()} for row in now.rows]
        self.acknowledged(version, rows, tuple(new if name == old else name for name in now.columns))

    @precondition(lambda self: len(self.model.latest.columns) > 1)
    @rule()
    def drop_column(self) -> None:
        now = self.model.latest
        old = now.columns[-1]
        version = self.table.alter.drop_column(old).version
        rows = [{name: value for name, value in row.items() if name != old} for row in now.rows]
        self.acknowledged(version, rows, now.columns[:-1])

    @rule(interval=st.sampled_from(["2", "5"]))
    def set_property(self, interval: str) -> None:
        now = self.model.latest
        before = len(self.model.versions) - 1
        version = self.table.alter.set_properties({"delta.checkpointInterval": interval}).version
        if version != before:
            self.acknowledged(version, now.rows, now.columns)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(0, len(self.model.versions) - 1))
        wanted = self.model.versions[target]
        try:
            version = self.table.restore(target)
        except (*GONE, DataFileError):
            assert target < max(self.model.cleaned, self.model.vacuumed)
            return
        self.acknowledged(version, wanted.rows, wanted.columns)

    @rule()
    def analyze(self) -> None:
        now = self.model.latest
        version = self.table.analyze(every_file=True)
        assert (version is None) == (not now.rows)
        if version is not None:
            self.acknowledged(version, now.rows, now.columns)

    # Care

    @rule(parts=st.integers(1, 3), kind=st.sampled_from(["auto", "single", "multi-part", "v2", "v2-json"]))
    def checkpoint(self, parts: int, kind: Any) -> None:
        if kind.startswith("v2") != self.v2 and kind not in ("auto", "single"):
            kind = "auto"
        top = "json" if kind == "v2-json" else "parquet"
        state = self.table.snapshot().state
        write_checkpoint(
            self.table.store, state, kind=kind.removesuffix("-json"), parts=parts, top_format=top
        )

    @rule(forced=st.booleans())
    def vacuum(self, forced: bool) -> None:
        """Old files go; those removed lately only when forced, and then versions before this one may go."""
        self._make_older(path for path in self.root.rglob("*") if self.log not in path.parents)
        if forced:
            self.table.vacuum(datetime.timedelta(0), force=True)
            self.model.vacuumed = len(self.model.versions) - 1
            state = self.table.snapshot().state
            assert len(list(self.root.rglob("*.zstd.parquet"))) == state.files.num_files
        else:
            self.table.vacuum()

    @rule(data=st.data())
    def clean_up_log(self, data: st.DataObject) -> None:
        """Versions before the one that was current when the retention ended may go, now or later."""
        expired = data.draw(st.integers(0, len(self.model.versions) - 1))
        self._make_older(
            path
            for path in self.log.rglob("*")
            if not path.name[:20].isdigit() or int(path.name[:20]) <= expired
        )
        self.model.cleaned = max(self.model.cleaned, expired)
        clean_up(self.table.store, self.table.snapshot().state, int(time.time() * 1000))

    def _make_older(self, paths: Iterator[Path]) -> None:
        then = time.time() - OLD
        for path in paths:
            if path.is_file():
                os.utime(path, (then, then))

    # Restarts, crashes and other writers

    @rule()
    def restart(self) -> None:
        self.table = ds.DeltaTable(self.root)

    @rule(phase=st.sampled_from(["prepared", "before_write", "written", "post_commit"]), again=st.booleans())
    def crash_in_a_commit(self, phase: str, again: bool) -> None:
        """Before the entry is written nothing happened; after it everything did. Data files stay behind."""
        now = self.model.latest
        rows = self.new_rows(["a", None], now.columns)
        data = row_stream(self.arrow(rows, now.columns))
        plan = plan_write(self.table.snapshot().state, data.schema)
        adds = write_rows(self.table.store, plan, data)
        staged = StagedCommit(Operation("WRITE"), tuple(adds), blind_append=True)

        def crash(reached: str, _: int) -> None:
            if reached == phase:
                raise Crashed

        with pytest.raises(Crashed):
            commit(self.table.store, plan.snapshot, staged, on_phase=crash)
        if phase in ("written", "post_commit"):
            self.acknowledged(len(self.model.versions), now.rows + rows, now.columns, rows)
        else:
            (self.log / f".{len(self.model.versions):020d}.json.{self.number}.tmp").write_text('{"add":{"pa')
        if again:
            self.table = ds.DeltaTable(self.root)

    @rule()
    def another_writer_reads(self) -> None:
        self.stale = (ds.DeltaTable(self.root).snapshot().state, len(self.model.versions) - 1)

    @rule(place=st.sampled_from(PLACES))
    def another_writer_appends(self, place: str | None) -> None:
        """LW-016: on an outdated snapshot an append goes on top, unless the table is another one by now."""
        snapshot, read = self.stale
        now, columns = self.model.latest, self.model.versions[read].columns
        rows = self.new_rows([place], columns)
        changed = any(version.changes_metadata for version in self.since(read))
        try:
            result = append(self.table.store, snapshot, self.arrow(rows, columns))
        except CommitConflictError:
            assert changed or read < self.model.cleaned
        except CorruptCheckpointError:  # what it read was replaced or damaged: it has to read again
            self.another_writer_reads()
        except GONE:
            assert read < self.model.cleaned
        else:
            assert not changed
            self.acknowledged(result.version, now.rows + rows, now.columns, rows)
            self.stale = (result.snapshot, result.version)

    @rule(place=st.sampled_from(PLACES))
    def another_writer_overwrites(self, place: str | None) -> None:
        """LW-016: rows that others appended meanwhile stay; any other change of files is a conflict."""
        snapshot, read = self.stale
        columns = self.model.versions[read].columns
        rows = self.new_rows([place], columns)
        meanwhile = self.since(read)
        changed = any(
            version.changes_metadata or (version.changes_files and version.appended is None)
            for version in meanwhile
        )
        try:
            result = overwrite(self.table.store, snapshot, self.arrow(rows, columns))
        except CommitConflictError:
            assert changed or read < self.model.cleaned
        except CorruptCheckpointError:  # what it read was replaced or damaged: it has to read again
            self.another_writer_reads()
        except GONE:
            assert read < self.model.cleaned
        else:
            assert not changed
            appended = [row for version in meanwhile for row in version.appended or ()]
            self.acknowledged(result.version, rows + appended, columns)
            self.stale = (result.snapshot, result.version)

    # Damage to files that can be rebuilt

    @rule(text=st.sampled_from(["", "{", '{"version":99999,"size":1}', '{"version":0,"size":1}', None]))
    def damage_the_hint(self, text: str | None) -> None:
        hint = self.log / "_last_checkpoint"
        hint.unlink(missing_ok=True)
        if text is not None:
            hint.write_text(text)
        self.model.damage.add("LAST_CHECKPOINT_INVALID")

    @rule(text=st.sampled_from(["", "{}", None]))
    def damage_checksums(self, text: str | None) -> None:
        for path in self.log.glob("*.crc"):
            path.unlink()
            if text is not None:
                path.write_text(text)
        self.model.damage |= {"CHECKSUM_UNREADABLE", "CHECKSUM_DISAGREES"}

    @precondition(lambda self: (self.log / f"{0:020d}.json").exists())
    @rule(keep=st.sampled_from([0.0, 0.5, 0.9]), data=st.data())
    def damage_a_checkpoint(self, keep: float, data: st.DataObject) -> None:
        """Only where the whole log can stand in for it; cleanup must see the damage and not build on it."""
        files = sorted([*self.log.glob("*.checkpoint*"), *self.log.glob("_sidecars/*.parquet")])
        if files:
            path = files[data.draw(st.integers(0, len(files) - 1))]
            whole = path.read_bytes()
            path.write_bytes(whole[: int(len(whole) * keep)])
            self.model.damage |= {"CORRUPT_CHECKPOINT", "SIDECAR_MISSING", "CHECKPOINT_DISAGREES"}

    # What must hold

    def assert_version(self, number: int) -> None:
        expected = self.model.versions[number]
        try:
            snapshot = self.table.snapshot(version=number)
            rows = snapshot.to_arrow().to_pylist()
        except GONE:
            assert number < self.model.cleaned
            return
        except DataFileError:
            assert number < self.model.vacuumed
            return
        assert set(snapshot.schema.names) == {*expected.columns, "place"}
        assert as_texts(rows) == as_texts(expected.rows)

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        self.assert_version(data.draw(st.integers(0, len(self.model.versions) - 1)))

    @rule()
    def hold_a_snapshot(self) -> None:
        self.held = (self.table.snapshot(), len(self.model.versions) - 1)

    @precondition(lambda self: getattr(self, "held", None) is not None)
    @rule()
    def read_the_held_snapshot(self) -> None:
        """B9: a snapshot shows its version to the end, or says that the version is gone."""
        assert self.held is not None
        snapshot, number = self.held
        try:
            rows = snapshot.to_arrow().to_pylist()
        except GONE:
            assert number < self.model.cleaned
        except DataFileError:
            assert number < self.model.vacuumed
        else:
            assert as_texts(rows) == as_texts(self.model.versions[number].rows)

    @rule()
    def verify(self) -> None:
        report = verify_table(self.table.store, deep=True)
        assert {problem.code for problem in report.errors} <= self.model.damage, report.errors

    @invariant()
    def latest_is_as_the_model_says(self) -> None:
        if not self.model.versions:
            return
        last = len(self.model.versions) - 1
        assert self.table.version() == last
        self.assert_version(last)
        numbers = sorted(int(path.name[:20]) for path in self.log.glob("*.json") if len(path.name) == 25)
        assert numbers == list(range(numbers[0], last + 1))

    def teardown(self) -> None:
        try:
            if self.model.versions:
                self.table = ds.DeltaTable(self.root)
                for number in range(len(self.model.versions)):
                    self.assert_version(number)
                self.verify()
                self._cross_check()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _cross_check(self) -> None:
        if self.peer is not None and not self.model.damage:
            rows = self.peer.rows(self.root).to_pylist()
            assert as_texts(rows) == as_texts(self.model.latest.rows)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without the warnings about the damage that is done here on purpose."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def peer(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer | None]:
    """deltalake, where it is set up, to read the final tables; the model stands without it."""
    python = pytestconfig.rootpath / ".venv-peers" / "bin" / "python"
    if not python.exists():
        yield None
        return
    server = pytestconfig.rootpath / "tests" / "interop" / "peers" / "deltalake_server.py"
    with Peer("deltalake", [str(python), str(server)], tmp_path_factory.mktemp("peer"), {}) as running:
        yield running


@pytest.mark.timeout(0 if EXAMPLES > 60 else 600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_history_leaves_every_version_as_the_model_says(shard: int, peer: Peer | None) -> None:
    """LW-001, LW-002, LW-003, LW-012, LW-014, LW-016, LW-017, CK-001, CK-002, CK-003, CK-006, RET-001,
    RET-002, RET-003, RET-004, RET-005: P1 to P3 over made-up histories.
    """

    class Machine(TableMachine):
        pass

    Machine.peer = peer
    settings = hypothesis.settings(
        max_examples=max(1, EXAMPLES // SHARDS),
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    run_state_machine_as_test(hypothesis.seed(shard)(Machine), settings=settings)
