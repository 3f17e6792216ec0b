"""Shares, schemas and tables: names, limits, pages, and what a recipient sees of them."""

from __future__ import annotations

import uuid

import pytest

from distributary.catalog import grants, shares
from distributary.catalog.errors import InvalidEntryError, NameTakenError, NotInCatalogError
from distributary.catalog.recipients import Recipient
from distributary.errors import DistributaryError
from distributary.sharing.names import InvalidNameError
from distributary.sharing.table_policy import TablePolicy


def policy(location: str = "/lake/t", **rules) -> TablePolicy:
    return TablePolicy(location=location, **rules)


def recipient(admin, name: str = "acme", **fields) -> Recipient:
    return admin.create_recipient(name, **fields)


def add(admin, share: str, schema: str, name: str, **rules) -> None:
    admin.add_table(share, schema, name, policy(**rules), check=False)


def test_name_in_another_casing_finds_the_share_and_keeps_the_first_casing(admin):
    """DM-031, DM-035, REST-003."""
    made = admin.create_share("Vaccine_Straße")
    with admin.read() as connection:
        assert shares.get_share(connection, "VACCINE_STRASSE") == made
    with pytest.raises(NameTakenError, match="already"):
        admin.create_share("vaccine_strasse")


def test_bad_share_name_is_refused_and_never_found(admin):
    """DM-011, DM-030, DM-032, DM-034, DM-036, C-01."""
    someone = recipient(admin)
    for name in ("", "a b", "a/b", "a\x1f", "a\x7f", "x" * 256, "\ud800"):
        with pytest.raises(InvalidNameError):
            admin.create_share(name)
        assert shares.visible_share(admin.database, someone, name) is None
        assert grants.shared_table(admin.database, someone, name, "s", "t") is None
        assert grants.shared_table(admin.database, someone, "s", name, "t") is None


def test_share_name_that_the_protocol_allows_is_kept(admin):
    """DM-030, DM-033, DM-034."""
    for name in ("valid_share_name", "Vaccine_Data_2024", "acme-vaccine-data", "a.b", "x" * 255):
        assert admin.create_share(name).name == name


def test_period_is_refused_in_schema_and_table_names(admin):
    """DM-017, DM-020, DM-033."""
    admin.create_share("s")
    with pytest.raises(InvalidNameError):
        add(admin, "s", "a.b", "t")
    with pytest.raises(InvalidNameError):
        add(admin, "s", "a", "table.name")


def test_ids_are_uuids_that_stay_when_a_share_is_renamed(admin):
    """DM-012, DM-013, DM-023, DM-024."""
    made = admin.create_share("sales")
    add(admin, "sales", "eu", "orders")
    someone = recipient(admin)
    admin.grant("sales", "acme")
    before = grants.shared_table(admin.database, someone, "sales", "eu", "orders")
    admin.update_share("sales", name="sales_2")
    assert grants.shared_table(admin.database, someone, "sales", "eu", "orders") is None
    after = grants.shared_table(admin.database, someone, "sales_2", "eu", "orders")
    assert before is not None
    assert after is not None
    assert (after.id, after.share_id, uuid.UUID(after.id).version) == (before.id, made.id, 4)


def test_dropped_and_remade_names_start_without_grants_and_ids(admin):
    """DM-013: RELIABILITY E5, old grants never come back with a name."""
    first = admin.create_share("sales")
    someone = recipient(admin)
    admin.grant("sales", "acme")
    admin.drop_share("sales")
    second = admin.create_share("sales")
    assert second.id != first.id
    assert shares.visible_shares(admin.database, someone).items == []
    admin.grant("sales", "acme")
    admin.drop_recipient("acme")
    again = recipient(admin)
    assert again.id != someone.id
    assert shares.visible_shares(admin.database, again).items == []
    assert shares.visible_shares(admin.database, someone).items == []


def test_descriptions_have_the_limits_of_the_protocol(admin):
    """DM-014, DM-015, DM-016, REST-103."""
    properties = {f"key{number}": "v" * 1000 for number in range(50)}
    made = admin.create_share("s", display_name="d" * 255, comment="c" * 65_536, properties=properties)
    assert (made.display_name, made.comment, made.properties) == ("d" * 255, "c" * 65_536, properties)
    for fields in (
        {"display_name": "d" * 256},
        {"comment": "c" * 65_537},
        {"properties": properties | {"one": "more"}},
        {"properties": {"k" * 256: "v"}},
        {"properties": {"k": "v" * 1001}},
        {"comment": "nul \x00"},
        {"comment": "half \ud800"},
    ):
        with pytest.raises(InvalidEntryError):
            admin.create_share("t", **fields)


def test_pages_give_every_share_once_in_a_stable_order(admin):
    """REST-030, REST-033, REST-034, REST-036, REST-039, REST-102."""
    someone = recipient(admin)
    names = ["b", "A", "ä", "Z", "c.d", "_x", "0"]
    for name in names:
        admin.create_share(name)
        admin.grant(name, "acme")
    admin.create_share("not_granted")
    whole = [share.name for share in shares.visible_shares(admin.database, someone).items]
    assert sorted(whole) == sorted(names)
    for size in (1, 2, 3, 500, 10_000):
        paged, after = [], None
        while True:
            page = shares.visible_shares(admin.database, someone, limit=size, after=after)
            paged += [share.name for share in page.items]
            if page.next is None:
                break
            after = page.next
        assert paged == whole
    assert shares.visible_shares(admin.database, someone, limit=0).items == []


def test_page_order_is_that_of_the_code_points_on_every_database(admin):
    """REST-039: the same order from SQLite and PostgreSQL."""
    someone = recipient(admin)
    for name in ("a", "B", "_", "é", "z", "-"):
        admin.create_share(name)
        admin.grant(name, "acme")
    page = shares.visible_shares(admin.database, someone)
    assert [share.name for share in page.items] == ["-", "_", "a", "B", "z", "é"]


def test_page_goes_on_when_shares_come_and_go_between(admin):
    """REST-039."""
    someone = recipient(admin)
    for name in "abcdef":
        admin.create_share(name)
        admin.grant(name, "acme")
    first = shares.visible_shares(admin.database, someone, limit=3)
    admin.drop_share("c")
    admin.create_share("aa")
    admin.grant("aa", "acme")
    second = shares.visible_shares(admin.database, someone, limit=3, after=first.next)
    assert [share.name for share in second.items] == ["d", "e", "f"]


def test_tables_are_listed_by_schema_and_over_all_schemas(admin):
    """DM-001, DM-003, DM-004, DM-005, DM-010, DM-018, DM-021, DM-022, REST-121, REST-131, REST-140."""
    admin.create_share("s")
    for schema, name in (("one", "b"), ("Two", "a"), ("one", "a"), ("ONE", "c")):
        add(admin, "s", schema, name)
    someone = recipient(admin)
    admin.grant("s", "acme")
    share = shares.visible_share(admin.database, someone, "S")
    assert share is not None
    schemas = shares.visible_schemas(admin.database, share)
    assert [(schema.name, schema.share) for schema in schemas.items] == [("one", "s"), ("Two", "s")]
    one = shares.visible_schema(admin.database, share, "One")
    listed = shares.visible_tables(admin.database, someone, share, one)
    assert [table.full_name for table in listed.items] == ["s.one.a", "s.one.b", "s.one.c"]
    paged, after = [], None
    while True:
        page = shares.visible_tables(admin.database, someone, share, limit=1, after=after)
        paged += [table.full_name for table in page.items]
        after = page.next
        if after is None:
            break
    assert paged == ["s.one.a", "s.one.b", "s.one.c", "s.Two.a"]
    with pytest.raises(NameTakenError):
        add(admin, "s", "one", "A")


def test_schema_ends_with_its_last_table(admin):
    """DM-001."""
    admin.create_share("s")
    add(admin, "s", "one", "a")
    admin.remove_table("s", "ONE", "A")
    with admin.read() as connection:
        assert shares.list_schemas(connection, shares.get_share(connection, "s")) == []


def test_share_that_is_not_granted_looks_as_if_it_were_not_there(admin):
    """DM-002, DM-003, REST-015: RELIABILITY E1."""
    admin.create_share("s")
    add(admin, "s", "one", "a")
    one, other = recipient(admin), recipient(admin, "other")
    assert admin.grant("s", "acme") is True
    assert admin.grant("S", "ACME") is False
    assert grants.shared_table(admin.database, one, "S", "ONE", "A") is not None
    assert grants.shared_table(admin.database, other, "s", "one", "a") is None
    assert shares.visible_share(admin.database, other, "s") is None
    assert admin.revoke("s", "acme") is True
    assert admin.revoke("s", "acme") is False
    assert grants.shared_table(admin.database, one, "s", "one", "a") is None


def test_table_is_found_by_id_only_while_it_is_granted(admin):
    """RELIABILITY D1, P5: what a ticket names is looked up again."""
    admin.create_share("s")
    add(admin, "s", "one", "a")
    someone = recipient(admin)
    admin.grant("s", "acme")
    table = grants.shared_table(admin.database, someone, "s", "one", "a")
    assert table is not None
    assert grants.shared_table_by_id(admin.database, someone, table.id) == table
    admin.revoke("s", "acme")
    assert grants.shared_table_by_id(admin.database, someone, table.id) is None
    assert grants.recipient_by_id(admin.database, someone.id) == someone
    assert grants.recipient_by_id(admin.database, "no one") is None


def test_rules_of_a_table_come_back_as_they_were_given(admin):
    """DM-025, DM-026, DM-027."""
    admin.create_share("s")
    rules = policy(
        "s3a://lake/t/",
        history_shared=False,
        start_version=7,
        change_feed=False,
        access_modes=("url", "dir"),
        auxiliary_locations=("s3://other/x",),
    )
    admin.add_table("s", "one", "a", rules, comment="hello", check=False)
    someone = recipient(admin)
    admin.grant("s", "acme")
    table = grants.shared_table(admin.database, someone, "s", "one", "a")
    assert table is not None
    assert table.policy.location == "s3://lake/t"
    assert (table.policy.history_shared, table.policy.start_version, table.policy.change_feed) == (
        False,
        7,
        False,
    )
    assert table.policy.access_modes == ("url", "dir")
    assert table.policy.auxiliary_locations == ("s3://other/x",)
    changed = admin.update_table("s", "one", "a", policy={"history_shared": True}, check=False, name="b")
    assert (changed.id, changed.name, changed.policy.history_shared) == (table.id, "b", True)


def test_rules_that_cannot_be_are_refused(admin):
    """AM-002: a partition filter and dir access exclude each other."""
    admin.create_share("s")
    for rules in (
        {"access_modes": ()},
        {"access_modes": ("root",)},
        {"start_version": -1},
        {"location": "memory://x/t"},
        {"location": "s3://lake/../etc"},
        {"location": ""},
        {"access_modes": ("dir",), "partition_filter": "country = 'DE'"},
        {"access_modes": ("url", "dir"), "partition_filter": "country = recipient.country"},
    ):
        with pytest.raises(DistributaryError) as refusal:
            add(admin, "s", "one", "a", **rules)
        assert refusal.value.exit_code == 2


def test_unknown_names_are_errors_that_say_what_to_do(admin):
    for ask in (
        lambda: admin.drop_share("none"),
        lambda: admin.drop_recipient("none"),
        lambda: admin.grant("none", "none"),
        lambda: admin.revoke_token("none"),
    ):
        with pytest.raises(NotInCatalogError, match="distributary"):
            ask()
