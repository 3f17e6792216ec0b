"""A provider without HTTP: answers to requests about tables, as lines, with URLs that are paths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from distributary import DeltaTable
from distributary.server.query_answer import ClientWishes, QueryAnswer
from distributary.server.rendered_cache import RenderedCache
from distributary.server.snapshot_cache import SnapshotCache
from distributary.server.table_changes import answer_changes
from distributary.server.table_metadata import answer_metadata, answer_version
from distributary.server.table_query import answer_query
from distributary.sharing.capabilities import parse_capabilities, parse_file_id_hash
from distributary.sharing.error_response import InvalidParameterError
from distributary.sharing.query_request import (
    parse_changes_request,
    parse_metadata_request,
    parse_query_request,
    parse_version_request,
)
from distributary.sharing.table_policy import TablePolicy

EXPIRATION = 4_000_000_000_000


class PathUrls:
    """URLs that tell what was signed."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.signed: list[str] = []

    def sign(self, paths: pa.Array) -> tuple[pa.Array, int]:
        self.signed += paths.to_pylist()
        return pc.binary_join_element_wise(self.prefix, paths, ""), EXPIRATION


class PlainTokens:
    """Tokens that are their own state."""

    def issue(self, kind: str, state: Mapping[str, int | str], lifetime: int = 0) -> str:
        return json.dumps([kind, dict(state)])

    def read(self, kind: str, token: str) -> Mapping[str, int | str]:
        found = json.loads(token)
        if found[0] != kind:
            raise InvalidParameterError("another kind of token")
        return found[1]


@dataclass(frozen=True)
class Answered:
    """An answer that was read to its end."""

    answer: QueryAnswer
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.answer.headers}

    @property
    def version(self) -> int:
        return int(self.headers["delta-table-version"])

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    def all(self, key: str) -> list[dict[str, Any]]:
        return [line[key] for line in self.lines if key in line]

    @property
    def files(self) -> list[dict[str, Any]]:
        return self.all("file")

    @property
    def end(self) -> dict[str, Any] | None:
        return next(iter(self.all("endStreamAction")), None)

    @property
    def kinds(self) -> list[str]:
        return [next(iter(line)) for line in self.lines]


@dataclass
class Provider:
    """Answers requests about tables on the local disk."""

    folder: Path
    cache: SnapshotCache = field(default_factory=SnapshotCache)
    tokens: PlainTokens = field(default_factory=PlainTokens)
    urls: PathUrls = field(default_factory=lambda: PathUrls("https://files.example/"))

    def query(self, table, body=None, capabilities=None, file_ids=None, **policy) -> Answered:
        request = parse_query_request(json.dumps(body or {}).encode())
        wishes = self._wishes(capabilities, file_ids)
        return _read(
            answer_query(self.cache, self.policy(table, policy), request, wishes, self.urls, self.tokens)
        )

    def changes(
        self, table, parameters, capabilities=None, file_ids=None, most_versions=0, **policy
    ) -> Answered:
        request = parse_changes_request({name: str(value) for name, value in parameters.items()})
        wishes = self._wishes(capabilities, file_ids)
        return _read(
            answer_changes(
                self.cache,
                self.policy(table, policy),
                request,
                wishes,
                self.urls,
                self.tokens,
                most_versions=most_versions,
            )
        )

    def metadata(self, table, parameters=None, capabilities=None, **policy) -> Answered:
        request = parse_metadata_request(parameters or {})
        wishes = self._wishes(capabilities, None)
        return _read(answer_metadata(self.cache, self.policy(table, policy), request, wishes))

    def version(self, table, parameters=None, **policy) -> int:
        request = parse_version_request(parameters or {})
        return answer_version(self.cache, self.policy(table, policy), request).version

    def policy(self, table, fields) -> TablePolicy:
        return TablePolicy(location=str(self.folder / table), **fields)

    def create(self, name: str, data: pa.Table, partition_by=(), properties=None) -> DeltaTable:
        """A table with one version for its creation and one for its first rows."""
        path = self.folder / name
        table = DeltaTable.create(path, data.schema, partition_by=partition_by, properties=properties)
        table.append(data)
        return table

    def write_log(self, name: str, *commits: list[dict[str, Any]]) -> Path:
        """A table of a log that is written by hand; its data files are not there."""
        log = self.folder / name / "_delta_log"
        log.mkdir(parents=True)
        for version, actions in enumerate(commits):
            lines = b"".join(msgspec.json.encode(action) + b"\n" for action in actions)
            (log / f"{version:020d}.json").write_bytes(lines)
        return log.parent

    @staticmethod
    def _wishes(capabilities: str | None, file_ids: str | None) -> ClientWishes:
        return ClientWishes(parse_capabilities(capabilities), parse_file_id_hash(file_ids))


def _read(answer: QueryAnswer) -> Answered:
    return Answered(answer, b"".join(answer.chunks))


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    """A provider whose rendered lines are cached in files where tables are large."""
    cache = SnapshotCache(rendered=RenderedCache(tmp_path / "cache"))
    return Provider(tmp_path / "lake", cache)


@pytest.fixture
def orders(provider: Provider) -> DeltaTable:
    """Orders of six countries, a file each; version 1 has them all."""
    countries = ["AT", "DE", "FR", "IT", "PL", None]
    rows = pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "amount": pa.array([at * 1.5 for at in range(60)], pa.float64()),
            "country": pa.array([countries[at // 10] for at in range(60)]),
        }
    )
    return provider.create("orders", rows, ["country"], {"delta.enableChangeDataFeed": "true"})


def metadata(schema: list[tuple[str, str]], partition_by=(), **configuration: str) -> dict[str, Any]:
    """A metaData action."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in schema]
    return {
        "metaData": {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partition_by),
            "configuration": configuration,
            "createdTime": 1,
        }
    }


def add(path: str, partition=None, stats: Any = None, **more: Any) -> dict[str, Any]:
    """An add action."""
    text = stats if isinstance(stats, str) or stats is None else json.dumps(stats)
    found = {"path": path, "partitionValues": partition or {}, "size": 10, "modificationTime": 1,
             "dataChange": True, **more}  # fmt: skip
    return {"add": {**found, "stats": text} if text is not None else found}


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
VECTORS = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
}


@pytest.fixture(scope="session")
def logs():
    """The pieces that logs are written of by hand."""
    return LogPieces


class LogPieces:
    metadata = staticmethod(metadata)
    add = staticmethod(add)
    protocol = PROTOCOL
    vectors = VECTORS
