"""Reconciliation: the newest reference to a file wins.

Implements S4 "Action Reconciliation" (LR-020 to LR-027) as pure functions. The key of a
file action is its canonical path and the id of its deletion vector; replaying commits in
ascending order leaves for each key the last action, so a file is either active or a
tombstone, never both. Two actions of one version that contradict each other are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from distributary.delta.errors import CorruptLogError
from distributary.delta.log.actions import (
    Add,
    CommitActions,
    DomainMetadata,
    FileAction,
    SetTransaction,
)
from distributary.delta.log.log_path import commit_path

FileKey = tuple[str, str | None]
FileActions = Mapping[FileKey, FileAction]


def file_key(action: FileAction, canonical: Callable[[str], str]) -> FileKey:
    """The identity of a file action: where the file is, and which rows of it count."""
    vector = action.deletion_vector
    return canonical(action.path), None if vector is None else vector.unique_id


def latest_file_actions(
    commits: Iterable[CommitActions], canonical: Callable[[str], str], before: FileActions | None = None
) -> dict[FileKey, FileAction]:
    """The last action for each file, over commits in ascending order."""
    latest = dict(before or {})
    for commit in commits:
        keyed = {file_key(action, canonical): action for action in commit.files}
        _refuse_contradictions(commit, keyed, canonical)
        latest.update(keyed)
    return latest


def _refuse_contradictions(
    commit: CommitActions, keyed: FileActions, canonical: Callable[[str], str]
) -> None:
    """Refuse a version whose meaning would hang on the order of its actions (LR-027).

    Saying the same thing twice is harmless. A path may be removed with one deletion vector
    and added with another, but not added twice.
    """
    if len(keyed) != len(commit.files):
        for action in commit.files:
            if keyed[file_key(action, canonical)] != action:
                raise _contradiction(commit, action.path)
    if any(vector is not None for _, vector in keyed):
        adds = Counter(path for (path, _), action in keyed.items() if isinstance(action, Add))
        for path, times in adds.most_common(1):
            if times > 1:
                raise _contradiction(commit, path)


def _contradiction(commit: CommitActions, path: str) -> CorruptLogError:
    return CorruptLogError(
        f"two actions of one version contradict each other about {path!r}; "
        "restore the commit as its writer meant it",
        path=commit_path(commit.version),
    )


def active_adds(actions: FileActions) -> list[Add]:
    """The adds among the last actions."""
    return [action for action in actions.values() if isinstance(action, Add)]


def latest_transactions(
    transactions: Iterable[SetTransaction], before: Mapping[str, SetTransaction] | None = None
) -> dict[str, SetTransaction]:
    """The last transaction for each application: latest seen, not highest number (LR-023)."""
    return {**(before or {}), **{txn.app_id: txn for txn in transactions}}


def latest_domains(
    domains: Iterable[DomainMetadata], before: Mapping[str, DomainMetadata] | None = None
) -> dict[str, DomainMetadata]:
    """The last configuration for each domain; a removed domain hides earlier ones."""
    latest = {**(before or {}), **{domain.domain: domain for domain in domains}}
    return {name: domain for name, domain in latest.items() if not domain.removed}
