"""A4: the operations of the conflict matrix, as what each would stage on one small table.

The table is partitioned by `p` and has the files a1 and a2 in partition a, b1 in partition b. Each
operation is staged as its own code would stage it: what it read, what it removes, what it adds. `at` is the
partition that it works on, so that disjoint variants can be made.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pyarrow as pa

from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.commit.transaction import BEFORE_WRITE, commit
from distributary.delta.errors import CommitConflictError
from distributary.delta.log.actions import Add, DomainMetadata, Protocol, Remove, SetTransaction
from distributary.delta.log.snapshot import Snapshot
from distributary.expressions.binding import bind
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression
from distributary.storage.object_store import ObjectStore, open_store
from rigs.plain_table import file, metadata

FEATURES = ("appendOnly", "domainMetadata", "invariants")
FILES = {"a": ("a1", "a2"), "b": ("b1",)}
COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])

Stage = Callable[[str], StagedCommit]


def table(isolation: str) -> tuple[ObjectStore, Snapshot]:
    """The table at version 0."""
    store = open_store(f"memory://{uuid.uuid4().hex}/table")
    files = [file(label, partition) for partition, labels in FILES.items() for label in labels]
    actions: tuple[StagedAction, ...] = (
        Protocol(1, 7, None, FEATURES),
        metadata({"delta.isolationLevel": isolation}),
        *files,
    )
    result = commit(store, None, StagedCommit(Operation("CREATE TABLE"), actions))
    return store, result.snapshot


def contest(winner: StagedCommit, loser: StagedCommit, isolation: str) -> str:
    """Commit the loser, with the winner coming first at the last moment; "ok" or the name of the error."""
    store, snapshot = table(isolation)
    waiting = [winner]

    def interleave(phase: str, version: int) -> None:
        del version
        if phase == BEFORE_WRITE and waiting:
            commit(store, snapshot, waiting.pop())

    try:
        result = commit(store, snapshot, loser, on_phase=interleave)
    except CommitConflictError as error:
        named = error.version == 1 and "version 1" in str(error)
        return type(error).__name__ if named else f"the error does not name the winner: {error}"
    assert result.version == 2
    return "ok"


def _new(at: str, data_change: bool = True) -> Add:
    return file(uuid.uuid4().hex, at, data_change=data_change)


def _removal(label: str, at: str, data_change: bool = True) -> Remove:
    return Remove(label, data_change, 1, partition_values={"p": at}, size=100)


def _removals(at: str, data_change: bool = True) -> list[Remove]:
    return [_removal(label, at, data_change) for label in FILES[at]]


def _keys(at: str) -> frozenset[tuple[str, None]]:
    return frozenset((label, None) for label in FILES[at])


def _where(at: str) -> tuple[Expression, ...]:
    return (bind(parse_predicate(f"p = '{at}'"), COLUMNS),)


def _staged(name: str, *actions: StagedAction, **read: object) -> StagedCommit:
    return StagedCommit(Operation(name), actions, **read)  # type: ignore[arg-type]


def append(at: str) -> StagedCommit:
    """INSERT of given rows: reads nothing."""
    return _staged("WRITE", _new(at), blind_append=True)


def append_reading(at: str) -> StagedCommit:
    """INSERT … SELECT from a partition of the table itself."""
    return _staged("WRITE", _new(at), read_predicates=_where(at), read_files=_keys(at))


def overwrite(at: str) -> StagedCommit:
    """All rows replaced."""
    gone = [*_removals("a"), *_removals("b")]
    return _staged("WRITE", *gone, _new(at), read_whole_table=True)


def overwrite_partition(at: str) -> StagedCommit:
    """replace_where one partition."""
    return _staged("WRITE", *_removals(at), _new(at), read_predicates=_where(at))


def delete(at: str) -> StagedCommit:
    """DELETE with a predicate on the partition, which takes one whole file."""
    return _staged("DELETE", _removals(at)[0], read_predicates=_where(at), read_files=_keys(at))


def update(at: str) -> StagedCommit:
    """UPDATE: one file read and written anew."""
    return _staged("UPDATE", _removals(at)[0], _new(at), read_predicates=_where(at), read_files=_keys(at))


def optimize(at: str) -> StagedCommit:
    """The files of a partition written into one; no row changes."""
    gone = _removals(at, data_change=False)
    return _staged("OPTIMIZE", *gone, _new(at, data_change=False), read_files=_keys(at))


def alter(at: str) -> StagedCommit:
    """A property set."""
    del at
    return _staged("SET TBLPROPERTIES", metadata({"x": uuid.uuid4().hex}))


def upgrade(at: str) -> StagedCommit:
    """A feature added to the protocol."""
    del at
    return _staged("UPGRADE PROTOCOL", Protocol(1, 7, None, (*FEATURES, "checkConstraints")))


def stream(at: str) -> StagedCommit:
    """A batch of a stream, by its application id."""
    return _staged("STREAMING UPDATE", SetTransaction("app", 7), _new(at), blind_append=True)


def other_stream(at: str) -> StagedCommit:
    """A batch of another stream."""
    return _staged("STREAMING UPDATE", SetTransaction(uuid.uuid4().hex, 7), _new(at), blind_append=True)


def restore(at: str) -> StagedCommit:
    """An older version brought back: files leave, one returns; always serialisable."""
    returned = file("old", at)
    return _staged("RESTORE", *_removals(at), returned, read_whole_table=True, isolation="Serializable")


def analyze(at: str) -> StagedCommit:
    """Statistics: files added again as they are."""
    again = [file(label, at, data_change=False) for label in FILES[at]]
    return _staged("COMPUTE STATS", *again, read_files=_keys(at))


def domain(at: str) -> StagedCommit:
    """Configuration of a domain."""
    del at
    return _staged("SET DOMAIN", DomainMetadata("d", json.dumps({"x": uuid.uuid4().hex}), removed=False))


OPERATIONS: dict[str, Stage] = {
    stage.__name__: stage
    for stage in (
        append, append_reading, overwrite, overwrite_partition, delete, update, optimize, alter, upgrade,
        stream, other_stream, restore, analyze, domain,
    )
}  # fmt: skip
