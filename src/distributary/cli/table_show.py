"""`distributary table show`: a table on one screen, from its log alone."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.output import output_options, write_rows, write_text, write_value
from distributary.cli.progress import working
from distributary.cli.table_options import TableMoment, table_moment

if TYPE_CHECKING:
    from distributary.delta.log.snapshot import Snapshot
    from distributary.delta.table import DeltaTable
    from distributary.delta.table_snapshot import TableSnapshot

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


@click.command(short_help="A table on one screen.")
@table_moment
@output_options
def show(moment: TableMoment, format: str, output: Path | None) -> None:
    """Summarise a table: identity, version, protocol, features, size, last operation, log.

    Everything comes from the log; no data file is opened. Rows are given where statistics say them for every
    file.

    \b
    Examples:
      distributary table show ./orders
      distributary table show s3://lake/orders --version 12 -o json
    """
    with working("reading the log…"):
        table = moment.location.table()
        found = summary(table, table.snapshot(moment.version, moment.timestamp))
    if format in ("json", "ndjson"):
        write_value(found, format, output)
    elif format == "table":
        write_text(_text(found), output)
    else:
        import pyarrow as pa

        lines = _lines(found)
        columns = {"field": [name for name, _ in lines], "value": [value for _, value in lines]}
        write_rows(
            pa.table(columns, pa.schema([("field", pa.string()), ("value", pa.string())])), format, output
        )


def summary(table: DeltaTable, snapshot: TableSnapshot) -> dict[str, Any]:
    """What a log says of a table at one version, as values that JSON can say."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "location": table.uri,
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "version": snapshot.version,
        "timestamp": _committed(snapshot),
        "createdTime": None if metadata.created_time is None else iso_time(metadata.created_time),
        "columns": len(snapshot.schema),
        "partitionColumns": list(metadata.partitioning),
        "protocol": {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
        },
        "features": _features(snapshot),
        "properties": dict(sorted(metadata.properties.items())),
        **snapshot.resilient(_size),
        "lastOperation": _last_operation(table, snapshot),
        "log": _log(table, snapshot.state),
    }


def iso_time(milliseconds: int) -> str:
    """Write a time as ISO 8601 in UTC; a number that is no time stays a number."""
    try:
        moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _committed(snapshot: TableSnapshot) -> str | None:
    """When the version was committed; unknown where only its checkpoint is left."""
    from distributary.delta.errors import VersionNotFoundError

    try:
        return iso_time(snapshot.timestamp())
    except VersionNotFoundError:
        return None


def _features(snapshot: TableSnapshot) -> dict[str, bool]:
    """Each feature that the protocol supports, and whether the table uses it."""
    from distributary.delta.log.protocol_support import features_of
    from distributary.delta.table_features import active_feature_names

    supported = features_of(snapshot.protocol)
    active = active_feature_names(supported, snapshot.metadata.properties, snapshot.schema)
    return {name: name in active for name in sorted(supported)}


def _size(state: Snapshot) -> dict[str, int | None]:
    """Files, bytes and rows; statistics are read a slice of the files at a time, so memory stays small."""
    import pyarrow.compute as pc

    from distributary.delta.scan.file_pruning import FilePruner

    pruner = FilePruner(state.schema, state.metadata.partitioning, state.mapping_mode)
    rows, known = 0, True
    for part in state.files.parts(at_least=50_000):
        records = pruner.prune(part, None).live_records()
        rows, known = rows + (pc.sum(records).as_py() or 0), not records.null_count
        if not known:
            break
    size = pc.sum(state.files.column("size")).as_py() or 0
    return {"numFiles": state.files.num_files, "sizeInBytes": size, "numRows": rows if known else None}


def _last_operation(table: DeltaTable, snapshot: TableSnapshot) -> dict[str, Any] | None:
    from distributary.delta.errors import VersionNotFoundError
    from distributary.delta.log.history import read_commit

    try:
        info = (snapshot.state.last_commit or read_commit(table.store, snapshot.version)).commit_info
    except VersionNotFoundError:
        return None
    known = {
        "operation": "operation",
        "operationParameters": "parameters",
        "operationMetrics": "metrics",
        "engineInfo": "engine",
        "userName": "user",
    }
    return {name: info[key] for key, name in known.items() if info.get(key) not in (None, {})} or None


def _log(table: DeltaTable, state: Snapshot) -> dict[str, Any]:
    from distributary.delta.log.log_path import LOG_DIRECTORY

    sizes = [meta.size for meta in table.store.list_from(LOG_DIRECTORY)]
    checkpoint = state.segment.checkpoint
    return {
        "numFiles": len(sizes),
        "sizeInBytes": sum(sizes),
        "commitsReplayed": len(state.segment.commits),
        "checkpoint": None
        if checkpoint is None
        else {
            "version": checkpoint.version,
            "numFiles": len(checkpoint.files),
            "sizeInBytes": sum(file.size for file in checkpoint.files),
        },
    }


def _text(found: dict[str, Any]) -> str:
    from distributary.cli.text_table import cell_text

    lines = _lines(found)
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {cell_text(value)}" for name, value in lines)


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line that people see; what is not there has none."""
    protocol, log, checkpoint = found["protocol"], found["log"], found["log"]["checkpoint"]
    lines: list[tuple[str, str | None]] = [
        *((name, found[name]) for name in ("location", "id", "name", "description")),
        ("version", f"{found['version']}"),
        ("committed", found["timestamp"]),
        ("created", found["createdTime"]),
        ("columns", f"{found['columns']}"),
        ("partitioned by", ", ".join(found["partitionColumns"]) or None),
        ("protocol", f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}"),
        ("features", ", ".join(_feature(*feature) for feature in found["features"].items()) or None),
        *((f"  {name}", value) for name, value in found["properties"].items()),
        ("files", f"{found['numFiles']:,}"),
        ("size", _bytes(found["sizeInBytes"])),
        ("rows", "not in the log" if found["numRows"] is None else f"{found['numRows']:,}"),
        ("last operation", _operation(found["lastOperation"])),
        ("log", f"{_bytes(log['sizeInBytes'])} in {log['numFiles']:,} files"),
        ("checkpoint", None if checkpoint is None else _checkpoint(checkpoint, log["commitsReplayed"])),
    ]
    return [(name, value) for name, value in lines if value is not None]


def _feature(name: str, active: bool) -> str:
    return f"{name} (active)" if active else name


def _operation(operation: dict[str, Any] | None) -> str | None:
    from distributary.cli.output import encode_json

    if operation is None:
        return None
    parts = [str(operation.get("operation", "unknown"))]
    if "parameters" in operation:
        parts.append(encode_json(operation["parameters"]).decode())
    if "engine" in operation:
        parts.append(f"by {operation['engine']}")
    return " ".join(parts)


def _checkpoint(checkpoint: dict[str, int], commits: int) -> str:
    files = checkpoint["numFiles"]
    parts = "" if files == 1 else f" in {files} parts"
    size = _bytes(checkpoint["sizeInBytes"])
    return f"version {checkpoint['version']}, {size}{parts}, {commits} commits since"


def _bytes(count: int) -> str:
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS))
    if power == 0:
        return f"{count} bytes"
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]} ({count:,} bytes)"
