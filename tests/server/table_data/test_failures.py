"""Failures: an error before the first byte; after it an error in the stream or a cut, no short answer."""

from __future__ import annotations

import json

import pytest

from distributary import DeltaTable
from distributary.errors import StorageUnreachableError
from distributary.server.query_answer import ClientWishes
from distributary.server.snapshot_cache import SnapshotCache
from distributary.server.table_query import answer_query
from distributary.sharing.capabilities import parse_capabilities
from distributary.sharing.error_response import ServiceUnavailableError
from distributary.sharing.query_request import parse_query_request


class FailingUrls:
    """Signs some batches, then fails."""

    def __init__(self, urls, good: int) -> None:
        self._urls = urls
        self._good = good

    def sign(self, paths):
        self._good -= 1
        if self._good < 0:
            raise StorageUnreachableError("the credentials of s3://secret-bucket cannot be had")
        return self._urls.sign(paths)


@pytest.fixture
def long(provider, logs):
    """A table of more files than one chunk of an answer has."""
    adds = [logs.add(f"{at:05d}.parquet", stats={"numRecords": 1}) for at in range(3_000)]
    provider.write_log("long", [logs.protocol, logs.metadata([("id", "long")]), *adds])
    return provider.policy("long", {})


def asked(provider, policy, capabilities, good):
    wishes = ClientWishes(parse_capabilities(capabilities))
    signer = FailingUrls(provider.urls, good)
    return answer_query(provider.cache, policy, parse_query_request(b""), wishes, signer, provider.tokens)


def test_a_failure_before_the_first_byte_is_an_error(provider, long):
    """REST-011: nothing has been sent, so the status tells."""
    with pytest.raises(ServiceUnavailableError) as refused:
        asked(provider, long, None, 0)
    assert "secret-bucket" not in str(refused.value)


def test_a_failure_in_the_stream_ends_it_with_an_error_message(provider, long):
    """RF-053, RF-054: the client fails its query by the last line."""
    answer = asked(provider, long, "responseformat=parquet;includeendstreamaction=true", 1)
    lines = b"".join(answer.chunks).splitlines()
    end = json.loads(lines[-1])["endStreamAction"]
    assert end["httpStatusErrorCode"] == 503
    assert "secret-bucket" not in end["errorMessage"]
    assert len(lines) < 3_000


def test_a_failure_without_an_end_of_stream_action_cuts_the_answer(provider, long):
    """CAP-015: no line that the client does not know; whoever sends must not end the answer cleanly."""
    answer = asked(provider, long, None, 1)
    with pytest.raises(StorageUnreachableError):
        b"".join(answer.chunks)


def test_a_checkpoint_that_proves_unreadable_is_left_aside(provider, logs):
    """The answer is made of the rest of the log, as long as that is there."""
    adds = [
        logs.add(f"{at:05d}.parquet", stats={"numRecords": at, "minValues": {"id": at}}) for at in range(500)
    ]
    path = provider.write_log("t", [logs.protocol, logs.metadata([("id", "long")]), *adds])
    DeltaTable(path).checkpoint()
    whole = provider.query("t")
    provider.cache = SnapshotCache()
    checkpoint = next((path / "_delta_log").glob("*.checkpoint.parquet"))
    data = checkpoint.read_bytes()
    at = data.index(b"numRecords")
    checkpoint.write_bytes(data[: at - 40] + bytes(60) + data[at + 20 :])
    assert sorted(line["url"] for line in provider.query("t").files) == sorted(
        line["url"] for line in whole.files
    )


def test_an_answer_that_is_not_read_to_its_end_leaves_nothing_behind(provider, long):
    """RELIABILITY C9: the chunks are a generator; closing it ends the work."""
    answer = asked(provider, long, None, 100)
    chunks = iter(answer.chunks)
    first = next(chunks)
    signed = len(provider.urls.signed)
    del chunks, answer
    assert first.startswith(b'{"protocol"')
    assert len(provider.urls.signed) == signed < 3_000
