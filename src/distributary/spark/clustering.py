"""Clustering columns: the columns by which `optimize` lays out the rows of a table.

They are kept in the domain `delta.clustering` of the log, by physical name (beyond.md B11), and always get
statistics. Writes only declare them; `optimize` moves the rows (see z_order).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from distributary.delta.log.actions import DomainMetadata
from distributary.delta.log.protocol_support import mapping_mode_of
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.append import CLUSTERING_DOMAIN, WritePlan
from distributary.delta.operations.create import FEATURE_PREFIX
from distributary.delta.schema.column_mapping import logical_path, physical_path
from distributary.errors import InvalidInputError

CLUSTERING_FEATURE: Final = f"{FEATURE_PREFIX}clustering"
_MOST_COLUMNS: Final = 4


class _Domain(msgspec.Struct, frozen=True, rename="camel"):
    clustering_columns: list[list[str]]
    domain_name: str = CLUSTERING_DOMAIN


def clustering_of(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The logical paths of a table's clustering columns; none for a table that has none."""
    domain = snapshot.domains.get(CLUSTERING_DOMAIN)
    if domain is None:
        return []
    found = msgspec.json.decode(domain.configuration, type=_Domain)
    return [
        logical_path(snapshot.schema, tuple(path), snapshot.mapping_mode) for path in found.clustering_columns
    ]


def clustering_domain(plan: WritePlan, columns: Sequence[str]) -> DomainMetadata:
    """The domain that declares clustering columns, given by name (`a.b` for a field of a struct)."""
    if len(columns) > _MOST_COLUMNS:
        raise InvalidInputError(f"a table has at most {_MOST_COLUMNS} clustering columns, not {len(columns)}")
    mode = mapping_mode_of(plan.metadata.properties, plan.protocol)
    paths = [list(physical_path(plan.schema, _path(plan, name), mode)) for name in columns]
    text = msgspec.json.encode(_Domain(paths)).decode()
    return DomainMetadata(CLUSTERING_DOMAIN, text, removed=False)


def _path(plan: WritePlan, name: str) -> tuple[str, ...]:
    """A column by its whole name, or a field of a struct by the names that points join."""
    return (name,) if plan.schema.find(name) is not None else tuple(name.split("."))
