"""What a task needs to know of a table, small enough to travel to it: metadata, protocol and some files."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from distributary.delta.log.actions import Add, CommitActions, DomainMetadata, Metadata, Protocol
from distributary.delta.log.log_segment import LogSegment
from distributary.delta.log.snapshot import Snapshot


class ShippedFiles(msgspec.Struct, frozen=True):
    """Files of one version with what is needed to read them; the log is not read again."""

    root: str
    version: int
    metadata: Metadata
    protocol: Protocol
    files: tuple[Add, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()

    def snapshot(self) -> Snapshot:
        """A state of the table that has just these files."""
        commit = CommitActions(
            self.version,
            files=self.files,
            metadata=self.metadata,
            protocol=self.protocol,
            domains=self.domains,
        )
        return Snapshot(self.root, LogSegment(self.version, None, (), None), None, [commit])


def ship_files(snapshot: Snapshot, files: Sequence[Add]) -> ShippedFiles:
    """Some files of a snapshot, for a task."""
    return ShippedFiles(
        snapshot.root,
        snapshot.version,
        snapshot.metadata,
        snapshot.protocol,
        tuple(files),
        tuple(snapshot.domains.values()),
    )
