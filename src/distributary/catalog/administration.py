"""Administration: every change to the catalog, each in one transaction with its audit event.

The commands and the admin API use nothing else to change shares, recipients, grants and tokens. A change
whose audit event cannot be written does not happen. Tables are looked at before they are shared, so that a
wrong path or a filter that does not fit is found by the one who makes it, not by a recipient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from sqlalchemy import Connection

from distributary.catalog import audit_log, bearer_tokens, grants, key_ids, recipients, shared_tables, shares
from distributary.catalog.audit_log import Event, SealingKeys
from distributary.catalog.bearer_tokens import DAY_MS, BearerToken, IssuedToken
from distributary.catalog.database import Database, now_ms
from distributary.catalog.errors import InvalidEntryError, NotInCatalogError
from distributary.catalog.migration import migrate
from distributary.catalog.partition_filter import check_columns, check_values, property_names
from distributary.catalog.recipients import Recipient
from distributary.catalog.shared_tables import SharedTable
from distributary.catalog.shares import Share
from distributary.catalog.table_folder import FoundTable, find_tables
from distributary.delta.table import DeltaTable
from distributary.errors import DistributaryError
from distributary.sharing.names import name_key
from distributary.sharing.table_policy import TablePolicy

StorageOptions = Callable[[str], Mapping[str, str]]
"""Gives the options of the store for a table root."""


def no_options(_location: str) -> Mapping[str, str]:
    """Leave a store to its environment."""
    return {}


def initialise(database: Database, keys: SealingKeys, *, actor: str = "init", reseal: bool = False) -> None:
    """Make or upgrade the catalog, and begin its audit log; done again, nothing changes."""
    migrate(database)
    with database.write() as connection:
        audit_log.begin(connection, keys)
        if reseal:
            audit_log.reseal(connection, keys)
        if key_ids.record(connection, keys.current_id) or reseal:
            action = "audit.reseal" if reseal else "keys.use"
            audit_log.append(connection, keys, [Event(action=action, actor=actor, target=keys.current_id)])


class Administration:
    """Changes to one catalog, made by one actor."""

    def __init__(
        self,
        database: Database,
        keys: SealingKeys,
        *,
        actor: str,
        storage_options: StorageOptions = no_options,
        longest_token_days: int = 365,
    ) -> None:
        self.database = database
        self._keys = keys
        self._actor = actor
        self._storage_options = storage_options
        self._longest_token_ms = longest_token_days * DAY_MS

    def read(self) -> AbstractContextManager[Connection]:
        """Open a transaction for the catalog's own look-ups."""
        return self.database.read()

    def create_share(self, name: str, **fields: Any) -> Share:
        """Add an empty share."""
        with self.database.write() as connection:
            made = shares.create_share(connection, name, **fields)
            self._audit(connection, "share.create", made.name, _given(fields))
        return made

    def update_share(self, name: str, /, **fields: Any) -> Share:
        """Change a share: name, display_name, comment, properties."""
        with self.database.write() as connection:
            found = shares.get_share(connection, name)
            saved = shares.save_share(connection, msgspec.structs.replace(found, **fields))
            self._audit(connection, "share.update", found.name, _given(fields))
        return saved

    def drop_share(self, name: str) -> Share:
        """Remove a share with its tables and grants."""
        with self.database.write() as connection:
            found = shares.get_share(connection, name)
            shares.drop_share(connection, found)
            self._audit(connection, "share.drop", found.name, {"id": found.id})
        return found

    def add_table(
        self,
        share: str,
        schema: str,
        name: str,
        policy: TablePolicy,
        *,
        comment: str | None = None,
        published_id: str | None = None,
        check: bool = True,
    ) -> SharedTable:
        """Share a table under a name; the schema is made when it is not there."""
        policy = shared_tables.checked_policy(policy)
        if check:
            self.check_table(policy)
        with self.database.write() as connection:
            found = shares.get_share(connection, share)
            return self._insert_table(connection, found, schema, name, policy, comment, published_id)

    def add_folder(
        self, share: str, folder: Path, policy: TablePolicy
    ) -> list[tuple[FoundTable, SharedTable]]:
        """Share every table below a folder that is not in the share yet; all of them or none."""
        added: list[tuple[FoundTable, SharedTable]] = []
        tables = find_tables(folder)
        with self.database.write() as connection:
            found = shares.get_share(connection, share)
            locations = {table.policy.location for table in shares.list_tables(connection, found)}
            for table in tables:
                if str(table.path) not in locations:
                    there = msgspec.structs.replace(policy, location=str(table.path))
                    made = self._insert_table(connection, found, table.schema, table.name, there, None, None)
                    added.append((table, made))
        return added

    def update_table(
        self,
        share: str,
        schema: str,
        name: str,
        /,
        *,
        check: bool = True,
        policy: Mapping[str, Any],
        **fields: Any,
    ) -> SharedTable:
        """Change a shared table: parts of its policy, and name or comment."""
        with self.read() as connection:
            before = self.find_table(connection, share, schema, name)
        changed = shared_tables.checked_policy(msgspec.structs.replace(before.policy, **policy))
        if check and changed != before.policy:
            self.check_table(changed)
        with self.database.write() as connection:
            found = self.find_table(connection, share, schema, name)
            saved = shared_tables.save_table(
                connection, msgspec.structs.replace(found, policy=changed, **fields)
            )
            self._audit(connection, "table.update", found.full_name, _given({**policy, **fields}))
        return saved

    def remove_table(self, share: str, schema: str, name: str) -> SharedTable:
        """Take a table out of a share; the table itself is not touched."""
        with self.database.write() as connection:
            found = self.find_table(connection, share, schema, name)
            shared_tables.delete_table(connection, found)
            self._audit(connection, "table.remove", found.full_name, {"id": found.id})
        return found

    def find_table(self, connection: Connection, share: str, schema: str, name: str) -> SharedTable:
        """Find a shared table by its names."""
        found = shares.get_share(connection, share)
        for table in shares.list_tables(connection, found):
            if name_key(table.schema) == name_key(schema) and name_key(table.name) == name_key(name):
                return table
        raise NotInCatalogError(
            f"share {found.name!r} has no table {schema}.{name}: "
            f"`distributary share show {found.name}` lists its tables"
        )

    def check_table(self, policy: TablePolicy) -> None:
        """Read a table's log: it must be there, and the policy must fit it."""
        options = self._storage_options(policy.location)
        roots = policy.auxiliary_locations
        snapshot = DeltaTable(policy.location, options, allowed_roots=roots).snapshot()
        if policy.start_version > snapshot.version:
            raise InvalidEntryError(
                f"the start version is {policy.start_version}, the table's latest is {snapshot.version}"
            )
        if policy.partition_filter is None:
            return
        partition_columns = snapshot.metadata.partitioning
        columns = pa.schema([snapshot.arrow_schema.field(column) for column in partition_columns])
        check_columns(policy.partition_filter, columns)

    def create_recipient(self, name: str, **fields: Any) -> Recipient:
        """Add a recipient without token or grant."""
        with self.database.write() as connection:
            made = recipients.create_recipient(connection, name, **fields)
            self._audit(connection, "recipient.create", made.name, _given(fields))
        return made

    def update_recipient(self, name: str, /, **fields: Any) -> Recipient:
        """Change a recipient: name, comment, properties, allowed_addresses, disabled."""
        with self.database.write() as connection:
            found = recipients.get_recipient(connection, name)
            saved = recipients.save_recipient(connection, msgspec.structs.replace(found, **fields))
            self._audit(connection, "recipient.update", found.name, _given(fields))
        return saved

    def drop_recipient(self, name: str) -> Recipient:
        """Remove a recipient with its tokens and grants."""
        with self.database.write() as connection:
            found = recipients.get_recipient(connection, name)
            recipients.drop_recipient(connection, found)
            self._audit(connection, "recipient.drop", found.name, {"id": found.id})
        return found

    def grant(self, share: str, recipient: str) -> bool:
        """Let a recipient read a share; False when it could already."""
        with self.database.write() as connection:
            to, what = recipients.get_recipient(connection, recipient), shares.get_share(connection, share)
            new = grants.grant(connection, what, to)
            if new:
                self._audit(connection, "share.grant", what.name, {"recipient": to.name})
        return new

    def revoke(self, share: str, recipient: str) -> bool:
        """Take a share away from a recipient; False when it was not granted."""
        with self.database.write() as connection:
            to, what = recipients.get_recipient(connection, recipient), shares.get_share(connection, share)
            ended = grants.revoke(connection, what, to)
            if ended:
                self._audit(connection, "share.revoke", what.name, {"recipient": to.name})
        return ended

    def missing_properties(self, share: str, recipient: str) -> dict[str, set[str]]:
        """Name the tables of a share whose filters read properties that a recipient does not have."""
        with self.read() as connection:
            to, what = recipients.get_recipient(connection, recipient), shares.get_share(connection, share)
            tables = shares.list_tables(connection, what)
        needed = {table.full_name: property_names(table.policy.partition_filter or "") for table in tables}
        lacking = {name: wanted - set(to.properties) for name, wanted in needed.items()}
        return {name: names for name, names in lacking.items() if names}

    def unfit_properties(self, share: str, recipient: str) -> dict[str, str]:
        """Name the tables of a share whose filters do not fit a recipient's properties, and why."""
        with self.read() as connection:
            to, what = recipients.get_recipient(connection, recipient), shares.get_share(connection, share)
            tables = [
                table for table in shares.list_tables(connection, what) if table.policy.partition_filter
            ]
        problems = {table.full_name: self._problem(table.policy, to) for table in tables}
        return {name: problem for name, problem in problems.items() if problem is not None}

    def issue_token(self, recipient: str, *, expires_at: int | None) -> IssuedToken:
        """Make a token, which is shown once."""
        self._check_expiry(expires_at)
        with self.database.write() as connection:
            owner = recipients.get_recipient(connection, recipient)
            made = bearer_tokens.issue_token(connection, owner, expires_at=expires_at)
            self._audit(connection, "token.issue", owner.name, _token_facts(made.token))
        return made

    def take_over_token(self, recipient: str, text: str) -> IssuedToken:
        """Accept a token that another server gave out."""
        with self.database.write() as connection:
            owner = recipients.get_recipient(connection, recipient)
            made = bearer_tokens.take_over_token(connection, owner, text)
            self._audit(connection, "token.take_over", owner.name, _token_facts(made.token))
        return made

    def rotate_token(self, recipient: str, *, expires_at: int | None, grace_ms: int) -> IssuedToken:
        """Make a new token and let the old one live on for a while, or end it."""
        self._check_expiry(expires_at)
        with self.database.write() as connection:
            owner = recipients.get_recipient(connection, recipient)
            made = bearer_tokens.rotate_token(connection, owner, expires_at=expires_at, grace_ms=grace_ms)
            self._audit(
                connection, "token.rotate", owner.name, _token_facts(made.token) | {"grace_ms": grace_ms}
            )
        return made

    def revoke_token(self, id: str) -> BearerToken:
        """End a token now."""
        with self.database.write() as connection:
            ended = bearer_tokens.revoke_token(connection, id)
            self._audit(connection, "token.revoke", ended.recipient, _token_facts(ended))
        return ended

    def revoke_all_tokens(self, recipient: str) -> list[BearerToken]:
        """End every token of a recipient now."""
        with self.database.write() as connection:
            owner = recipients.get_recipient(connection, recipient)
            ended = bearer_tokens.revoke_all_tokens(connection, owner)
            for token in ended:
                self._audit(connection, "token.revoke", owner.name, _token_facts(token))
        return ended

    def note(self, action: str, target: str, details: Mapping[str, Any] | None = None) -> None:
        """Record something that was done outside the catalog: keys, settings, exports."""
        with self.database.write() as connection:
            self._audit(connection, action, target, details or {})

    def remove_audit_before(self, time: int) -> int:
        """Remove old audit events behind a sealed anchor; gives how many."""
        with self.database.write() as connection:
            removed = audit_log.remove_before(connection, self._keys, time)
            self._audit(connection, "audit.remove", "", {"before": time, "events": removed})
        return removed

    def verify_audit(self) -> audit_log.Verification:
        """Recompute the audit chain."""
        with self.read() as connection:
            return audit_log.verify(connection, self._keys)

    def audit_many(
        self, connection: Connection, events: Sequence[tuple[str, str, Mapping[str, Any]]]
    ) -> None:
        """Append events of one larger change: action, target, details."""
        actor = self._actor
        made = [Event(action=action, actor=actor, target=to, details=facts) for action, to, facts in events]
        audit_log.append(connection, self._keys, made)

    def _audit(self, connection: Connection, action: str, target: str, details: Mapping[str, Any]) -> None:
        self.audit_many(connection, [(action, target, details)])

    def _insert_table(
        self,
        connection: Connection,
        share: Share,
        schema: str,
        name: str,
        policy: TablePolicy,
        comment: str | None,
        published_id: str | None,
    ) -> SharedTable:
        made = insert_table(connection, share, schema, name, policy, comment, published_id)
        self._audit(connection, "table.add", made.full_name, {"id": made.id, **_policy_facts(made.policy)})
        return made

    def _problem(self, policy: TablePolicy, recipient: Recipient) -> str | None:
        options = self._storage_options(policy.location)
        try:
            table = DeltaTable(policy.location, options, allowed_roots=policy.auxiliary_locations)
            snapshot = table.snapshot()
            names = snapshot.metadata.partitioning
            columns = pa.schema([snapshot.arrow_schema.field(name) for name in names])
            check_values(policy.partition_filter or "", recipient.properties, columns)
        except DistributaryError as error:
            return str(error)
        return None

    def _check_expiry(self, expires_at: int | None) -> None:
        if expires_at is None or expires_at > now_ms() + self._longest_token_ms:
            raise InvalidEntryError(
                f"a token lives at most {self._longest_token_ms // DAY_MS} days: give an earlier end, "
                "or raise lifetimes.longest_bearer_token_days"
            )


def insert_table(
    connection: Connection,
    share: Share,
    schema: str,
    name: str,
    policy: TablePolicy,
    comment: str | None = None,
    published_id: str | None = None,
) -> SharedTable:
    """Add a table to a share inside a larger change."""
    home = shares.schema_named(connection, share, schema)
    table = SharedTable(
        id="",
        share_id=share.id,
        schema_id=home.id,
        share=share.name,
        schema=home.name,
        name=name,
        policy=policy,
        comment=comment,
        published_id=published_id,
    )
    return shared_tables.insert_table(connection, table)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _policy_facts(policy: TablePolicy) -> dict[str, Any]:
    return msgspec.structs.asdict(policy)


def _token_facts(token: BearerToken) -> dict[str, Any]:
    return {"token": token.id, "expires_at": token.expires_at}
