"""The actions of a checkpoint that are no files: protocol, metadata, transactions, domains (CK-009).

They are few and go through Python, as plain fields in the log's names, the same for Parquet and JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from distributary.delta.log.actions import Metadata
from distributary.delta.log.snapshot import Snapshot


def small_actions(snapshot: Snapshot, now: int) -> list[dict[str, Any]]:
    """Every action but files, as they stand in a checkpoint: protocol, metadata, transactions, domains."""
    domains = [{"domainMetadata": msgspec.to_builtins(domain)} for domain in snapshot.domains.values()]
    return [
        {"protocol": msgspec.to_builtins(snapshot.protocol)},
        {"metaData": metadata_fields(snapshot.metadata)},
        *({"txn": fields} for fields in _transactions(snapshot, now)),
        *domains,
    ]


def metadata_fields(metadata: Metadata) -> dict[str, Any]:
    """The fields of a metaData action, complete: other engines want the ones that have defaults too."""
    fields: dict[str, Any] = msgspec.to_builtins(metadata)
    return {
        **fields,
        "format": {"provider": metadata.format.provider, "options": metadata.format.options or {}},
        "partitionColumns": list(metadata.partitioning),
        "configuration": metadata.properties,
    }


def _transactions(snapshot: Snapshot, now: int) -> Iterator[dict[str, Any]]:
    """The transactions that the table still remembers."""
    retention = snapshot.properties.set_transaction_retention
    oldest = None if retention is None else now - round(retention.total_seconds() * 1000)
    for transaction in snapshot.transactions.values():
        updated = transaction.last_updated
        if oldest is None or updated is None or updated > oldest:
            yield msgspec.to_builtins(transaction)
