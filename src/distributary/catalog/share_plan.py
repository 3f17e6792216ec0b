"""A share plan: what must change in the catalog so that it says what a share file says.

The plan is a value that can be shown; applying it is one transaction with its audit events. Applying a file
twice changes nothing the second time. What the file does not name stays, unless pruning is asked for; a table
whose entry differs keeps its id, so running downloads go on under the new rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection

from distributary.catalog import bearer_tokens, grants, recipients, shared_tables, shares
from distributary.catalog.administration import Administration, insert_table
from distributary.catalog.database import now_ms
from distributary.catalog.recipients import Recipient
from distributary.catalog.share_file import (
    REFERENCE_RECIPIENT,
    RecipientEntry,
    ShareEntry,
    ShareFile,
    TableEntry,
    recipient_entry,
    table_entry,
)
from distributary.catalog.shared_tables import SharedTable
from distributary.catalog.shares import Share
from distributary.sharing.names import name_key


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a plan."""

    action: str
    target: str
    details: Mapping[str, Any] = {}

    def __str__(self) -> str:
        sign = {"create": "+", "add": "+", "grant": "+", "take_over": "+", "update": "~"}
        shown = ", ".join(f"{name}={value!r}" for name, value in self.details.items())
        words = f"{sign.get(self.action.partition('.')[2], '-')} {self.action} {self.target}"
        return f"{words} ({shown})" if shown else words


_Step = tuple[Change, Callable[[Connection], None]]


def plan_share_file(connection: Connection, file: ShareFile, *, prune: bool = False) -> list[Change]:
    """Give what applying a share file would change, in order."""
    return [change for change, _ in _steps(connection, file, prune=prune)]


def apply_share_file(
    administration: Administration, file: ShareFile, *, prune: bool = False, check: bool = True
) -> list[Change]:
    """Make the catalog say what a share file says; gives what was changed.

    With ``check`` every table that is new or changed is opened first, and nothing is done when one cannot be.
    """
    if check:
        check_tables(administration, file)
    done: list[Change] = []
    with administration.database.write() as connection:
        # A step may make what the next one needs, so each is planned after those before it.
        for kind in _KINDS:
            for change, make in list(kind(connection, file, prune)):
                make(connection)
                done.append(change)
        if done:
            administration.audit_many(connection, [(c.action, c.target, c.details) for c in done])
    return done


def check_tables(administration: Administration, file: ShareFile) -> None:
    """Open the tables that applying a file would add or change."""
    with administration.read() as connection:
        changed = {c.target for c in plan_share_file(connection, file) if c.action.startswith("table.")}
    for share in file.shares:
        for schema in share.schemas:
            for table in schema.tables:
                if any(_same_table(target, share.name, schema.name, table.name) for target in changed):
                    administration.check_table(table.policy)


def _same_table(target: str, *names: str) -> bool:
    return name_key(target) == name_key(".".join(names))


def _steps(connection: Connection, file: ShareFile, *, prune: bool) -> Iterator[_Step]:
    for kind in _KINDS:
        yield from kind(connection, file, prune)


def _share_steps(connection: Connection, file: ShareFile, prune: bool) -> Iterator[_Step]:
    for entry in file.shares:
        found = shares.find_share(connection, entry.name)
        wanted = _share_fields(entry)
        if found is None:
            yield _step("share.create", entry.name, _said(wanted), _create_share(entry))
        elif changed := _differences(wanted, {name: getattr(found, name) for name in wanted}):
            yield _step("share.update", found.name, changed, _update_share(found, changed))
    if prune:
        named = {name_key(entry.name) for entry in file.shares}
        for share in shares.list_shares(connection):
            if name_key(share.name) not in named:
                yield _step("share.drop", share.name, {}, lambda c, share=share: shares.drop_share(c, share))


def _table_steps(connection: Connection, file: ShareFile, prune: bool) -> Iterator[_Step]:
    for entry in file.shares:
        share = shares.find_share(connection, entry.name)
        there = {} if share is None else _tables_by_key(connection, share)
        for schema in entry.schemas:
            for table in schema.tables:
                key = (name_key(schema.name), name_key(table.name))
                yield from _one_table(entry.name, schema.name, table, there.pop(key, None))
        for table in there.values() if prune else ():
            yield _step(
                "table.remove",
                table.full_name,
                {},
                lambda c, table=table: shared_tables.delete_table(c, table),
            )


def _one_table(share: str, schema: str, entry: TableEntry, found: SharedTable | None) -> Iterator[_Step]:
    wanted = {name: getattr(entry, name) for name in TableEntry.__struct_fields__ if name != "name"}
    if found is None:
        facts = _said(msgspec.to_builtins(entry)) | {"location": entry.location}
        facts.pop("name", None)
        yield _step("table.add", f"{share}.{schema}.{entry.name}", facts, _add_table(share, schema, entry))
        return
    before = table_entry(found)
    changed = _differences(wanted, {name: getattr(before, name) for name in wanted})
    if changed:
        yield _step("table.update", found.full_name, changed, _update_table(found, entry))


def _recipient_steps(connection: Connection, file: ShareFile, prune: bool) -> Iterator[_Step]:
    entries = _recipients(file)
    for entry in entries:
        found = recipients.find_recipient(connection, entry.name)
        wanted = _recipient_fields(entry)
        if found is None:
            yield _step("recipient.create", entry.name, _said(wanted), _create_recipient(entry))
            continue
        before = _recipient_fields(recipient_entry(found, []))
        if changed := _differences(wanted, before):
            yield _step("recipient.update", found.name, changed, _update_recipient(found, wanted))
    if prune:
        named = {name_key(entry.name) for entry in entries}
        for found in recipients.list_recipients(connection):
            if name_key(found.name) not in named:
                yield _step(
                    "recipient.drop",
                    found.name,
                    {},
                    lambda c, found=found: recipients.drop_recipient(c, found),
                )


def _grant_steps(connection: Connection, file: ShareFile, prune: bool) -> Iterator[_Step]:
    for entry in _recipients(file):
        owner = recipients.find_recipient(connection, entry.name)
        held = (
            {}
            if owner is None
            else {
                name_key(grant.share): grant.share for grant in grants.grants_of(connection, recipient=owner)
            }
        )
        for share in entry.shares:
            if held.pop(name_key(share), None) is None:
                yield _step("share.grant", share, {"recipient": entry.name}, _grant(share, entry.name))
        # The list of a recipient is complete where the file gives one.
        for share in held.values() if prune or entry.shares else ():
            yield _step("share.revoke", share, {"recipient": entry.name}, _revoke(share, entry.name))


def _token_steps(connection: Connection, file: ShareFile, prune: bool) -> Iterator[_Step]:
    if file.authorization is None:
        return
    text = file.authorization.bearer_token
    owner = recipients.find_recipient(connection, REFERENCE_RECIPIENT)
    held = [] if owner is None else bearer_tokens.tokens_of(connection, owner)
    current = bearer_tokens.token_id(text)
    # That server knows one token: the one that was in the file before is over.
    for token in held:
        if token.id != current and token.id.startswith("ext") and token.state(now_ms()) == "active":
            end = functools.partial(bearer_tokens.revoke_token, id=token.id)
            yield _step(
                "token.revoke", REFERENCE_RECIPIENT, {"token": token.id}, lambda c, end=end: _done(end(c))
            )
    if current not in {token.id for token in held}:

        def take_over(connection: Connection) -> None:
            owner = recipients.get_recipient(connection, REFERENCE_RECIPIENT)
            bearer_tokens.take_over_token(connection, owner, text)

        yield _step("token.take_over", REFERENCE_RECIPIENT, {}, take_over)


def _done(_result: object) -> None:
    """Let a change that gives something back be a step."""


_KINDS = (_share_steps, _table_steps, _recipient_steps, _grant_steps, _token_steps)


def _recipients(file: ShareFile) -> tuple[RecipientEntry, ...]:
    """The reference server has one recipient, who may read everything."""
    if file.authorization is None:
        return file.recipients
    everything = tuple(share.name for share in file.shares)
    return (*file.recipients, RecipientEntry(name=REFERENCE_RECIPIENT, shares=everything))


def _step(action: str, target: str, details: Mapping[str, Any], make: Callable[[Connection], None]) -> _Step:
    return Change(action=action, target=target, details=details), make


def _share_fields(entry: ShareEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in ("display_name", "comment", "properties")}


def _recipient_fields(entry: RecipientEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in ("comment", "properties", "allowed_addresses", "disabled")}


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if value != found[name]}


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _tables_by_key(connection: Connection, share: Share) -> dict[tuple[str, str], SharedTable]:
    tables = shares.list_tables(connection, share)
    return {(name_key(table.schema), name_key(table.name)): table for table in tables}


def _create_share(entry: ShareEntry) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        shares.create_share(connection, entry.name, **_share_fields(entry))

    return make


def _update_share(found: Share, changed: Mapping[str, Any]) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        shares.save_share(connection, msgspec.structs.replace(found, **changed))

    return make


def _add_table(share: str, schema: str, entry: TableEntry) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        home = shares.get_share(connection, share)
        insert_table(connection, home, schema, entry.name, entry.policy, entry.comment, entry.id)

    return make


def _update_table(found: SharedTable, entry: TableEntry) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        changed = msgspec.structs.replace(
            found, policy=entry.policy, comment=entry.comment, published_id=entry.id
        )
        shared_tables.save_table(connection, changed)

    return make


def _create_recipient(entry: RecipientEntry) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        fields = _recipient_fields(entry)
        disabled = fields.pop("disabled")
        made = recipients.create_recipient(connection, entry.name, **fields)
        if disabled:
            recipients.save_recipient(connection, msgspec.structs.replace(made, disabled=True))

    return make


def _update_recipient(found: Recipient, wanted: Mapping[str, Any]) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        recipients.save_recipient(connection, msgspec.structs.replace(found, **wanted))

    return make


def _grant(share: str, recipient: str) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        to = recipients.get_recipient(connection, recipient)
        grants.grant(connection, shares.get_share(connection, share), to)

    return make


def _revoke(share: str, recipient: str) -> Callable[[Connection], None]:
    def make(connection: Connection) -> None:
        to = recipients.get_recipient(connection, recipient)
        grants.revoke(connection, shares.get_share(connection, share), to)

    return make
