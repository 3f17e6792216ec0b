"""`distributary table append | overwrite`: rows of files, or of a pipe, become one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.cli.input_file import FORMATS, InputFile, input_files
from distributary.cli.progress import bar, working
from distributary.cli.result import confirm, names, result_option, write_result, yes_option
from distributary.cli.table_options import TableLocation, table_location

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.cli.input_file import Advance
    from distributary.delta.operations.append import Transaction, WriteResult
    from distributary.delta.table import DeltaTable
    from distributary.delta.table_snapshot import TableSnapshot

Command = TypeVar("Command", bound=Callable[..., Any])


def _rows_options(command: Command) -> Command:
    """Add FILES and what says how they are read."""
    for option in (
        click.option(
            "--txn",
            metavar="APP:VERSION",
            help="Write once: a version that this application has committed already is skipped.",
        ),
        click.option("--merge-schema", is_flag=True, help="Let new columns into the table."),
        click.option("--delimiter", help="What separates the values of a CSV file. Default: a comma."),
        click.option(
            "--format",
            type=click.Choice(FORMATS),
            help="The format of the rows. Default: by the name of the file; stdin needs it.",
        ),
        click.argument(
            "files",
            metavar="[FILE|-]...",
            nargs=-1,
            type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        ),
    ):
        command = option(command)
    return command


@click.command(short_help="Add rows from files or a pipe.")
@table_location
@_rows_options
@click.option(
    "--create", is_flag=True, help="Make the table where there is none, with the columns of the rows."
)
@click.option(
    "--partition-by", metavar="A,B", help="With --create: the columns that rows are put in folders by."
)
@result_option
def append(
    location: TableLocation,
    files: tuple[str, ...],
    format: str | None,
    delimiter: str | None,
    merge_schema: bool,
    txn: str | None,
    create: bool,
    partition_by: str | None,
    result: str,
) -> None:
    """Add the rows of files, or of stdin, to a table, all in one commit.

    CSV (with a header) and JSON are converted to the types of the table; a value that does not fit is an
    error that names its line, and nothing is written. Files are streamed, whatever their size.

    \b
    Examples:
      distributary table append ./orders new_orders.csv
      distributary table append s3://lake/orders day1.parquet day2.parquet --txn nightly:42
      generate | distributary table append ./orders - --format ndjson --create
    """
    sources = _sources(files, format, delimiter)
    transaction = _transaction(txn)
    if partition_by is not None and not create:
        raise click.UsageError("--partition-by is for new tables: add --create.")
    table = location.table()
    with _reading(sources) as advance:
        if create and _is_missing(table):
            rows = _rows(sources, None, grow=False, advance=advance)
            _create(location, rows, names(partition_by, "--partition-by"))
        else:
            rows = _rows(sources, table.snapshot(), grow=merge_schema, advance=advance)
        written = table.append(rows, merge_schema=merge_schema, txn=transaction)
    _report(table, written, transaction, result)


@click.command(short_help="Replace rows by those of files or a pipe.")
@table_location
@_rows_options
@click.option("--replace-where", metavar="SQL", help="Replace only the partitions for which this is true.")
@click.option("--dynamic", is_flag=True, help="Replace only the partitions that the new rows are in.")
@click.option(
    "--overwrite-schema", is_flag=True, help="Take the columns of the rows in place of the table's."
)
@click.option("--partition-by", metavar="A,B", help="With --overwrite-schema: another partitioning.")
@yes_option
@result_option
def overwrite(
    location: TableLocation,
    files: tuple[str, ...],
    format: str | None,
    delimiter: str | None,
    merge_schema: bool,
    txn: str | None,
    replace_where: str | None,
    dynamic: bool,
    overwrite_schema: bool,
    partition_by: str | None,
    yes: bool,
    result: str,
) -> None:
    """Replace all rows of a table, or those of some partitions, in one commit.

    Older versions stay readable until vacuum. On a terminal it asks first.

    \b
    Examples:
      distributary table overwrite ./orders all_orders.parquet
      distributary table overwrite ./orders march.csv --replace-where "month = '2024-03'" --yes
      distributary table overwrite s3://lake/orders fixed.ndjson --dynamic -o json
    """
    sources = _sources(files, format, delimiter)
    transaction = _transaction(txn)
    table = location.table()
    with working("reading the log…"):
        snapshot = table.snapshot()
    confirm(_question(table, snapshot, replace_where, dynamic), yes)
    with _reading(sources) as advance:
        known = None if overwrite_schema else snapshot
        rows = _rows(sources, known, grow=merge_schema, advance=advance)
        written = table.overwrite(
            rows,
            replace_where=replace_where,
            dynamic=dynamic,
            overwrite_schema=overwrite_schema,
            merge_schema=merge_schema,
            partition_by=None if partition_by is None else names(partition_by, "--partition-by"),
            txn=transaction,
        )
    _report(table, written, transaction, result)


def _sources(files: tuple[str, ...], format: str | None, delimiter: str | None) -> list[InputFile]:
    given = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    if given is not None and (len(given) != 1 or not given.isascii()):
        raise click.BadParameter("one ASCII character, or 'tab'", param_hint="--delimiter")
    return input_files(files, format, given)


def _transaction(text: str | None) -> Transaction | None:
    if text is None:
        return None
    application, separator, version = text.rpartition(":")
    if not separator or not application or not version.isdecimal():
        raise click.BadParameter("write APP:VERSION, such as nightly-load:42", param_hint="--txn")
    return application, int(version)


def _reading(sources: Sequence[InputFile]) -> Any:
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    return bar("writing", total, bytes=True)


def _rows(
    sources: Sequence[InputFile], snapshot: TableSnapshot | None, *, grow: bool, advance: Advance
) -> pa.RecordBatchReader:
    from distributary.cli.row_files import read_rows

    schema = None if snapshot is None else snapshot.schema
    return read_rows(sources, schema, grow=grow, advance=advance)


def _is_missing(table: DeltaTable) -> bool:
    from distributary.delta.errors import TableNotFoundError

    try:
        table.version()
    except TableNotFoundError:
        return True
    return False


def _create(location: TableLocation, rows: pa.RecordBatchReader, partition_by: list[str]) -> None:
    from distributary.delta.operations.create import execute_create, plan_create

    store = location.store()
    execute_create(store, plan_create(store, rows.schema, partition_by=partition_by), "ignore")


def _question(table: DeltaTable, snapshot: TableSnapshot, replace_where: str | None, dynamic: bool) -> str:
    which = f"the rows where {replace_where}" if replace_where else "all rows"
    if dynamic:
        which = "the rows of the partitions that are written"
    return f"Replace {which} of {table.uri} ({snapshot.num_files():,} files at version {snapshot.version})?"


def _report(table: DeltaTable, written: WriteResult, txn: Transaction | None, result: str) -> None:
    facts = {
        "location": table.uri,
        "version": written.version,
        "rows": written.num_rows,
        "files": written.num_files,
        "bytes": written.num_bytes,
        "removedFiles": written.num_removed_files,
        "skipped": written.skipped,
    }
    if written.skipped:
        assert txn is not None
        sentence = f"nothing written: {txn[0]} has committed {txn[1]} or a later version already"
    else:
        removed = f", {written.num_removed_files:,} files removed" if written.num_removed_files else ""
        sentence = (
            f"version {written.version}: {written.num_rows:,} rows in {written.num_files:,} files, "
            f"{written.num_bytes:,} bytes{removed}"
        )
    write_result(sentence, facts, result)
