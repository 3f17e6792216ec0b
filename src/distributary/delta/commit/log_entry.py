"""Rendering a staged commit as the log entry of one version.

The first line is always `commitInfo`: who, what, on which version it was based, and an id
of this very attempt's writer, by which the entry is recognised after a lost answer. With
in-commit timestamps the entry carries its own time, later than that of the version before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from distributary import __version__
from distributary.delta.commit.row_tracking import tracks_rows, with_row_ids
from distributary.delta.commit.staged_commit import StagedAction, StagedCommit
from distributary.delta.log.actions import (
    Add,
    AddCdcFile,
    DomainMetadata,
    LogLine,
    Metadata,
    Protocol,
    Remove,
    SetTransaction,
    encode_lines,
)
from distributary.delta.log.history import in_commit_time, read_commit
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.table_properties import TableProperties
from distributary.storage.object_store import ObjectStore

ENGINE = f"distributary/{__version__}"
ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"

# The field of a log line for each action, in the order in which an entry has them.
_LINE_FIELDS: dict[type, str] = {
    Protocol: "protocol",
    Metadata: "meta_data",
    SetTransaction: "txn",
    DomainMetadata: "domain_metadata",
    Remove: "remove",
    Add: "add",
    AddCdcFile: "cdc",
}


class EntryContext(msgspec.Struct, frozen=True):
    """What an entry needs beside its actions: the version it follows, ids and times."""

    store: ObjectStore
    base: Snapshot | None
    read_version: int | None
    commit_id: str
    isolation: str
    now: int

    @property
    def version(self) -> int:
        """The version that the entry will be."""
        return 0 if self.base is None else self.base.version + 1


def render_entry(staged: StagedCommit, context: EntryContext) -> bytes:
    """The bytes of the log entry."""
    metadata = staged.metadata or (context.base.metadata if context.base else None)
    protocol = staged.protocol or (context.base.protocol if context.base else None)
    assert metadata is not None
    assert protocol is not None
    moment = _in_commit_timestamp(metadata, context)
    actions = tuple(_with_enablement(action, context, moment) for action in staged.actions)
    if tracks_rows(protocol):
        actions = with_row_ids(actions, context.base, context.version)
    info = LogLine(commit_info=msgspec.Raw(msgspec.json.encode(_commit_info(staged, context, moment))))
    order = list(_LINE_FIELDS)
    ordered = sorted(actions, key=lambda action: order.index(type(action)))
    return encode_lines([info, *map(_line, ordered)])


def _line(action: StagedAction) -> LogLine:
    fields: dict[str, Any] = {_LINE_FIELDS[type(action)]: action}
    return LogLine(**fields)


def _commit_info(staged: StagedCommit, context: EntryContext, moment: int | None) -> dict[str, Any]:
    info: dict[str, Any] = {}
    if moment is not None:
        info["inCommitTimestamp"] = moment
    info["timestamp"] = context.now if moment is None else moment
    info["operation"] = staged.operation.name
    info["operationParameters"] = {
        name: _parameter(value) for name, value in staged.operation.parameters.items()
    }
    if context.read_version is not None:
        info["readVersion"] = context.read_version
    info["isolationLevel"] = context.isolation
    info["isBlindAppend"] = staged.blind_append
    info["operationMetrics"] = {name: str(value) for name, value in staged.operation.metrics.items()}
    if staged.operation.user_metadata is not None:
        info["userMetadata"] = staged.operation.user_metadata
    info["engineInfo"] = ENGINE
    info["txnId"] = context.commit_id
    return info


def _parameter(value: Any) -> str:
    """A parameter as Delta's history writes it: text as it is, anything else as JSON text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _in_commit_timestamp(metadata: Metadata, context: EntryContext) -> int | None:
    """The time that the entry carries: now, but later than the version before it."""
    if not _uses_in_commit_timestamps(metadata):
        return None
    base = context.base
    if base is None or not _uses_in_commit_timestamps(base.metadata):
        return max(context.now, 0 if base is None else base.segment.last_modified + 1)
    last = base.last_commit
    previous = in_commit_time(last if last is not None else read_commit(context.store, base.version))
    return max(context.now, previous + 1)


def _uses_in_commit_timestamps(metadata: Metadata) -> bool:
    return TableProperties.from_configuration(metadata.properties).in_commit_timestamps.enabled


def _with_enablement(action: StagedAction, context: EntryContext, moment: int | None) -> StagedAction:
    """Metadata that switches in-commit timestamps on later says from which version they hold."""
    base = context.base
    if not isinstance(action, Metadata) or base is None or moment is None:
        return action
    if _uses_in_commit_timestamps(base.metadata):
        return action
    configuration = {
        **action.properties,
        ENABLEMENT_VERSION: str(context.version),
        ENABLEMENT_TIMESTAMP: str(moment),
    }
    return msgspec.structs.replace(action, configuration=configuration)
