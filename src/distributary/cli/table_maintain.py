"""`distributary table checkpoint | vacuum | restore | analyze`: care for a table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from distributary.cli.progress import bar, working
from distributary.cli.result import confirm, dry_run_option, result_option, write_result, yes_option
from distributary.cli.table_options import TableLocation, table_location

if TYPE_CHECKING:
    import datetime

    from distributary.delta.log.checkpoint_writer import CheckpointKind
    from distributary.delta.operations.vacuum import VacuumPlan


@click.command(short_help="Write a checkpoint.")
@table_location
@click.option(
    "--kind",
    type=click.Choice(["auto", "single", "multi-part", "v2"]),
    default="auto",
    show_default=True,
    help="One file, several parts, or v2 with side files; auto does what the table asks for.",
)
@click.option("--parts", type=click.IntRange(min=1), help="How many parts or side files.")
@result_option
def checkpoint(location: TableLocation, kind: CheckpointKind, parts: int | None, result: str) -> None:
    """Write a checkpoint of the latest version, so that readers need not replay older commits.

    Writers do this by themselves every delta.checkpointInterval commits.

    \b
    Examples:
      distributary table checkpoint ./orders
      distributary table checkpoint s3://lake/orders --kind multi-part --parts 4
    """
    table = location.table()
    with working("writing a checkpoint…"):
        made = table.checkpoint(kind, parts)
    facts = {
        "location": table.uri,
        "version": made.version,
        "kind": made.kind,
        "paths": list(made.paths),
        "actions": made.num_actions,
        "files": made.num_adds,
        "bytes": made.size_in_bytes,
        "written": made.written,
    }
    state = "written" if made.written else "there already"
    sentence = (
        f"{made.kind} checkpoint of version {made.version} {state}: {made.num_adds:,} data files, "
        f"{made.size_in_bytes:,} bytes in {len(made.paths)} files"
    )
    write_result(sentence, facts, result)


@click.command(short_help="Delete files that no version needs.")
@table_location
@click.option(
    "--retention",
    metavar="TIME",
    help='Keep what versions of this time need: "7 days", "12 hours". Default: what the table promises.',
)
@click.option("--force", is_flag=True, help="Allow a retention that is shorter than the table promises.")
@dry_run_option
@yes_option
@result_option
def vacuum(
    location: TableLocation, retention: str | None, force: bool, dry_run: bool, yes: bool, result: str
) -> None:
    """Delete the files that no version within the retention needs; older versions cannot be read any more.

    With -o json a dry run names every file. Exit code 1 when a file could not be deleted.

    \b
    Examples:
      distributary table vacuum ./orders --dry-run
      distributary table vacuum s3://lake/orders --retention "30 days" --yes
    """
    from distributary.delta.operations.vacuum import execute_vacuum, plan_vacuum

    kept_for = _retention(retention)
    table = location.table()
    with working("looking at every file…"):
        state = table.snapshot().state
        plan = plan_vacuum(table.store, state, now=_now(), retention=kept_for, force=force)
    facts = _vacuum_facts(plan)
    if dry_run:
        write_result(str(plan), {**facts, "paths": list(plan.files), "dryRun": True}, result)
        return
    if plan.files:
        confirm(f"{plan}. Delete them for good?", yes)
    with bar("deleting", len(plan.files)) as advance:
        done = execute_vacuum(table.store, plan, advance)
    sentence = f"{done.deleted:,} files deleted, {plan.kept:,} stay"
    write_result(
        sentence, {**facts, "deleted": done.deleted, "failed": list(done.failed), "dryRun": False}, result
    )
    if done.failed:
        click.echo(f"{len(done.failed):,} files could not be deleted, {done.failed[0]} for one", err=True)
        click.get_current_context().exit(1)


def _retention(text: str | None) -> datetime.timedelta | None:
    from distributary.delta.table_properties import parse_interval

    try:
        return None if text is None else parse_interval(text)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r}: {error}; write 7 days, or 12 hours", param_hint="--retention"
        ) from error


def _vacuum_facts(plan: VacuumPlan) -> dict[str, object]:
    return {
        "location": plan.root,
        "version": plan.version,
        "retentionSeconds": plan.retention.total_seconds(),
        "files": len(plan.files),
        "bytes": plan.bytes,
        "kept": plan.kept,
    }


@click.command(short_help="Make an older version the newest again.")
@table_location
@click.option("--to-version", type=click.IntRange(min=0), help="The version to go back to.")
@click.option("--to-timestamp", metavar="TIME", help="Go back to how the table was then: ISO 8601.")
@click.option("--ignore-missing", is_flag=True, help="Leave out files that are gone.")
@dry_run_option
@yes_option
@result_option
def restore(
    location: TableLocation,
    to_version: int | None,
    to_timestamp: str | None,
    ignore_missing: bool,
    dry_run: bool,
    yes: bool,
    result: str,
) -> None:
    """Make an older version the newest again, as a new commit; the versions between stay in the history.

    \b
    Examples:
      distributary table restore ./orders --to-version 12
      distributary table restore s3://lake/orders --to-timestamp 2024-03-03T12:00:00Z --dry-run
    """
    from distributary.delta.operations.restore import execute_restore, plan_restore

    if (to_version is None) == (to_timestamp is None):
        raise click.UsageError("Give --to-version or --to-timestamp (one of them).")
    table = location.table()
    with working("comparing versions…"):
        current, target = table.snapshot(), table.snapshot(to_version, to_timestamp)
        plan = plan_restore(table.store, current.state, target.state, now=_now())
    facts = {
        "location": table.uri,
        "restoredVersion": target.version,
        "addedFiles": len(plan.adds),
        "removedFiles": len(plan.removes),
        "missing": list(plan.missing),
        "dryRun": dry_run,
    }
    if dry_run:
        write_result(str(plan), {"version": current.version, **facts}, result)
        return
    confirm(f"{plan}. Go on?", yes)
    with working("committing…"):
        done = execute_restore(table.store, plan, ignore_missing_files=ignore_missing, timestamp=to_timestamp)
    sentence = f"version {done.version} is version {target.version} again"
    write_result(sentence, {"version": done.version, **facts}, result)


@click.command(short_help="Add statistics to files that lack them.")
@table_location
@click.option("--all", "every_file", is_flag=True, help="Every file, whether it has statistics or not.")
@dry_run_option
@result_option
def analyze(location: TableLocation, every_file: bool, dry_run: bool, result: str) -> None:
    """Add statistics to the log for files that lack them, so that queries can leave files out.

    No row changes. Nothing is committed where every file has its statistics.

    \b
    Examples:
      distributary table analyze ./orders
      distributary table analyze s3://lake/orders --all --dry-run
    """
    from distributary.delta.operations.analyze import execute_analyze, plan_analyze

    table = location.table()
    with working("reading the log…"):
        plan = plan_analyze(table.snapshot().state, every_file=every_file)
    facts = {"location": table.uri, "files": len(plan.files), "columns": len(plan.columns), "dryRun": dry_run}
    version = plan.snapshot.version
    if dry_run or not plan.files:
        write_result(str(plan), {"version": version, "changed": False, **facts}, result)
        return
    with bar("analyzing", len(plan.files)) as advance:
        done = execute_analyze(table.store, plan, advance)
    assert done is not None
    facts |= {"version": done.version, "changed": True}
    write_result(f"version {done.version}: {plan}", facts, result)


def _now() -> int:
    return int(time.time() * 1000)
