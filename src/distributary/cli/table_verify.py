"""`distributary table verify`: is everything there that the log promises, and does it agree?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.output import output_options, write_rows, write_text, write_value
from distributary.cli.progress import working
from distributary.cli.table_options import TableLocation, table_location

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.delta.operations.verification_report import VerificationReport


@click.command(short_help="Check a table as fsck does.")
@table_location
@click.option("--deep", is_flag=True, help="Open every data file too: rows, deletion vectors, statistics.")
@output_options
def verify(location: TableLocation, deep: bool, format: str, output: Path | None) -> None:
    """Check a table: gaps in the log, corrupt commits and checkpoints, checksums, missing files.

    Nothing is changed. Exit code 0 when there is no error (warnings may be printed), 1 when there is one.

    \b
    Examples:
      distributary table verify ./orders
      distributary table verify s3://lake/orders --deep -o json
    """
    from distributary.delta.operations.verify import verify_table

    with working("verifying…") as tell:
        report = verify_table(location.store(), deep=deep, on_step=tell)
    if format == "json":
        write_value(_value(report, location), format, output)
    elif format == "table":
        write_text(_text(report), output)
    else:
        write_rows(_rows(report), format, output)
    if report.errors:
        click.get_current_context().exit(1)


def _value(report: VerificationReport, location: TableLocation) -> dict[str, object]:
    return {
        "location": location.store().root,
        "ok": not report.errors,
        "problems": [
            {
                "severity": problem.severity.value,
                "code": problem.code,
                "where": problem.where,
                "message": problem.message,
            }
            for problem in report.problems
        ],
        "found": dict(report.found),
        "checked": dict(report.checked),
    }


def _rows(report: VerificationReport) -> pa.Table:
    import pyarrow as pa

    problems = report.problems
    columns = {
        "severity": [problem.severity.value for problem in problems],
        "code": [problem.code for problem in problems],
        "where": [problem.where for problem in problems],
        "message": [problem.message for problem in problems],
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _text(report: VerificationReport) -> str:
    from distributary.cli.text_table import cell_text
    from distributary.delta.operations.verification_report import Severity

    problems = [f"{p.severity.value} {p.code} {p.where}: {p.message}" for p in report.problems]
    checked = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in report.checked.items())
    numbers = [(report.number(severity), f"{severity.value}s") for severity in Severity]
    verdict = ", ".join(f"{number:,} {name}" for number, name in numbers) if problems else "no problems"
    return "\n".join([*map(cell_text, problems), f"{verdict} in {checked}"])
