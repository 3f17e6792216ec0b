"""Which protocol a table needs for its properties, its schema and the features asked for.

Implements "Writer Version Requirements" of S4 (LW-011) and "Table Features" of the later editions (beyond.md
B1). The answer is exactly what is needed, so that as many engines as possible can go on using the table:

- Legacy versions where they suffice. They accumulate: writer 2 is appendOnly and invariants, 3 adds CHECK
  constraints, 4 the change data feed and generated columns, 5 (with reader 2) column mapping. A new table
  starts at reader 1, writer 2.
- Otherwise writer 7 with a list, and reader 3 with a list when one of the features concerns readers. A table
  that leaves its legacy version lists every feature that this version implied.
- Nothing is ever taken away: a protocol only grows here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.log.protocol_support import features_of
from distributary.delta.schema.data_types import StructType
from distributary.delta.schema.schema_edits import walk_fields
from distributary.delta.table_features import (
    FEATURES,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    Always,
    FeatureKind,
    TableFeature,
    active_feature_names,
)

NEW_TABLE: Final = Protocol(1, 2)
_PREVIEW: Final = "-preview"

_DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = {
    "rowTracking": ("domainMetadata",),
    "clustering": ("domainMetadata",),
    "icebergCompatV1": ("columnMapping",),
    "icebergCompatV2": ("columnMapping",),
    "variantShredding": ("variantType",),
}


def required_protocol(
    current: Protocol | None, metadata: Metadata, schema: StructType, features: Collection[str] = ()
) -> Protocol:
    """The smallest protocol, not below the current one, for a table's metadata and these features."""
    start = NEW_TABLE if current is None else current
    supported = features_of(start)
    wanted = _with_dependencies(_switched_on(metadata, schema, supported) | frozenset(features))
    for name in sorted(wanted - supported):
        if name not in FEATURES:
            raise UnsupportedFeatureError(
                f"There is no table feature {name!r} that this version knows. Known: {', '.join(FEATURES)}.",
                features=(name,),
            )
    if wanted <= supported:
        return start
    return _legacy_protocol(start, wanted) or _listed_protocol(start, wanted | supported)


def _switched_on(metadata: Metadata, schema: StructType, supported: frozenset[str]) -> frozenset[str]:
    """The features that metadata and schema use, whether supported yet or not."""
    found = active_feature_names(FEATURES, metadata.properties, schema)
    used = {name for name in found if not isinstance(FEATURES[name].enabled_by, Always)}
    if any(not field.nullable for _, field in walk_fields(schema)):
        used.add("invariants")
    return frozenset(name for name in used if not _is_other_edition(name, supported))


def _is_other_edition(name: str, supported: frozenset[str]) -> bool:
    """A preview of a feature is not asked for by itself, and the feature not where its preview is there."""
    if name.endswith(_PREVIEW):
        return name not in supported
    return name + _PREVIEW in supported and name not in supported


def _with_dependencies(names: frozenset[str]) -> frozenset[str]:
    return names.union(needed for name in names for needed in _DEPENDENCIES.get(name, ()))


def _legacy_protocol(start: Protocol, wanted: frozenset[str]) -> Protocol | None:
    """The versions without lists that imply everything wanted; None where there are none."""
    if start.min_writer_version >= WRITER_FEATURES_VERSION:
        return None
    rows = [FEATURES[name] for name in wanted]
    if any(row.writer_version is None for row in rows):
        return None
    reader = max([start.min_reader_version, *(row.reader_version or 1 for row in rows)])
    writer = max([start.min_writer_version, *(row.writer_version or 1 for row in rows)])
    return Protocol(reader, writer)


def _listed_protocol(start: Protocol, names: frozenset[str]) -> Protocol:
    """Writer version 7 with a list of every feature, and reader version 3 where one concerns readers."""
    listed = frozenset(start.writer_features or ()) | frozenset(start.reader_features or ()) | names
    for_readers = frozenset(start.reader_features or ()) | {
        name for name in names if _concerns_readers(FEATURES.get(name))
    }
    if not for_readers:
        return Protocol(start.min_reader_version, WRITER_FEATURES_VERSION, None, _ordered(listed))
    return Protocol(READER_FEATURES_VERSION, WRITER_FEATURES_VERSION, _ordered(for_readers), _ordered(listed))


def _concerns_readers(row: TableFeature | None) -> bool:
    return row is not None and row.kind is FeatureKind.READER_WRITER


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Known features in the order of the protocol's table, others by name: the same set, the same text."""
    place = {name: at for at, name in enumerate(FEATURES)}
    return tuple(sorted(names, key=lambda name: (place.get(name, len(place)), name)))
