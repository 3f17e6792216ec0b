"""Names of shares, schemas and tables."""

from __future__ import annotations

import pytest

from distributary.sharing.names import (
    InvalidNameError,
    TableName,
    check_name,
    name_key,
    name_problem,
    parse_table_name,
)


@pytest.mark.parametrize(
    "name", ["valid_share_name", "Vaccine_Data_2024", "acme-vaccine-data", "ünïcode", "x" * 255]
)
@pytest.mark.parametrize("kind", ["share", "schema", "table"])
def test_names_of_the_protocol_are_accepted(name, kind):
    """DM-030, DM-034."""
    assert check_name(name, kind) == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\tb", "a\x00b", "a\x1fb", "a\x7fb", "x" * 256])
@pytest.mark.parametrize("kind", ["share", "schema", "table"])
def test_names_that_break_the_rules_are_refused(name, kind):
    """DM-011, DM-017, DM-020, DM-032, DM-034, DM-036."""
    with pytest.raises(InvalidNameError):
        check_name(name, kind)


def test_only_shares_may_have_periods():
    """DM-033, C-01."""
    assert name_problem("a.b", "share") is None
    assert name_problem("a.b", "schema") is not None
    assert name_problem("a.b", "table") is not None


def test_length_counts_code_points():
    """DM-036."""
    assert name_problem("😀" * 255, "share") is None
    assert name_problem("😀" * 256, "share") is not None


@pytest.mark.parametrize(("one", "other"), [("Sales", "sALES"), ("STRASSE", "straße"), ("ÀB", "àb")])
def test_names_are_equal_without_regard_to_case(one, other):
    """DM-031, DM-035."""
    assert name_key(one) == name_key(other)


def test_a_table_name_is_split_from_the_right():
    """C-01."""
    assert parse_table_name("my.share.v1.schema.table") == TableName("my.share.v1", "schema", "table")
    for text in ("a.b", "", "..", "a..c"):
        with pytest.raises(InvalidNameError):
            parse_table_name(text)
