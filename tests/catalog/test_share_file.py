"""Share files: the reference server's file as it is, ours with more in it; applied whole, and idempotent."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.catalog import bearer_tokens, grants, shares
from distributary.catalog.errors import NotInCatalogError, ShareFileError
from distributary.catalog.share_file import exported, parse_share_file, share_file_text
from distributary.catalog.share_plan import apply_share_file, plan_share_file
from distributary.catalog.yaml_document import read_yaml

REFERENCE = """
# The format version of this config file
version: 1
shares:
- name: "share1"
  schemas:
  - name: "schema1"
    tables:
    - name: "table1"
      location: "s3a://bucket/table1"
      id: "00000000-0000-0000-0000-000000000000"
    - name: "table2"
      location: "wasbs://x@y.blob.core.windows.net/t"
      historyShared: true
      startVersion: 3
- name: share2
  schemas: []
authorization:
  bearerToken: faaie590d541265bcab1f2de9813274bf233
host: "localhost"
port: 8080
endpoint: "/delta-sharing"
preSignedUrlTimeoutSeconds: 3600
deltaTableCacheSize: 10
stalenessAcceptable: false
evaluatePredicateHints: false
"""

OURS = """
version: 1
shares:
- name: sales
  displayName: Sales
  properties: {owner: finance}
  schemas:
  - name: eu
    tables:
    - name: orders
      location: lake/orders
      partitionFilter: country = recipient.country
      historyShared: true
recipients:
- name: acme
  properties: {country: DE}
  allowedAddresses: [192.0.2.0/24]
  shares: [sales]
"""


def read(text: str, folder: str = "/srv"):
    return parse_share_file(text, "test.yaml", Path(folder))


def test_file_of_the_reference_server_is_applied_unchanged(admin):
    file = read(REFERENCE)
    apply_share_file(admin, file, check=False)
    recipient = bearer_tokens.authenticate(admin.database, "faaie590d541265bcab1f2de9813274bf233")
    assert recipient is not None
    visible = shares.visible_shares(admin.database, recipient).items
    assert [share.name for share in visible] == ["share1", "share2"]
    one = grants.shared_table(admin.database, recipient, "share1", "schema1", "table1")
    assert one is not None
    assert (one.shown_id, one.policy.location) == (
        "00000000-0000-0000-0000-000000000000",
        "s3://bucket/table1",
    )
    assert (one.policy.history_shared, one.policy.start_version) == (False, 0)
    two = grants.shared_table(admin.database, recipient, "share1", "schema1", "table2")
    assert two is not None
    assert (two.policy.history_shared, two.policy.start_version) == (True, 3)
    assert apply_share_file(admin, file, check=False) == []
    assert "faaie590" not in repr(file)


def test_token_that_a_reference_file_replaces_is_over(admin):
    apply_share_file(admin, read(REFERENCE), check=False)
    for number in range(3):
        changed = read(REFERENCE.replace("faaie", f"new-{number}-"))
        actions = [change.action for change in apply_share_file(admin, changed, check=False)]
        assert actions == ["token.revoke", "token.take_over"]
    assert bearer_tokens.authenticate(admin.database, "faaie590d541265bcab1f2de9813274bf233") is None
    assert bearer_tokens.authenticate(admin.database, "new-2-590d541265bcab1f2de9813274bf233") is not None


def test_plan_shows_what_applying_then_does(admin):
    file = read(OURS)
    with admin.read() as connection:
        planned = [str(change) for change in plan_share_file(connection, file)]
    assert [line.split(" (")[0] for line in planned] == [
        "+ share.create sales",
        "+ table.add sales.eu.orders",
        "+ recipient.create acme",
        "+ share.grant sales",
    ]
    with admin.read() as connection:
        assert shares.list_shares(connection) == []
    assert [str(change) for change in apply_share_file(admin, file, check=False)] == planned
    assert apply_share_file(admin, file, check=False, prune=True) == []
    assert admin.verify_audit().events == 5


def test_export_applied_to_the_same_catalog_changes_nothing(admin):
    apply_share_file(admin, read(OURS), check=False)
    with admin.read() as connection:
        text = share_file_text(exported(connection))
    assert apply_share_file(admin, read(text, "/elsewhere"), check=False, prune=True) == []
    assert "location: /srv/lake/orders" in text


def test_changed_entry_is_updated_and_keeps_its_id(admin):
    apply_share_file(admin, read(OURS), check=False)
    with admin.read() as connection:
        before = shares.list_tables(connection, shares.get_share(connection, "sales"))[0]
    text = OURS.replace("historyShared: true", "startVersion: 4").replace("DE", "FR").replace("Sales", "All")
    changes = apply_share_file(admin, read(text), check=False)
    assert [change.action for change in changes] == ["share.update", "table.update", "recipient.update"]
    with admin.read() as connection:
        after = shares.list_tables(connection, shares.get_share(connection, "sales"))[0]
    assert (after.id, after.policy.history_shared, after.policy.start_version) == (before.id, False, 4)


def test_what_a_file_does_not_name_goes_only_when_pruning(admin):
    apply_share_file(admin, read(OURS), check=False)
    empty = read("version: 1\n")
    assert apply_share_file(admin, empty) == []
    gone = apply_share_file(admin, empty, prune=True)
    assert [change.action for change in gone] == ["share.drop", "recipient.drop"]


def test_file_with_one_wrong_entry_changes_nothing(admin):
    text = OURS.replace("shares: [sales]", "shares: [sales, nowhere]")
    with pytest.raises(NotInCatalogError, match="nowhere"):
        apply_share_file(admin, read(text), check=False)
    with admin.read() as connection:
        assert shares.list_shares(connection) == []


def test_table_that_cannot_be_opened_stops_an_apply(admin, tmp_path):
    with pytest.raises(Exception, match="no Delta table"):
        apply_share_file(admin, read(OURS, str(tmp_path)))
    with admin.read() as connection:
        assert shares.list_shares(connection) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version: 2\n", "version"),
        ("shares: []\n", "version"),
        ("[]", "mapping"),
        ("version: 1\nshares: [{name: a}, {name: A}]\n", "same name"),
        ("version: 1\nshares: [{name: 'a b'}]\n", "space"),
        ("version: 1\nshares: [{name: a, schemas: [{name: x, tables: [{name: t}]}]}]\n", "location"),
        (
            "version: 1\nshares: [{name: a, schemas: [{name: x, tables: [{name: t, locaton: /x}]}]}]\n",
            "locaton",
        ),
        ("version: 1\nversion: 1\n", "twice"),
        ("a: &a [x]\nb: *a\n", "alias"),
        ("a: !!python/object/apply:os.system [id]\n", "YAML"),
        ("a: " + "[" * 40 + "]" * 40, "deep"),
        ("a: [", "line 1"),
    ],
)
def test_file_that_cannot_be_used_says_why(text, complaint):
    """DM-035, RELIABILITY G7."""
    with pytest.raises(ShareFileError, match=complaint):
        read(text)


def test_yaml_that_is_too_large_is_refused():
    with pytest.raises(ShareFileError, match="bytes"):
        read_yaml("a: " + "x" * (1 << 20), "x")
