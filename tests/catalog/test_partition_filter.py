"""Partition filters: what is accepted, and how a recipient's properties get into them."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.catalog import grants
from distributary.catalog.errors import InvalidEntryError
from distributary.catalog.partition_filter import bound_filter, check_columns, checked_filter, property_names
from distributary.expressions.arrow_evaluation import evaluate
from distributary.expressions.binding import bind
from distributary.expressions.sql_parser import parse_predicate
from distributary.sharing.table_policy import TablePolicy

COLUMNS = pa.schema([("country", pa.string()), ("day", pa.date32()), ("n", pa.int32())])


def rows_kept(text: str, values: list[str | None]) -> list[bool | None]:
    days = [datetime.date(2024, 1, 1)] * len(values)
    batch = pa.RecordBatch.from_pydict(
        {"country": values, "day": days, "n": [1] * len(values)}, schema=COLUMNS
    )
    return evaluate(bind(parse_predicate(text), COLUMNS), batch).to_pylist()


@given(value=st.text(max_size=40), other=st.text(max_size=40))
def test_property_becomes_one_literal_whatever_it_holds(value, other):
    """RELIABILITY E4: no value of a property widens a filter."""
    written = bound_filter("country = recipient.country", {"country": value})
    assert rows_kept(written, [value, other, None]) == [True, other == value, None]


@pytest.mark.parametrize(
    "value", ["' OR TRUE --", "\\", "\\' OR 1=1 OR '", "recipient.other", "a' /* */ 'b", "x'00'"]
)
def test_property_that_looks_like_sql_stays_a_value(value):
    properties = {"country": value, "other": "DE"}
    written = bound_filter("country = recipient.country AND n = 1", properties)
    assert rows_kept(written, [value, "DE", "x"]) == [True, False, False]


@pytest.mark.parametrize(
    "text",
    [
        "country = recipient.country",
        "NOT (country = recipient.country)",
        "country <=> recipient.country",
        "recipient.country IS NULL OR country = 'DE'",
        "country IN ('FR', RECIPIENT.`country`)",
    ],
)
def test_missing_property_hides_every_row(text):
    """A filter fails closed, whatever it says about nulls."""
    assert property_names(text) == {"country"}
    assert bound_filter(text, {"other": "x"}) == "FALSE"


def test_properties_are_read_as_the_type_of_their_column():
    written = bound_filter("day >= recipient.since AND n = recipient.n", {"since": "2023-12-31", "n": "1"})
    assert rows_kept(written, ["DE"]) == [True]


def test_text_that_only_looks_like_a_property_is_left_alone():
    text = "country = 'recipient.country' AND `recipient`.x = 1 AND t.recipient.y = 2 -- recipient.z"
    assert property_names(text) == set()
    assert bound_filter(text, {}) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "country =",
        "1 = 1",
        "recipient.a = recipient.b",
        "country = recipient.a.b",
        "x" * 10_001,
        "country = 'a' ;",
    ],
)
def test_text_that_is_no_filter_is_refused(text):
    with pytest.raises(InvalidEntryError):
        checked_filter(text)


@pytest.mark.parametrize(
    "text", ["id = 1", "country.x = 1", "country = 'a' OR other = 2", "n = 'x'", "country"]
)
def test_filter_that_does_not_fit_the_table_is_refused(text):
    with pytest.raises(InvalidEntryError):
        check_columns(checked_filter(text), COLUMNS)


def test_recipients_of_one_share_get_their_own_filters(admin, orders):
    admin.create_share("s")
    rules = TablePolicy(location=str(orders), partition_filter="country = recipient.country")
    admin.add_table("s", "eu", "orders", rules)
    found = {}
    for name, properties in (("de", {"country": "DE"}), ("fr", {"country": "FR"}), ("none", {})):
        recipient = admin.create_recipient(name, properties=properties)
        admin.grant("s", name)
        found[name] = grants.shared_table(admin.database, recipient, "s", "eu", "orders").policy
    assert [policy.partition_filter for policy in found.values()] == [
        "country = 'DE'",
        "country = 'FR'",
        "FALSE",
    ]
    assert len({policy.digest for policy in found.values()}) == 3
    assert admin.missing_properties("s", "none") == {"s.eu.orders": {"country"}}
    assert admin.unfit_properties("s", "de") == {}


def test_filter_over_a_data_column_is_refused_when_the_table_is_added(admin, orders):
    admin.create_share("s")
    with pytest.raises(InvalidEntryError, match="'id', which is no partition column"):
        admin.add_table("s", "eu", "orders", TablePolicy(location=str(orders), partition_filter="id = 1"))
    with pytest.raises(InvalidEntryError, match="latest is 1"):
        admin.add_table("s", "eu", "orders", TablePolicy(location=str(orders), start_version=9))


def test_unfit_property_is_named(admin, orders):
    admin.create_share("s")
    admin.add_table("s", "eu", "o", TablePolicy(location=str(orders), partition_filter="day = recipient.day"))
    admin.create_recipient("acme", properties={"day": "never"})
    admin.grant("s", "acme")
    assert "DATE" in admin.unfit_properties("s", "acme")["s.eu.o"]
