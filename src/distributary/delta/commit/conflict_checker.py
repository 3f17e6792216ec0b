"""Whether a staged commit still holds after another writer's commit came first.

Implements LW-016 and the isolation levels of Delta Lake. One function a rule; each takes
what this transaction read and wants to write, and the winning commit, and raises an error
that says which commit won and what to do. Nothing is read here but what is handed in.

- WriteSerializable (the default): the order of commits may differ from the order of reads
  for blind appends; a concurrent blind append never conflicts.
- Serializable: as if all transactions had run one after the other, in log order.
- A transaction that only rearranges files (dataChange=false everywhere) does not care what
  others append.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from distributary.delta.commit.staged_commit import StagedCommit
from distributary.delta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentDomainError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from distributary.delta.log.actions import Add, AddCdcFile, CommitActions, Remove
from distributary.delta.log.active_files import FileBlock, FileSelection
from distributary.delta.log.checkpoint_rows import TableRows
from distributary.delta.log.file_columns import adds_to_table
from distributary.delta.log.reconciliation import FileKey, file_key
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.file_pruning import FilePruner
from distributary.storage.log_paths import canonical_path

SERIALIZABLE = "Serializable"
WRITE_SERIALIZABLE = "WriteSerializable"
SNAPSHOT_ISOLATION = "SnapshotIsolation"


class Contest(msgspec.Struct, frozen=True):
    """A staged commit, what it read, and the commit that came first."""

    staged: StagedCommit
    read: Snapshot
    winner: CommitActions
    isolation: str

    def key(self, action: Add) -> FileKey:
        """The identity of a file action of the table."""
        return file_key(action, partial(canonical_path, self.read.root))


def effective_isolation(staged: StagedCommit, table_level: str) -> str:
    """The level that holds for a commit: its own, or the table's; none of them for mere rearranging."""
    only_files = all(isinstance(action, Add | Remove | AddCdcFile) for action in staged.actions)
    if staged.actions and only_files and not staged.changes_data:
        return SNAPSHOT_ISOLATION
    return staged.isolation or table_level


def check_conflicts(contest: Contest) -> None:
    """Raise where the winning commit stands in the way."""
    for rule in RULES:
        rule(contest)


def refuse_when_the_protocol_changed(contest: Contest) -> None:
    """Another protocol may forbid what this commit does."""
    if contest.winner.protocol is not None:
        raise _conflict(ProtocolChangedError, contest, "changed the protocol of the table")


def refuse_when_the_metadata_changed(contest: Contest) -> None:
    """Another schema, partitioning or property may make the files of this commit wrong."""
    if contest.winner.metadata is not None:
        raise _conflict(MetadataChangedError, contest, "changed the table's schema or properties")


def refuse_when_the_same_application_committed(contest: Contest) -> None:
    """A transaction id must not be used twice."""
    ours = {txn.app_id for txn in contest.staged.transactions}
    both = sorted(ours & {txn.app_id for txn in contest.winner.transactions})
    if both:
        raise _conflict(
            ConcurrentTransactionError, contest, f"was made for the same application id ({both[0]})"
        )


def refuse_when_the_same_domain_changed(contest: Contest) -> None:
    """Domain metadata is replaced whole, so a change in between would be lost."""
    ours = {domain.domain for domain in contest.staged.domains}
    both = sorted(ours & {domain.domain for domain in contest.winner.domains})
    if both:
        raise _conflict(ConcurrentDomainError, contest, f"changed the same domain metadata ({both[0]})")


def refuse_when_files_were_added_that_should_have_been_read(contest: Contest) -> None:
    """New rows that match what this transaction read would have changed its result."""
    adds = [add for add in contest.winner.adds if add.data_change]
    staged = contest.staged
    if not adds or not (staged.read_whole_table or staged.read_predicates):
        return
    if contest.isolation == SNAPSHOT_ISOLATION:
        return
    blind = contest.winner.commit_info.get("isBlindAppend") is True
    if blind and contest.isolation == WRITE_SERIALIZABLE and staged.metadata is None:
        return
    if staged.read_whole_table or _may_match(contest, adds):
        raise _conflict(ConcurrentAppendError, contest, "added files that this transaction should have read")


def refuse_when_a_file_was_removed_that_was_read(contest: Contest) -> None:
    """Files that this transaction read are gone, with their rows or into other files."""
    if not contest.winner.removes:
        return
    keys = {file_key(remove, partial(canonical_path, contest.read.root)) for remove in contest.winner.removes}
    if contest.staged.read_whole_table or keys & contest.staged.read_files:
        raise _conflict(ConcurrentDeleteReadError, contest, "removed files that this transaction read")


def refuse_when_a_file_was_removed_that_is_to_be_removed(contest: Contest) -> None:
    """The same file cannot be removed twice: both may have rewritten its rows."""
    canonical = partial(canonical_path, contest.read.root)
    ours = {canonical(remove.path) for remove in contest.staged.removes}
    theirs = {canonical(remove.path) for remove in contest.winner.removes}
    both = sorted(ours & theirs)
    if both:
        raise _conflict(ConcurrentDeleteDeleteError, contest, f"removed the same file ({both[0]})")


RULES: tuple[Callable[[Contest], None], ...] = (
    refuse_when_the_protocol_changed,
    refuse_when_the_metadata_changed,
    refuse_when_the_same_domain_changed,
    refuse_when_the_same_application_committed,
    refuse_when_files_were_added_that_should_have_been_read,
    refuse_when_a_file_was_removed_that_was_read,
    refuse_when_a_file_was_removed_that_is_to_be_removed,
)


def _may_match(contest: Contest, adds: list[Add]) -> bool:
    """Whether any of the new files may hold rows that one of the predicates wants."""
    read = contest.read
    pruner = FilePruner(read.schema, read.metadata.partitioning, read.mapping_mode)
    files = FileSelection([FileBlock(TableRows(adds_to_table(adds)), None)])
    return any(pruner.prune(files, wanted).files.num_files for wanted in contest.staged.read_predicates)


def _conflict(kind: type[CommitConflictError], contest: Contest, what: str) -> CommitConflictError:
    operation = contest.winner.commit_info.get("operation", "a commit")
    version = contest.winner.version
    return kind(
        f"{contest.staged.operation.name} on {contest.read.root} was not committed: version {version} "
        f"({operation}), committed meanwhile, {what}. Read the table again and repeat the operation.",
        version=version,
    )
