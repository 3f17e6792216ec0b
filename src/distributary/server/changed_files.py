"""The file actions of one commit as a recipient gets them: chosen, filtered by policy, signed, written.

`CommitFiles` says which actions of a commit count, `FileLineWriter` keeps those that the policy shows and
writes their lines in either format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, dv_file_path
from distributary.delta.log.actions import Add, AddCdcFile, CommitActions, PartitionValues, Remove
from distributary.delta.schema.column_mapping import physical_name
from distributary.delta.schema.partition_values import parse_partition_column
from distributary.errors import DistributaryError
from distributary.expressions.arrow_evaluation import filter_mask
from distributary.server.answer_stream import signed_urls
from distributary.server.commit_range import CommitRange, VersionState
from distributary.server.query_answer import UrlSigner
from distributary.server.rendered_lines import SignedUrls, file_id, permitted_path
from distributary.server.served_table import ServedTable, bound_filter, unusable_filter
from distributary.sharing.capabilities import ResponseFormat
from distributary.sharing.delta_response import Cdc, DeltaFile, DeltaLine, DeltaSingleAction
from distributary.sharing.ndjson import encode_line
from distributary.sharing.parquet_response import ParquetFile, ParquetLine, plain_partition_values

FileAction = Add | Remove | AddCdcFile

_MERGE_METRICS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """Those file actions of a commit that count."""

    commit: CommitActions
    actions: tuple[FileAction, ...]

    @classmethod
    def of_actions(cls, commit: CommitActions) -> CommitFiles:
        """The files that change data: what streams read."""
        return cls(commit, tuple(action for action in commit.files if action.data_change))

    @classmethod
    def of_changes(cls, commit: CommitActions) -> CommitFiles:
        """Change files alone where there are some, else adds and removes: what the change feed reads."""
        if commit.change_files:
            return cls(commit, commit.change_files)
        return cls(commit, ()) if _is_empty_merge(commit) else cls.of_actions(commit)


class FileLineWriter:
    """Writes the lines of file actions under a policy."""

    def __init__(
        self,
        table: ServedTable,
        commits: CommitRange,
        signer: UrlSigner,
        response_format: ResponseFormat,
        file_ids: ResponseFormat,
    ) -> None:
        self._table = table
        self._commits = commits
        self._signer = signer
        self._format = response_format
        self._ids: ResponseFormat = file_ids
        self.expiration: int | None = None

    def visible(self, files: CommitFiles, state: VersionState) -> CommitFiles:
        """The actions with all that a line needs, without those that the policy hides."""
        actions = tuple(self._whole(files.commit, action, state) for action in files.actions)
        text = self._table.policy.partition_filter
        if text is None or not actions:
            return CommitFiles(files.commit, actions)
        shown = _matching(text, state, [action.partition_values or {} for action in actions])
        return CommitFiles(
            files.commit, tuple(action for action, seen in zip(actions, shown, strict=True) if seen)
        )

    def lines(self, commit: CommitActions, actions: Sequence[FileAction]) -> Iterator[bytes]:
        """The line of each action."""
        if not actions:
            return
        signed = self._signed(actions)
        moment = self._table.files.timeline.time_of(commit.version)
        urls = signed.urls.to_pylist()
        vectors = [None] * len(urls) if signed.vector_urls is None else signed.vector_urls.to_pylist()
        write = self._parquet_line if self._format == "parquet" else self._delta_line
        for action, url, vector in zip(actions, urls, vectors, strict=True):
            told = {
                "version": commit.version,
                "timestamp": moment,
                "expiration_timestamp": signed.expiration,
            }
            yield encode_line(write(action, url, vector, told))

    def _signed(self, actions: Sequence[FileAction]) -> SignedUrls:
        store = self._table.store
        paths = pa.array([permitted_path(store, action.path) for action in actions], pa.string())
        places = [_vector_path(action) for action in actions]
        vectors = pa.array([place and permitted_path(store, place) for place in places], pa.string())
        in_files = vectors if vectors.null_count < len(vectors) else None
        signed = signed_urls(self._signer, paths, in_files)
        known = self.expiration
        self.expiration = signed.expiration if known is None else min(known, signed.expiration)
        return signed

    def _parquet_line(
        self, action: FileAction, url: str, vector: str | None, told: dict[str, int]
    ) -> ParquetLine:
        file = ParquetFile(
            url=url,
            id=file_id(action.path, self._ids),
            partition_values=plain_partition_values(action.partition_values or {}),
            size=action.size or 0,
            stats=action.stats if isinstance(action, Add) else None,
            **told,
        )
        match action:
            case Add():
                return ParquetLine(add=file)
            case Remove():
                return ParquetLine(remove=file)
            case _:
                return ParquetLine(cdf=file)

    def _delta_line(
        self, action: FileAction, url: str, vector: str | None, told: dict[str, int]
    ) -> DeltaLine:
        place = _vector_path(action)
        return DeltaLine(
            file=DeltaFile(
                id=file_id(action.path, self._ids),
                deletion_vector_file_id=None if place is None else file_id(place, self._ids),
                delta_single_action=_single_action(action, url, vector),
                **told,
            )
        )

    def _whole(self, commit: CommitActions, action: FileAction, state: VersionState) -> FileAction:
        """The action; a tombstone that leaves out partition values or size gets them from its add."""
        if not isinstance(action, Remove):
            return action
        lacks_partition = bool(state.metadata.partitioning) and action.partition_values is None
        if not lacks_partition and action.size is not None:
            return action
        vector = None if action.deletion_vector is None else action.deletion_vector.unique_id
        found = self._commits.recorded_add(commit, action.path, vector)
        if found is None:
            return action
        return msgspec.structs.replace(
            action,
            partition_values=found.partition_values if lacks_partition else action.partition_values,
            size=found.size if action.size is None else action.size,
        )


def _single_action(action: FileAction, url: str, vector: str | None) -> DeltaSingleAction:
    values = action.partition_values or {}
    if isinstance(action, AddCdcFile):
        return DeltaSingleAction(cdc=Cdc(url, values, action.size, False, action.tags))
    shown = _shown(action.deletion_vector, vector)
    if isinstance(action, Add):
        add = msgspec.structs.replace(action, path=url, partition_values=values, deletion_vector=shown)
        return DeltaSingleAction(add=add)
    return DeltaSingleAction(remove=msgspec.structs.replace(action, path=url, deletion_vector=shown))


def _shown(vector: DeletionVectorDescriptor | None, url: str | None) -> DeletionVectorDescriptor | None:
    """A deletion vector as recipients see it: `p` with a URL, or inline as it is (RF-066)."""
    if vector is None or vector.storage_type == "i":
        return vector
    return msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=url or "")


def _vector_path(action: FileAction) -> str | None:
    vector = None if isinstance(action, AddCdcFile) else action.deletion_vector
    return None if vector is None or vector.storage_type == "i" else dv_file_path(vector)


def _matching(text: str, state: VersionState, values: list[PartitionValues]) -> list[bool]:
    """Which partition values a filter lets through; one that cannot be applied lets nothing through."""
    names = state.metadata.partitioning
    bound = bound_filter(text, state.schema, names)
    columns: dict[str, pa.Array] = {}
    for name in names:
        field = state.schema.field(name)
        key = physical_name(field, state.mapping_mode)
        texts = pa.array([found.get(key) for found in values], pa.string())
        columns[name] = parse_partition_column(texts, field.data_type, column=name)
    if not columns:
        raise unusable_filter()
    try:
        return filter_mask(bound, pa.table(columns)).to_pylist()
    except DistributaryError as error:
        raise unusable_filter() from error


def _is_empty_merge(commit: CommitActions) -> bool:
    """Whether a commit is a MERGE that says it changed no row: rewritten files then are no changes."""
    info: dict[str, Any] = commit.commit_info
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, dict):
        return False
    return all(str(metrics.get(name)) == "0" for name in _MERGE_METRICS)
