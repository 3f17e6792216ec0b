"""A builder of Delta tables for the tests of reading: plain json and pyarrow, none of our own writer.

`LogBuilder` writes commits, data files and checkpoints of every kind, and replays its own log the slow
and obvious way (`state`), so that what a snapshot shows can be compared with the truth.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.storage.object_store import ObjectStore, open_store

Action = dict[str, Any]

TEXT, LONG, INT, BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()
TEXT_MAP = pa.map_(TEXT, TEXT)
VECTOR = pa.struct(
    [
        ("storageType", TEXT),
        ("pathOrInlineDv", TEXT),
        ("offset", INT),
        ("sizeInBytes", INT),
        ("cardinality", LONG),
    ]
)
ADD = pa.struct(
    [
        ("path", TEXT), ("partitionValues", TEXT_MAP), ("size", LONG), ("modificationTime", LONG),
        ("dataChange", BOOL), ("tags", TEXT_MAP), ("deletionVector", VECTOR), ("baseRowId", LONG),
        ("defaultRowCommitVersion", LONG), ("clusteringProvider", TEXT), ("stats", TEXT),
    ]
)  # fmt: skip
REMOVE = pa.struct(
    [
        ("path", TEXT), ("deletionTimestamp", LONG), ("dataChange", BOOL), ("extendedFileMetadata", BOOL),
        ("partitionValues", TEXT_MAP), ("size", LONG), ("deletionVector", VECTOR), ("baseRowId", LONG),
        ("defaultRowCommitVersion", LONG),
    ]
)  # fmt: skip
METADATA = pa.struct(
    [
        ("id", TEXT), ("name", TEXT), ("description", TEXT),
        ("format", pa.struct([("provider", TEXT), ("options", TEXT_MAP)])), ("schemaString", TEXT),
        ("partitionColumns", pa.list_(TEXT)), ("configuration", TEXT_MAP), ("createdTime", LONG),
    ]
)  # fmt: skip
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", INT), ("minWriterVersion", INT),
        ("readerFeatures", pa.list_(TEXT)), ("writerFeatures", pa.list_(TEXT)),
    ]
)  # fmt: skip
CHECKPOINT_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", TEXT), ("version", LONG), ("lastUpdated", LONG)])),
        ("add", ADD),
        ("remove", REMOVE),
        ("metaData", METADATA),
        ("protocol", PROTOCOL),
        ("domainMetadata", pa.struct([("domain", TEXT), ("configuration", TEXT), ("removed", BOOL)])),
        ("checkpointMetadata", pa.struct([("version", LONG), ("tags", TEXT_MAP)])),
        (
            "sidecar",
            pa.struct(
                [("path", TEXT), ("sizeInBytes", LONG), ("modificationTime", LONG), ("tags", TEXT_MAP)]
            ),
        ),
    ]
)
SIDECAR_SCHEMA = pa.schema([("add", ADD), ("remove", REMOVE)])
MAPS = ("partitionValues", "tags", "configuration", "options")
START = 1_700_000_000_000


def schema_string(columns: Mapping[str, str]) -> str:
    """The schema text of flat columns."""
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


def file_key(action: Action) -> tuple[str, str | None]:
    vector = action.get("deletionVector")
    if vector is None:
        return action["path"], None
    at = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return action["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}{at}"


@dataclass
class TableState:
    """What a version holds, replayed from plain JSON."""

    version: int = -1
    protocol: Action | None = None
    metadata: Action | None = None
    adds: dict[tuple[str, str | None], Action] = field(default_factory=dict)
    removes: dict[tuple[str, str | None], Action] = field(default_factory=dict)
    transactions: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        for action in actions:
            ((kind, body),) = action.items()
            if kind in ("add", "remove"):
                self.adds.pop(file_key(body), None)
                self.removes.pop(file_key(body), None)
                (self.adds if kind == "add" else self.removes)[file_key(body)] = body
            elif kind == "protocol":
                self.protocol = body
            elif kind == "metaData":
                self.metadata = body
            elif kind == "txn":
                self.transactions[body["appId"]] = body
            elif kind == "domainMetadata":
                self.domains[body["domain"]] = body

    def shown(self) -> dict[str, Any]:
        """The state as plain values that can be compared with `shown_by` of a snapshot."""
        metadata, protocol = self.metadata or {}, self.protocol or {}
        return {
            "version": self.version,
            "protocol": (
                protocol.get("minReaderVersion"),
                protocol.get("minWriterVersion"),
                tuple(protocol.get("readerFeatures") or ()),
                tuple(protocol.get("writerFeatures") or ()),
            ),
            "metadata": {
                name: metadata.get(name) or None
                for name in ("id", "name", "description", "schemaString", "createdTime")
            },
            "partitioning": tuple(metadata.get("partitionColumns") or ()),
            "configuration": dict(metadata.get("configuration") or {}),
            "adds": sorted((_shown_add(add) for add in self.adds.values()), key=repr),
            "tombstones": sorted((_shown_remove(remove) for remove in self.removes.values()), key=repr),
            "transactions": {name: txn["version"] for name, txn in self.transactions.items()},
            "domains": {n: d["configuration"] for n, d in self.domains.items() if not d["removed"]},
        }


def _shown_add(add: Action) -> tuple[Any, ...]:
    return (
        file_key(add),
        tuple(sorted((add.get("partitionValues") or {}).items())),
        add["size"],
        add["modificationTime"],
        add.get("stats"),
        tuple(sorted((add.get("tags") or {}).items())),
        (add.get("deletionVector") or {}).get("cardinality"),
        add.get("baseRowId"),
    )


def _shown_remove(remove: Action) -> tuple[Any, ...]:
    return file_key(remove), remove.get("deletionTimestamp"), remove.get("size")


def shown_by(snapshot: Snapshot) -> dict[str, Any]:
    """All that a snapshot shows, as plain values: every column of every file is read."""
    protocol, metadata = snapshot.protocol, snapshot.metadata
    adds = [
        (
            (add.path, None if add.deletion_vector is None else add.deletion_vector.unique_id),
            tuple(sorted((add.partition_values or {}).items())),
            add.size,
            add.modification_time,
            add.stats,
            tuple(sorted((add.tags or {}).items())),
            None if add.deletion_vector is None else add.deletion_vector.cardinality,
            add.base_row_id,
        )
        for add in snapshot.files.adds()
    ]
    removes = [
        (
            (remove.path, None if remove.deletion_vector is None else remove.deletion_vector.unique_id),
            remove.deletion_timestamp,
            remove.size,
        )
        for remove in snapshot.tombstones()
    ]
    return {
        "version": snapshot.version,
        "protocol": (
            protocol.min_reader_version,
            protocol.min_writer_version,
            protocol.reader_features or (),
            protocol.writer_features or (),
        ),
        "metadata": {
            "id": metadata.id,
            "name": metadata.name or None,
            "description": metadata.description or None,
            "schemaString": metadata.schema_string,
            "createdTime": metadata.created_time,
        },
        "partitioning": metadata.partitioning,
        "configuration": metadata.properties,
        "adds": sorted(adds, key=repr),
        "tombstones": sorted(removes, key=repr),
        "transactions": {name: txn.version for name, txn in snapshot.transactions.items()},
        "domains": {name: domain.configuration for name, domain in snapshot.domains.items()},
    }


class LogBuilder:
    """A Delta table under construction."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)
        self.commits: dict[int, list[Action]] = {}

    @property
    def store(self) -> ObjectStore:
        return open_store(str(self.root))

    @property
    def version(self) -> int:
        return max(self.commits, default=-1)

    def load(self, version: int | None = None) -> Snapshot:
        return load_snapshot(self.store, version)

    def protocol(self, reader: int = 1, writer: int = 2, **fields: Any) -> Action:
        return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **fields}}

    def metadata(self, columns: Mapping[str, str] | None = None, **fields: Any) -> Action:
        body = {
            "id": "5b8f5f5e-0000-4000-8000-000000000001",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_string(columns or {"id": "long", "value": "string"}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": START,
        }
        return {"metaData": {**body, **fields}}

    def add(self, path: str, **fields: Any) -> Action:
        body: Action = {
            "path": path,
            "partitionValues": {},
            "size": 100 + len(path),
            "modificationTime": START,
            "dataChange": True,
        }
        return {"add": {**body, **fields}}

    def remove(self, path: str, **fields: Any) -> Action:
        return {"remove": {"path": path, "deletionTimestamp": START + 1, "dataChange": True, **fields}}

    def txn(self, app: str, version: int) -> Action:
        return {"txn": {"appId": app, "version": version, "lastUpdated": START}}

    def vector(self, name: str, offset: int | None = 1, rows: int = 1) -> Action:
        text = f"{name:x<20}"
        body = {"storageType": "u", "pathOrInlineDv": text, "sizeInBytes": 34, "cardinality": rows}
        return body if offset is None else {**body, "offset": offset}

    def data_file(self, path: str, columns: Mapping[str, Any], **fields: Any) -> Action:
        """Write a Parquet file of rows and give its add action."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table(dict(columns))
        pq.write_table(table, place)
        stats = json.dumps({"numRecords": table.num_rows})
        return self.add(path, **{"size": place.stat().st_size, "stats": stats, **fields})

    def create(self, *actions: Action, **metadata: Any) -> int:
        return self.commit(self.protocol(), self.metadata(**metadata), *actions)

    def commit(self, *actions: Action, version: int | None = None, time: int | None = None) -> int:
        """Write the next commit, or one of a given number."""
        number = self.version + 1 if version is None else version
        info = {"timestamp": START + number, "operation": "WRITE", "operationParameters": {}}
        lines = [{"commitInfo": info}, *actions]
        self.write(number, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        self.commits[number] = [deepcopy(action) for action in actions]
        if time is not None:
            self.set_time(number, time)
        return number

    def write(self, version: int, data: bytes) -> Path:
        """Write the bytes of a commit file."""
        path = self.commit_file(version)
        path.write_bytes(data)
        return path

    def commit_file(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"

    def set_time(self, version: int, milliseconds: int) -> None:
        os.utime(self.commit_file(version), ns=(milliseconds * 1_000_000, milliseconds * 1_000_000))

    def state(self, version: int | None = None) -> TableState:
        """The truth: every commit from 0 replayed in order."""
        target = self.version if version is None else version
        state = TableState(target)
        for number in range(target + 1):
            state.apply(self.commits[number])
        return deepcopy(state)

    def checkpoint(
        self,
        version: int | None = None,
        kind: str = "classic",
        parts: int = 2,
        hint: bool = True,
        **options: Any,
    ) -> list[Path]:
        """Write a checkpoint (classic, multi-part, v2-json, v2-parquet) and give its files, sidecars too."""
        number = self.version if version is None else version
        small, files = _checkpoint_rows(self.state(number))
        if kind == "classic":
            paths = [self.log / f"{number:020d}.checkpoint.parquet"]
            write_rows(paths[0], [*small, *files], CHECKPOINT_SCHEMA, **options)
        elif kind == "multi-part":
            paths = self._multi_part(number, [*small, *files], parts, options)
        else:
            paths = self._v2(number, kind.removeprefix("v2-"), small, files, parts, options)
        if hint:
            self.hint(
                {"version": number, "size": len(small) + len(files)}
                | ({"parts": parts} if kind == "multi-part" else {})
            )
        return paths

    def _multi_part(
        self, number: int, rows: list[Action], parts: int, options: Mapping[str, Any]
    ) -> list[Path]:
        paths = [
            self.log / f"{number:020d}.checkpoint.{at:010d}.{parts:010d}.parquet"
            for at in range(1, parts + 1)
        ]
        for at, path in enumerate(paths):
            write_rows(path, rows[at::parts], CHECKPOINT_SCHEMA, **options)
        return paths

    def _v2(
        self,
        number: int,
        form: str,
        small: list[Action],
        files: list[Action],
        parts: int,
        options: Mapping[str, Any],
    ) -> list[Path]:
        folder = self.log / "_sidecars"
        folder.mkdir(exist_ok=True)
        sidecars = [
            folder / f"{number:020d}.checkpoint.{at:010d}.{uuid.uuid4()}.parquet" for at in range(parts)
        ]
        for at, path in enumerate(sidecars):
            write_rows(path, files[at::parts], SIDECAR_SCHEMA, **options)
        marks = [
            {"sidecar": {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": START}}
            for path in sidecars
        ]
        rows: list[Action] = [{"checkpointMetadata": {"version": number}}, *small, *marks]
        main = self.log / f"{number:020d}.checkpoint.{uuid.uuid4()}.{form}"
        if form == "json":
            main.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            write_rows(main, rows, CHECKPOINT_SCHEMA, **options)
        return [main, *sidecars]

    def hint(self, content: Mapping[str, Any] | bytes | None) -> None:
        """Write `_last_checkpoint`, or take it away."""
        path = self.log / "_last_checkpoint"
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content if isinstance(content, bytes) else json.dumps(dict(content)).encode())

    def clean(self, before: int) -> None:
        """Delete commits and checkpoints older than a version, as log cleanup does."""
        for path in self.log.iterdir():
            if path.name[:20].isdigit() and int(path.name[:20]) < before:
                path.unlink()

    def drop(self) -> None:
        """Delete the whole table, so that another can be made at the same place."""
        shutil.rmtree(self.root)
        self.log.mkdir(parents=True)
        self.commits.clear()


def _checkpoint_rows(state: TableState) -> tuple[list[Action], list[Action]]:
    small: list[Action] = [{"protocol": state.protocol}, {"metaData": state.metadata}]
    small += [{"txn": txn} for txn in state.transactions.values()]
    small += [{"domainMetadata": domain} for domain in state.domains.values() if not domain["removed"]]
    files: list[Action] = [{"add": {**add, "dataChange": False}} for add in state.adds.values()]
    files += [{"remove": {**remove, "dataChange": False}} for remove in state.removes.values()]
    return small, files


def write_rows(
    path: Path, rows: Sequence[Action], schema: pa.Schema, group: int = 1000, **options: Any
) -> None:
    """Write actions as the rows of a checkpoint file, with page checksums unless told otherwise."""
    table = pa.Table.from_pylist([{k: _pairs(v) for k, v in row.items()} for row in rows], schema=schema)
    settings: dict[str, Any] = {"compression": "snappy", "write_page_checksum": True, "store_schema": False}
    pq.write_table(table, path, row_group_size=group, **{**settings, **options})


def _pairs(body: Any) -> Any:
    """A body with its maps as lists of pairs, as pyarrow wants them."""
    if not isinstance(body, dict):
        return body
    return {
        key: list(value.items()) if key in MAPS and isinstance(value, dict) else _pairs(value)
        for key, value in body.items()
    }


def busy_table(log: LogBuilder) -> None:
    """Eleven commits that use every kind of state: versions 0 to 10."""
    features = {
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "domainMetadata"],
    }
    log.commit(
        log.protocol(3, 7, **features),
        log.metadata(
            {"id": "long", "value": "string", "p": "string"},
            name="busy",
            partitionColumns=["p"],
            configuration={"delta.appendOnly": "false", "x": "y"},
        ),
    )
    for number in range(1, 11):
        actions = [
            log.add(
                f"p={at}/file-{number}-{at}.parquet",
                partitionValues={"p": str(at) if at else None},
                size=1000 * number + at,
                stats=json.dumps(
                    {"numRecords": number, "minValues": {"id": at}, "maxValues": {"id": number}}
                ),
                **({"deletionVector": log.vector(f"v{number}", rows=number)} if at == 2 else {}),
                **({"tags": {"t": str(number)}, "baseRowId": number} if at == 1 else {}),
            )
            for at in range(4)
        ]
        if number > 2:
            actions.append(log.remove(f"p=0/file-{number - 1}-0.parquet", size=1000 * (number - 1)))
        actions.append(log.txn(f"app-{number % 3}", 100 - number))
        actions.append(
            {
                "domainMetadata": {
                    "domain": f"d{number % 2}",
                    "configuration": f"c{number}",
                    "removed": number == 9,
                }
            }
        )
        log.commit(*actions)


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """An empty table to write a log into."""
    return LogBuilder(tmp_path / "table")


@pytest.fixture
def new_log(tmp_path: Path) -> Callable[[], LogBuilder]:
    """Makes as many empty tables as a test asks for."""

    def make() -> LogBuilder:
        return LogBuilder(tmp_path / uuid.uuid4().hex)

    return make


@pytest.fixture
def busy_log(log: LogBuilder) -> LogBuilder:
    """A table of eleven commits with every kind of state."""
    busy_table(log)
    return log


@pytest.fixture(scope="session")
def shown() -> Callable[[Snapshot], dict[str, Any]]:
    """Gives all that a snapshot shows as plain values, comparable with `LogBuilder.state().shown()`."""
    return shown_by


@pytest.fixture(scope="session")
def make_log() -> Callable[[Path], LogBuilder]:
    """Makes an empty table at a place, for tests that run many examples."""
    return LogBuilder
