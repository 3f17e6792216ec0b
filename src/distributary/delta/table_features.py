"""Table features: what a table asks of its readers and writers, and what of it we have.

Implements "Table Features" and "Requirements for Readers/Writers" of the protocol (S4; beyond.md B0, B1,
B11). A feature is a row of :data:`FEATURES`: its kind, the legacy versions that imply it, what switches it
on, and whether we read and write tables that have it, with the reason where we do not.

Rules for readers: version 1 asks nothing, 2 is column mapping, 3 comes with a list of features, above 3 is
unknown. An unknown feature in the list may change what the files mean, so it is refused; unknown writer
features and writer versions are none of a reader's business. Rules for writers: versions 1 to 6 imply
features, 7 comes with a list, above 7 is unknown, and every feature of both lists must be known, whether
active or not.

Supported (in the protocol) is not active: a feature acts only when it is supported and switched on by a
property or by the schema, see :func:`active_feature_names`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.schema.data_types import (
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

READER_FEATURES_VERSION: Final = 3
WRITER_FEATURES_VERSION: Final = 7


class FeatureKind(enum.Enum):
    """Whom a feature concerns."""

    READER_WRITER = "reader-writer"
    WRITER = "writer"


class Writing(enum.Enum):
    """Whether we write tables that support a feature."""

    YES = "yes"
    WHILE_INACTIVE = "while nothing switches the feature on"
    NO = "no"


class Always(msgspec.Struct, frozen=True):
    """Active as soon as it is supported."""


class TableProperty(msgspec.Struct, frozen=True):
    """Active when a property has this value, or any value but `none` when no value is given."""

    key: str
    value: str | None = "true"


class PropertyPrefix(msgspec.Struct, frozen=True):
    """Active when some property begins like this."""

    prefix: str


class ColumnMetadata(msgspec.Struct, frozen=True):
    """Active when some column's metadata has this key."""

    key: str


class ColumnOfType(msgspec.Struct, frozen=True):
    """Active when some column, nested or not, is of this type."""

    data_type: DataType


class TableFeature(msgspec.Struct, frozen=True):
    """One feature of the protocol and what we do with it; `refusal` is the reason where we cannot."""

    name: str
    kind: FeatureKind
    enabled_by: Always | TableProperty | PropertyPrefix | ColumnMetadata | ColumnOfType
    reader_version: int | None = None
    writer_version: int | None = None
    reads: bool = True
    writes: Writing = Writing.YES
    refusal: str = ""


_BOTH: Final = FeatureKind.READER_WRITER
_WRITER: Final = FeatureKind.WRITER
_BY_CATALOG: Final = "its commits belong to a catalog: use it through that catalog, not by path"
_NOT_BUILT: Final = "this writer does not implement it"


def _variant(name: str, enabled_by: TableProperty | ColumnOfType) -> TableFeature:
    return TableFeature(name, _BOTH, enabled_by, writes=Writing.WHILE_INACTIVE, refusal=_NOT_BUILT)


def _catalog(name: str) -> TableFeature:
    return TableFeature(name, _BOTH, Always(), reads=False, writes=Writing.NO, refusal=_BY_CATALOG)


def _only_read(name: str, refusal: str = _NOT_BUILT) -> TableFeature:
    return TableFeature(name, _WRITER, Always(), writes=Writing.NO, refusal=refusal)


def _only_read_when_on(
    name: str, enabled_by: TableProperty | ColumnMetadata, writer_version: int | None = None
) -> TableFeature:
    return TableFeature(
        name, _WRITER, enabled_by, None, writer_version, writes=Writing.WHILE_INACTIVE, refusal=_NOT_BUILT
    )


_ROWS: Final = (
    TableFeature("columnMapping", _BOTH, TableProperty("delta.columnMapping.mode", None), 2, 5),
    TableFeature("deletionVectors", _BOTH, TableProperty("delta.enableDeletionVectors")),
    TableFeature("v2Checkpoint", _BOTH, TableProperty("delta.checkpointPolicy", "v2")),
    TableFeature("timestampNtz", _BOTH, ColumnOfType(TIMESTAMP_NTZ)),
    TableFeature("vacuumProtocolCheck", _BOTH, Always()),
    TableFeature("typeWidening", _BOTH, TableProperty("delta.enableTypeWidening")),
    TableFeature("typeWidening-preview", _BOTH, TableProperty("delta.enableTypeWidening")),
    _variant("variantType", ColumnOfType(VARIANT)),
    _variant("variantType-preview", ColumnOfType(VARIANT)),
    _variant("variantShredding", TableProperty("delta.enableVariantShredding")),
    _variant("variantShredding-preview", TableProperty("delta.enableVariantShredding")),
    _catalog("catalogManaged"),
    _catalog("catalogOwned"),
    _catalog("catalogOwned-preview"),
    TableFeature("appendOnly", _WRITER, TableProperty("delta.appendOnly"), None, 2),
    TableFeature("invariants", _WRITER, ColumnMetadata("delta.invariants"), None, 2),
    TableFeature("checkConstraints", _WRITER, PropertyPrefix("delta.constraints."), None, 3),
    TableFeature("changeDataFeed", _WRITER, TableProperty("delta.enableChangeDataFeed"), None, 4),
    TableFeature("generatedColumns", _WRITER, ColumnMetadata("delta.generationExpression"), None, 4),
    _only_read_when_on("identityColumns", ColumnMetadata("delta.identity.start"), 6),
    TableFeature("allowColumnDefaults", _WRITER, ColumnMetadata("CURRENT_DEFAULT")),
    TableFeature("domainMetadata", _WRITER, Always()),
    TableFeature("rowTracking", _WRITER, TableProperty("delta.enableRowTracking")),
    TableFeature("clustering", _WRITER, Always()),
    TableFeature("inCommitTimestamp", _WRITER, TableProperty("delta.enableInCommitTimestamps")),
    _only_read_when_on("inCommitTimestamp-preview", TableProperty("delta.enableInCommitTimestamps-preview")),
    _only_read_when_on("icebergCompatV1", TableProperty("delta.enableIcebergCompatV1")),
    _only_read_when_on("icebergCompatV2", TableProperty("delta.enableIcebergCompatV2")),
    _only_read("checkpointProtection"),
    _only_read("materializePartitionColumns"),
    _only_read("collations"),
    _only_read("collations-preview"),
    _only_read("coordinatedCommits-preview", "its commits belong to a coordinator: write it through that"),
)

FEATURES: Final[Mapping[str, TableFeature]] = {row.name: row for row in _ROWS}
"""Every feature that we know, by its name in the protocol."""


def supported_feature_names(
    min_reader_version: int,
    min_writer_version: int,
    reader_features: Collection[str] | None,
    writer_features: Collection[str] | None,
) -> frozenset[str]:
    """The features that a protocol supports: those it lists and those its legacy versions imply."""
    listed = frozenset(reader_features or ()) | frozenset(writer_features or ())
    implied = (
        row.name for row in FEATURES.values() if _is_implied(row, min_reader_version, min_writer_version)
    )
    return listed.union(implied)


def active_feature_names(
    supported: Collection[str], configuration: Mapping[str, str], schema: StructType
) -> frozenset[str]:
    """Those of the supported features that the table's properties or schema switch on."""
    columns = tuple(_columns(schema))
    rows = (FEATURES[name] for name in supported if name in FEATURES)
    return frozenset(row.name for row in rows if _is_active(row, configuration, columns))


def check_readable(
    min_reader_version: int,
    min_writer_version: int,
    reader_features: Collection[str] | None,
    writer_features: Collection[str] | None,
    where: str,
) -> None:
    """Refuses a table that cannot be read safely, naming every feature that stands in the way."""
    known = {name for name, row in FEATURES.items() if row.reads}
    unknown = tuple(sorted(set(reader_features or ()) - known))
    if min_reader_version > READER_FEATURES_VERSION:
        also = f" (and the features {', '.join(unknown)})" if unknown else ""
        raise UnsupportedFeatureError(
            f"{where}: needs reader version {min_reader_version}{also}; versions up to "
            f"{READER_FEATURES_VERSION} can be read. Upgrade distributary, or read it with a newer engine.",
            features=unknown,
        )
    _check_reader_list(min_reader_version, min_writer_version, reader_features, where)
    if unknown:
        raise _refusal(where, "read", unknown)


def check_writable(
    min_reader_version: int,
    min_writer_version: int,
    reader_features: Collection[str] | None,
    writer_features: Collection[str] | None,
    where: str,
    *,
    configuration: Mapping[str, str],
    schema: StructType,
) -> None:
    """Refuses a table that cannot be written safely, naming every feature that stands in the way."""
    check_readable(min_reader_version, min_writer_version, reader_features, writer_features, where)
    if min_writer_version > WRITER_FEATURES_VERSION:
        raise UnsupportedFeatureError(
            f"{where}: needs writer version {min_writer_version}; versions up to {WRITER_FEATURES_VERSION} "
            "can be written. Upgrade distributary, or write it with a newer engine."
        )
    if (min_writer_version == WRITER_FEATURES_VERSION) != (writer_features is not None):
        raise _malformed(
            where,
            f"writerFeatures go with writer version {WRITER_FEATURES_VERSION} and only with it, not with "
            f"version {min_writer_version}",
        )
    supported = supported_feature_names(
        min_reader_version, min_writer_version, reader_features, writer_features
    )
    active = active_feature_names(supported, configuration, schema)
    refused = tuple(sorted(name for name in supported if not _can_write(name, active)))
    if refused:
        raise _refusal(where, "write", refused)


def _check_reader_list(
    min_reader_version: int, min_writer_version: int, reader_features: Collection[str] | None, where: str
) -> None:
    with_list = min_reader_version == READER_FEATURES_VERSION
    if with_list != (reader_features is not None):
        raise _malformed(
            where,
            f"readerFeatures go with reader version {READER_FEATURES_VERSION} and only with it, but the "
            f"protocol has version {min_reader_version} {'without' if with_list else 'with'} them",
        )
    if with_list and min_writer_version < WRITER_FEATURES_VERSION:
        raise _malformed(
            where,
            f"reader version {READER_FEATURES_VERSION} needs writer version {WRITER_FEATURES_VERSION}, but "
            f"the protocol has {min_writer_version}",
        )


def _is_implied(row: TableFeature, min_reader_version: int, min_writer_version: int) -> bool:
    """Legacy versions imply features, versions with lists do not; each side for itself."""
    if row.reader_version is not None and row.reader_version <= min_reader_version < READER_FEATURES_VERSION:
        return True
    if row.writer_version is None or row.kind is FeatureKind.READER_WRITER:
        return False
    return row.writer_version <= min_writer_version < WRITER_FEATURES_VERSION


def _can_write(name: str, active: frozenset[str]) -> bool:
    row = FEATURES.get(name)
    if row is None:
        return False
    return row.writes is Writing.YES or (row.writes is Writing.WHILE_INACTIVE and name not in active)


def _is_active(
    row: TableFeature, configuration: Mapping[str, str], columns: Collection[StructField | DataType]
) -> bool:
    match row.enabled_by:
        case Always():
            return True
        case TableProperty(key, value):
            text = configuration.get(key, "none").strip().lower()
            return text != "none" if value is None else text == value
        case PropertyPrefix(prefix):
            return any(key.startswith(prefix) for key in configuration)
        case ColumnMetadata(key):
            return any(isinstance(column, StructField) and key in column.metadata for column in columns)
        case ColumnOfType(data_type):
            return data_type in columns


def _columns(data_type: DataType) -> Iterator[StructField | DataType]:
    """Every field and every type of a schema, at all levels."""
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field
                yield from _columns(field.data_type)
        case ArrayType(element, _):
            yield from _columns(element)
        case MapType(key, value, _):
            yield from _columns(key)
            yield from _columns(value)
        case _:
            yield data_type


def _malformed(where: str, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"{where}: {what}. Repair the protocol with the engine that wrote it.")


def _refusal(where: str, verb: str, names: tuple[str, ...]) -> UnsupportedFeatureError:
    reasons = "; ".join(f"{name} ({_reason(name)})" for name in names)
    return UnsupportedFeatureError(f"{where}: cannot {verb} a table with {reasons}.", features=names)


def _reason(name: str) -> str:
    row = FEATURES.get(name)
    return (
        row.refusal
        if row is not None and row.refusal
        else "unknown; upgrade distributary or use a newer engine"
    )
