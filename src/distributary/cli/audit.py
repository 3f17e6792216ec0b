"""`distributary audit …`: who did what, and whether the record is whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.catalog_options import catalog_option, write_entries
from distributary.cli.output import output_options
from distributary.cli.progress import working
from distributary.cli.result import confirm, result_option, write_result, yes_option
from distributary.cli.time_text import Moment, time_text

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration


@click.group(short_help="Who did what, and whether the record is whole.")
def audit() -> None:
    """The audit log: every change, and every read of a recipient, in a chain that cannot be changed unseen.

    \b
    Examples:
      distributary audit list --newest 20
      distributary audit verify
    """


@audit.command("list", short_help="The events.")
@click.option(
    "--newest", type=click.IntRange(min=1), default=50, show_default=True, help="Only the last so many."
)
@click.option("--action", help="Only actions that begin so: share, token.revoke, table.query…")
@click.option("--actor", help="Only by this one: cli:alice, recipient:acme…")
@click.option("--since", type=Moment(past=True), metavar="TIME", help="Only since then: 24h, or a date.")
@output_options
@catalog_option
def list_audit(
    admin: Administration,
    newest: int,
    action: str | None,
    actor: str | None,
    since: int | None,
    format: str,
    output: Path | None,
) -> None:
    """List events, oldest first.

    \b
    Examples:
      distributary audit list --since 24h --action token
      distributary audit list --newest 1000 -o ndjson --output audit.ndjson
    """
    from distributary.catalog.audit_log import list_events

    with admin.read() as connection:
        found = list_events(connection, newest=newest, action=action, actor=actor, since=since)
    entries = [
        {
            "number": event.number,
            "time": time_text(event.at),
            "actor": event.actor,
            "action": event.action,
            "target": event.target,
            "outcome": event.outcome,
            "details": dict(event.details),
        }
        for event in found
    ]
    columns = ("number", "time", "actor", "action", "target", "outcome", "details")
    write_entries(entries, columns, format, output)


@audit.command("verify", short_help="Check that no event was changed or removed.")
@result_option
@catalog_option
def verify_audit(admin: Administration, result: str) -> None:
    """Recompute the chain of events and check its seals; exit code 1 when something was changed.

    \b
    Examples:
      distributary audit verify
      distributary audit verify -o json
    """
    with working("checking the chain…"):
        found = admin.verify_audit()
    facts = {"events": found.events, "first": found.first, "last": found.last, "anchored": found.anchored}
    older = f"; {found.first - 1} older ones were removed behind a seal" if found.anchored else ""
    write_result(f"The audit log is whole: {found.events} events{older}.", {"whole": True, **facts}, result)


@audit.command("prune", short_help="Remove old events behind a seal.")
@click.option(
    "--older-than",
    "before",
    type=Moment(past=True),
    required=True,
    metavar="TIME",
    help="Events before then: 365d, or a date.",
)
@yes_option
@result_option
@catalog_option
def prune_audit(admin: Administration, before: int, yes: bool, result: str) -> None:
    """Remove old events and leave a sealed anchor, so that the rest can still be verified.

    \b
    Examples:
      distributary audit prune --older-than 365d
      distributary audit prune --older-than 2026-01-01 --yes
    """
    confirm(f"Remove every audit event before {time_text(before)}?", yes)
    removed = admin.remove_audit_before(before)
    write_result(f"Removed {removed} events.", {"removed": removed, "before": time_text(before)}, result)
