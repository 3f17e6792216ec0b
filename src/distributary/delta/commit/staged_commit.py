"""What a writer wants to commit: actions, the operation they belong to, and what it read.

A staged commit is a value. It says enough for the conflict checker to decide whether it
still holds when other commits came first, and enough to be written at any version.
"""

from __future__ import annotations

from typing import Any

import msgspec

from distributary.delta.log.actions import (
    Add,
    AddCdcFile,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    SetTransaction,
)
from distributary.delta.log.reconciliation import FileKey
from distributary.errors import InvalidInputError
from distributary.expressions.tree import Expression

StagedAction = Add | Remove | AddCdcFile | Metadata | Protocol | SetTransaction | DomainMetadata


class Operation(msgspec.Struct, frozen=True):
    """What is done to the table, by the names that Delta's history uses."""

    name: str
    parameters: dict[str, Any] = {}
    metrics: dict[str, int | str] = {}
    user_metadata: str | None = None


class StagedCommit(msgspec.Struct, frozen=True):
    """The actions of one commit, and what they rest on."""

    operation: Operation
    actions: tuple[StagedAction, ...]
    read_predicates: tuple[Expression, ...] = ()
    read_whole_table: bool = False
    read_files: frozenset[FileKey] = frozenset()
    blind_append: bool = False
    isolation: str | None = None
    copies_files: bool = False
    """All files are another table's, which the same protocol describes: rules for writers of rows were kept
    where they were written."""

    @property
    def adds(self) -> tuple[Add, ...]:
        """The files that it adds."""
        return tuple(action for action in self.actions if isinstance(action, Add))

    @property
    def removes(self) -> tuple[Remove, ...]:
        """The files that it removes."""
        return tuple(action for action in self.actions if isinstance(action, Remove))

    @property
    def new_files(self) -> tuple[Add | AddCdcFile, ...]:
        """The files that were written for it: data and changes."""
        return tuple(action for action in self.actions if isinstance(action, Add | AddCdcFile))

    @property
    def metadata(self) -> Metadata | None:
        """The metadata that it sets."""
        return next((action for action in self.actions if isinstance(action, Metadata)), None)

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that it sets."""
        return next((action for action in self.actions if isinstance(action, Protocol)), None)

    @property
    def transactions(self) -> tuple[SetTransaction, ...]:
        """The application transactions that it records."""
        return tuple(action for action in self.actions if isinstance(action, SetTransaction))

    @property
    def domains(self) -> tuple[DomainMetadata, ...]:
        """The domain metadata that it sets."""
        return tuple(action for action in self.actions if isinstance(action, DomainMetadata))

    @property
    def changes_data(self) -> bool:
        """Whether rows come or go, not only files."""
        return any(action.data_change for action in (*self.adds, *self.removes))

    def check(self) -> None:
        """Refuse what one log entry must not hold (LW-005)."""
        vectors = [action.deletion_vector and action.deletion_vector.unique_id for action in self.adds]
        adds = [action.path for action in self.adds]
        removes = [action.path for action in self.removes]
        keys = list(zip(adds, vectors, strict=True))
        gone = [
            (action.path, action.deletion_vector and action.deletion_vector.unique_id)
            for action in self.removes
        ]
        names = [
            *_repeated("an add of", adds),
            *_repeated("a remove of", removes),
            *(f"both an add and a remove of {path}" for path, vector in keys if (path, vector) in set(gone)),
            *_repeated("a transaction of", [txn.app_id for txn in self.transactions]),
            *_repeated("the domain", [domain.domain for domain in self.domains]),
        ]
        for kind in (Metadata, Protocol):
            if sum(isinstance(action, kind) for action in self.actions) > 1:
                names.append(f"{kind.__name__} twice")
        if names:
            raise InvalidInputError(f"one commit cannot hold {names[0]} more than once")


def _repeated(what: str, values: list[str]) -> list[str]:
    if len(set(values)) == len(values):
        return []
    return [f"{what} {value}" for value in sorted({v for v in values if values.count(v) > 1})]
