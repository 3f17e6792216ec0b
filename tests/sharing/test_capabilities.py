"""The capabilities header: read whatever it holds, negotiated without ever misleading a client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.sharing.capabilities import (
    Capabilities,
    announces,
    negotiate,
    parse_capabilities,
    parse_file_id_hash,
    response_capabilities,
)
from distributary.sharing.error_response import InvalidParameterError, UnsupportedOperationError


def test_the_header_of_current_clients_is_understood():
    """CAP-001, CAP-008, CAP-013, C-08."""
    found = parse_capabilities(
        "responseformat=delta,parquet;readerfeatures=deletionVectors,columnmapping ; "
        "includeEndStreamAction=TRUE;asyncquery=true;accessmodes=dir,url,other;nonsense;x="
    )
    assert found == Capabilities(
        ("delta", "parquet"), frozenset(("deletionvectors", "columnmapping")), ("dir", "url"), True, True
    )


@pytest.mark.parametrize("header", [None, "", ";;", "=", "responseformat=", "responseformat=avro"])
def test_without_a_usable_header_the_first_edition_holds(header):
    """CAP-002, CAP-006, C-05."""
    assert parse_capabilities(header) == Capabilities()


@given(st.text())
def test_no_header_is_an_error(header):
    """CAP-013."""
    parse_capabilities(header)


@given(st.builds(
    Capabilities,
    st.permutations(["delta", "parquet"]).map(tuple),
    st.frozensets(st.sampled_from(["deletionvectors", "columnmapping", "timestampntz"])),
    st.just(()),
    st.booleans(),
    st.booleans(),
))  # fmt: skip
def test_what_a_client_writes_is_what_a_server_reads(capabilities):
    """CAP-001: the codec of both sides."""
    assert parse_capabilities(capabilities.to_header()) == capabilities


@given(
    st.sets(st.sampled_from(["parquet", "delta"]), min_size=1),
    st.frozensets(st.sampled_from(["deletionvectors", "columnmapping"])),
    st.sets(st.sampled_from(["deletionVectors", "columnMapping"])),
)
def test_negotiation_never_gives_a_table_that_the_client_would_misread(formats, features, needed):
    """CAP-003, CAP-004, CAP-005, CAP-009, C-07."""
    capabilities = Capabilities(tuple(sorted(formats)), features)
    try:
        chosen = negotiate(capabilities, needed)
    except UnsupportedOperationError as error:
        assert needed
        assert all(name in str(error) for name in needed)  # noqa: PT017
        return
    assert chosen in formats
    assert chosen == "delta" or not needed
    assert all(announces(capabilities, name) for name in needed)
    if not needed and "parquet" in formats:
        assert chosen == "parquet"


def test_a_preview_is_announced_by_either_name():
    assert announces(Capabilities(reader_features=frozenset(["typewidening"])), "typeWidening-preview")
    assert announces(
        Capabilities(reader_features=frozenset(["typewidening-preview"])), "typeWidening-preview"
    )
    assert not announces(Capabilities(reader_features=frozenset(["typewidening-preview"])), "typeWidening")


def test_the_answer_is_in_lower_case_and_says_delta_only_where_it_is():
    """CAP-011, CAP-014, A16 rule 2."""
    assert response_capabilities("parquet") == "responseformat=parquet"
    both = response_capabilities("delta", end_stream_action=True, async_query=True)
    assert both == "responseformat=delta;includeendstreamaction=true;asyncquery=true"


def test_file_ids_are_chosen_without_regard_to_case():
    """beyond A10."""
    assert parse_file_id_hash(None) is None
    assert parse_file_id_hash(" Delta ") == "delta"
    with pytest.raises(InvalidParameterError):
        parse_file_id_hash("sha1")
