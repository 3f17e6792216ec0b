"""Recipients: properties, networks, and being disabled."""

from __future__ import annotations

import pytest

from distributary.catalog.errors import InvalidEntryError, NameTakenError
from distributary.catalog.recipients import Recipient, checked_networks, checked_recipient_properties


def test_recipient_comes_back_as_it_was_made(admin):
    """DM-007."""
    made = admin.create_recipient(
        "acme@example.org",
        comment="x",
        properties={"country": "DE"},
        allowed_addresses=["192.0.2.7", "2001:db8::/32"],
    )
    assert made.allowed_addresses == ("192.0.2.7/32", "2001:db8::/32")
    saved = admin.update_recipient("ACME@example.org", disabled=True, properties={})
    assert (saved.id, saved.disabled, saved.properties) == (made.id, True, {})
    with pytest.raises(NameTakenError):
        admin.create_recipient("Acme@Example.Org")


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("192.0.2.1", True),
        ("192.0.3.1", False),
        ("::ffff:192.0.2.1", True),
        ("2001:db8::5", True),
        ("2001:db9::5", False),
        ("fe80::1%eth0", False),
        ("2001:db8::1%eth0", True),
        ("192.0.2.1, 10.0.0.1", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_networks_decide_from_where_a_recipient_may_call(address, allowed):
    """RELIABILITY D9: IPv4, IPv6, and IPv4 written as IPv6."""
    listed = Recipient(id="1", name="a", allowed_addresses=("192.0.2.0/24", "2001:db8::/32"))
    assert listed.may_call_from(address) is allowed
    assert Recipient(id="1", name="a").may_call_from(address) is True


@pytest.mark.parametrize("network", ["192.0.2.1/24", "300.0.0.1", "x", ""])
def test_network_that_is_none_is_refused(network):
    with pytest.raises(InvalidEntryError, match=r"192\.0\.2\.0/24"):
        checked_networks([network])


@pytest.mark.parametrize("name", ["a b", "1a", "a.b", "a-b", "", "a'b"])
def test_property_that_no_filter_could_name_is_refused(name):
    with pytest.raises(InvalidEntryError):
        checked_recipient_properties({name: "x"})
