"""Reconciliation: the newest reference to a file wins.

Implements S4 "Action Reconciliation" (LR-020 to LR-027) as pure functions. The key of a
file action is its canonical path and the id of its deletion vector; replaying commits in
ascending order leaves for each key the last action, so a file is either active or a
tombstone, never both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from distributary.delta.log.actions import (
    Add,
    CommitActions,
    DomainMetadata,
    FileAction,
    SetTransaction,
)

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
        for action in commit.files:
            latest[file_key(action, canonical)] = action
    return latest


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
