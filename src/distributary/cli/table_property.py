"""`distributary table property set | unset | list`: what a table is told about itself."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from distributary.cli.output import output_options, write_rows
from distributary.cli.progress import working
from distributary.cli.result import pairs
from distributary.cli.table_alter import change_options, make_change
from distributary.cli.table_options import TableLocation, table_location

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.delta.table_properties import Property

FLAG: Final = "true or false"
LENGTH: Final = "length of time"
NUMBER: Final = "whole number"

GUIDE: Final[Mapping[str, tuple[str, str]]] = {
    "delta.appendOnly": (FLAG, "Rows can be added, never changed or removed."),
    "delta.checkpoint.writeStatsAsJson": (FLAG, "Checkpoints hold statistics as JSON text."),
    "delta.checkpoint.writeStatsAsStruct": (FLAG, "Checkpoints hold statistics as typed columns."),
    "delta.checkpointInterval": (NUMBER, "Commits between two checkpoints."),
    "delta.checkpointPolicy": (
        "classic or v2",
        "The kind of checkpoints; v2 has side files.",
    ),
    "delta.columnMapping.maxColumnId": (NUMBER, "The highest column id; kept by the table itself."),
    "delta.columnMapping.mode": (
        "none, name or id",
        "Files have their own names of columns: rename, drop.",
    ),
    "delta.dataSkippingNumIndexedCols": (NUMBER, "Leading columns that get statistics; -1 is all."),
    "delta.dataSkippingStatsColumns": (
        "column names",
        "The columns that get statistics, by name.",
    ),
    "delta.deletedFileRetentionDuration": (LENGTH, "How long vacuum keeps files of older versions."),
    "delta.enableChangeDataFeed": (FLAG, "Changes of rows are recorded, for `table changes`."),
    "delta.enableDeletionVectors": (FLAG, "Writers may mark rows as deleted in place of rewriting files."),
    "delta.enableExpiredLogCleanup": (FLAG, "Old log entries are removed after a checkpoint."),
    "delta.enableInCommitTimestamps": (FLAG, "Commits carry their own time, whatever files say."),
    "delta.enableRowTracking": (FLAG, "Rows keep an id through changes."),
    "delta.enableTypeWidening": (FLAG, "Columns may get wider types, for `table alter widen`."),
    "delta.inCommitTimestampEnablementTimestamp": (NUMBER, "Since when; kept by the table itself."),
    "delta.inCommitTimestampEnablementVersion": (NUMBER, "Since which version; kept by the table itself."),
    "delta.isolationLevel": (
        "Serializable, WriteSerializable or SnapshotIsolation",
        "How strictly writers at the same time are told apart.",
    ),
    "delta.logRetentionDuration": (LENGTH, "How long log entries are kept, and so time travel."),
    "delta.parquet.compression.codec": ("a codec", "How new files are compressed: zstd, snappy, gzip…"),
    "delta.parquet.format.version": ("a version", "The version of the Parquet format of new files."),
    "delta.randomizeFilePrefixes": (FLAG, "New files get random folders, against hot spots of a store."),
    "delta.requireCheckpointProtectionBeforeVersion": (NUMBER, "Log entries before it stay where they are."),
    "delta.rowTracking.materializedRowCommitVersionColumnName": ("a name", "Kept by the table itself."),
    "delta.rowTracking.materializedRowIdColumnName": ("a name", "Kept by the table itself."),
    "delta.rowTrackingSuspended": (FLAG, "New files get no row ids for now."),
    "delta.setTransactionRetentionDuration": (LENGTH, "How long idempotent writes (--txn) are remembered."),
    "delta.targetFileSize": ("a size", "How large new files should become: 128mb."),
}
"""Each property of the protocol: what its value is, and what it does."""


@click.group(short_help="Table properties.")
def property() -> None:
    """Table properties: what a table is told about itself, for every engine.

    \b
    Examples:
      distributary table property list ./orders
      distributary table property set ./orders delta.appendOnly=true
    """


@property.command("set", short_help="Set properties.")
@table_location
@click.argument("properties", metavar="KEY=VALUE...", nargs=-1, required=True)
@change_options
def set_properties(location: TableLocation, properties: tuple[str, ...], **how: Any) -> None:
    """Set properties, with all that they need: column ids, features of the protocol.

    \b
    Examples:
      distributary table property set ./orders delta.checkpointInterval=20 owner=sales
      distributary table property set ./orders delta.columnMapping.mode=name --dry-run
    """
    wanted = pairs(properties, "KEY=VALUE")
    make_change(location, lambda table: table.set_properties(wanted), **how)


@property.command("unset", short_help="Take properties away.")
@table_location
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Pass over properties that are not set.")
@change_options
def unset_properties(location: TableLocation, keys: tuple[str, ...], if_exists: bool, **how: Any) -> None:
    """Take properties away, so that their defaults hold.

    \b
    Examples:
      distributary table property unset ./orders delta.checkpointInterval
      distributary table property unset ./orders owner --if-exists --dry-run
    """
    make_change(location, lambda table: table.unset_properties(*keys, if_exists=if_exists), **how)


@property.command("list", short_help="The properties of a table, or all there are.")
@table_location
@click.option("--all", "everything", is_flag=True, help="Those too that have their default.")
@output_options
def list_properties(location: TableLocation, everything: bool, format: str, output: Path | None) -> None:
    """List the properties of a table; with --all every one of the protocol, with what it does.

    \b
    Examples:
      distributary table property list ./orders
      distributary table property list ./orders --all -o json
    """
    with working("reading the log…"):
        configuration = location.table().snapshot().metadata.properties
    write_rows(_rows(configuration, everything=everything), format, output)


def _rows(configuration: Mapping[str, str], *, everything: bool) -> pa.Table:
    import pyarrow as pa

    from distributary.delta.table_properties import CONSTRAINT_PREFIX, PROPERTIES

    known = set(PROPERTIES) if everything else set[str]()
    keys = sorted({key for key in configuration if not key.startswith(CONSTRAINT_PREFIX)} | known)
    kinds = [GUIDE.get(key, ("text", None)) for key in keys]
    columns = {
        "property": keys,
        "value": [configuration.get(key) for key in keys],
        "default": [_default(PROPERTIES.get(key)) for key in keys],
        "type": [kind for kind, _ in kinds],
        "what_it_does": [does for _, does in kinds],
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _default(row: Property[Any] | None) -> str | None:
    """A default as a user would write it."""
    value = None if row is None else row.default
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case datetime.timedelta():
            return f"interval {value // datetime.timedelta(days=1)} days"
        case enum.Enum():
            return str(value.value)
        case _:
            return str(value)
