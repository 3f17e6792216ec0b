"""GCS is read from fake-gcs-server; it does not take obstore's writes, so objects come by its JSON API."""

from __future__ import annotations

import io
import urllib.request
import uuid
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.errors import ObjectNotFoundError
from distributary.storage import open_store


def _upload(endpoint: str, key: str, data: bytes) -> None:
    url = f"{endpoint}/upload/storage/v1/b/lake/o?uploadType=media&name={quote(key, safe='')}"
    headers = {"Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=10).close()


def test_objects_of_gcs_are_listed_and_read(gcs_place):
    """LR-029: keys are exact here too."""
    prefix = uuid.uuid4().hex
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": range(1000)}), buffer)
    keys = ["_delta_log/00.json", "_delta_log/01.json", "part=a%20b/x y.parquet", "ts=a:b/c+d#e.parquet"]
    for key in keys:
        _upload(gcs_place.options["base_url"], f"{prefix}/{key}", buffer.getvalue())
    store = open_store(f"gs://lake/{prefix}", gcs_place.options)
    assert [meta.path for meta in store.list_all()] == keys
    assert [meta.path for meta in store.list_from("_delta_log", "01")] == ["_delta_log/01.json"]
    for key in keys:
        assert store.get(key) == buffer.getvalue()
        assert pq.read_table(store.open_file(key)).num_rows == 1000
    assert store.list_directories() == ["_delta_log", "part=a%20b", "ts=a:b"]
    with pytest.raises(ObjectNotFoundError):
        store.get("nothing")
