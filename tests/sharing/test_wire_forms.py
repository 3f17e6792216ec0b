"""The objects and lines have the forms that the protocol's own samples show."""

from __future__ import annotations

import json

import msgspec
import pytest

from distributary.sharing.delta_response import DeltaLine
from distributary.sharing.error_response import HTTP_STATUS, ErrorResponse, SharingError
from distributary.sharing.ndjson import EndStreamAction, EndStreamLine, encode_line
from distributary.sharing.objects import (
    GetShareResponse,
    Page,
    Schema,
    Share,
    Table,
    TemporaryCredentialsResponse,
)
from distributary.sharing.parquet_response import ParquetLine

FORMS = {
    "List Shares": Page[Share],
    "Get Share": GetShareResponse,
    "List Schemas in a Share": Page[Schema],
    "List Tables in a Schema": Page[Table],
    "List all Tables in a Share": Page[Table],
}


@pytest.fixture(scope="session")
def samples(shared_dir):
    """The samples of the protocol that are JSON."""
    found = json.loads((shared_dir / "spec" / "protocol_samples.json").read_text())["samples"]
    return [sample for sample in found if sample["kind"] == "json"]


def _again(value, kind):
    """What is left of JSON after reading it as a type and writing it again."""
    return json.loads(msgspec.json.encode(msgspec.json.decode(json.dumps(value), type=kind)))


def test_lists_and_shares_keep_every_field_of_the_samples(samples):
    """DM-011 to DM-027, REST-102, REST-111, REST-121, REST-131, REST-141, C-10, C-11."""
    seen = 0
    for sample in samples:
        value = json.loads(sample["text"])
        kind = FORMS.get(sample["section"])
        if kind is not None and "errorCode" not in value:
            assert _again(value, kind) == value
            seen += 1
    assert seen >= 10


def test_error_bodies_have_the_form_of_the_samples(samples):
    """REST-005, REST-017."""
    errors = [value for sample in samples if "errorCode" in (value := json.loads(sample["text"]))]
    assert len(errors) > 10
    for value in errors:
        assert _again(value, ErrorResponse) == value


def test_lines_keep_every_field_of_the_samples(samples):
    """RF-010, RF-011, RF-060: protocol, metaData, file, add, cdf and remove of both formats."""
    seen = set()
    for sample in samples:
        value = json.loads(sample["text"])
        if not isinstance(value, dict) or len(value) != 1:
            continue
        (name,) = value
        if name not in ("protocol", "metaData", "file", "add", "cdf", "remove", "endStreamAction"):
            continue
        is_delta = any(
            key in json.dumps(value) for key in ("deltaProtocol", "deltaMetadata", "deltaSingleAction")
        )
        if is_delta and name == "file":
            continue  # the sample leaves out required fields of an add, and has a size that is not defined
        again = _again(value, DeltaLine if is_delta else ParquetLine)
        assert _without_nulls(again) == _without_nulls(value)
        seen.add((name, is_delta))
    assert {("protocol", True), ("metaData", True), ("file", False), ("protocol", False)} <= seen


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner not in (None, {})}
    return value


def test_an_end_of_stream_action_is_wrapped_and_has_only_what_is_set():
    """RF-053, RF-055, C-03."""
    assert encode_line(EndStreamLine(EndStreamAction(next_page_token="t"))) == (
        b'{"endStreamAction":{"nextPageToken":"t"}}\n'
    )
    failed = EndStreamAction(error_message="m", http_status_error_code=500)
    assert json.loads(encode_line(EndStreamLine(failed))) == {
        "endStreamAction": {"errorMessage": "m", "httpStatusErrorCode": 500}
    }


def test_every_error_has_a_code_of_the_protocol_and_a_status():
    """REST-007 to REST-011, REST-017."""
    found = [SharingError, *SharingError.__subclasses__()]
    for kind in found:
        error = kind("what happened")
        assert error.status == HTTP_STATUS[error.error_code]
        assert json.loads(error.response().encode()) == {
            "errorCode": error.error_code,
            "message": "what happened",
        }
    assert {400, 401, 403, 404, 409, 429, 500, 503} == set(HTTP_STATUS.values())


def test_credentials_of_the_protocol_are_kept_and_not_shown():
    """beyond A7."""
    value = {
        "credentials": {
            "location": "s3://b/t",
            "awsTempCredentials": {"accessKeyId": "a", "secretAccessKey": "hush", "sessionToken": "t"},
            "expirationTime": 1718298900000,
        }
    }
    assert _again(value, TemporaryCredentialsResponse) == value
    assert "hush" not in repr(msgspec.convert(value, TemporaryCredentialsResponse))
