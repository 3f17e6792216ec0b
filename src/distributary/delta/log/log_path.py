"""The names of the files in a `_delta_log` directory.

Implements S4 "Delta Log Entries" and "Checkpoints" with the names of newer editions.
A name that is none of these (temporary files, Hadoop's hidden checksums, foreign files)
parses to `None` and is ignored by every reader.
"""

from __future__ import annotations

import enum
import re

import msgspec

LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = "_delta_log/_sidecars"
LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
MAX_VERSION = 2**63 - 1

_NAME = re.compile(
    r"(?P<version>[0-9]{20})\."
    r"(?:(?P<commit>json)|(?P<crc>crc)|(?P<end>[0-9]{20})\.compacted\.json"
    r"|checkpoint(?:\.(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})|\.(?P<uuid>[0-9A-Za-z-]+))?"
    r"\.(?P<format>parquet|json))"
)


class LogFileKind(enum.Enum):
    """What a file of the log directory is."""

    COMMIT = "commit"
    CHECKPOINT = "checkpoint"
    MULTI_PART_CHECKPOINT = "multi-part checkpoint"
    UUID_CHECKPOINT = "v2 checkpoint"
    COMPACTION = "compaction"
    CHECKSUM = "checksum"


class LogPath(msgspec.Struct, frozen=True):
    """A parsed name with what the listing said of the file."""

    name: str
    kind: LogFileKind
    version: int
    size: int = 0
    last_modified: int = 0
    etag: str | None = None
    part: int = 0
    parts: int = 0
    end_version: int = -1

    @property
    def path(self) -> str:
        """The key below the table's root."""
        return f"{LOG_DIRECTORY}/{self.name}"

    def same_file(self, other: LogPath) -> bool:
        """Whether two listings saw the same bytes under one name: by etag where the store gives them."""
        if self.etag is not None and other.etag is not None:
            return (self.name, self.etag) == (other.name, other.etag)
        return (self.name, self.size, self.last_modified) == (other.name, other.size, other.last_modified)


def parse_log_path(
    name: str, size: int = 0, last_modified: int = 0, etag: str | None = None
) -> LogPath | None:
    """Parse the name of a file in the log directory; `None` where it is not the log's."""
    match = _NAME.fullmatch(name)
    if match is None or int(match["version"]) > MAX_VERSION:
        return None
    kind = _kind(match)
    if kind is None:
        return None
    return LogPath(
        name=name,
        kind=kind,
        version=int(match["version"]),
        size=size,
        last_modified=last_modified,
        etag=etag,
        part=int(match["part"] or 0),
        parts=int(match["parts"] or 0),
        end_version=int(match["end"] or -1),
    )


def _kind(match: re.Match[str]) -> LogFileKind | None:
    if match["commit"]:
        return LogFileKind.COMMIT
    if match["crc"]:
        return LogFileKind.CHECKSUM
    if match["end"]:
        return LogFileKind.COMPACTION
    if match["uuid"]:
        return LogFileKind.UUID_CHECKPOINT
    if match["format"] == "json":
        return None
    return LogFileKind.MULTI_PART_CHECKPOINT if match["part"] else LogFileKind.CHECKPOINT


def commit_name(version: int) -> str:
    """The file name of a version's commit (LR-001)."""
    return f"{version:020d}.json"


def commit_path(version: int) -> str:
    """The key of a version's commit below the table's root."""
    return f"{LOG_DIRECTORY}/{commit_name(version)}"


def checksum_path(version: int) -> str:
    """The key of a version's checksum file below the table's root."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def checkpoint_path(version: int) -> str:
    """The key of a classic single-file checkpoint below the table's root (CK-004)."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def multi_part_checkpoint_path(version: int, part: int, parts: int) -> str:
    """The key of one fragment, counted from 1, of a multi-part checkpoint (CK-005)."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"
