"""The fixtures themselves: the corpus is complete, the S3 servers are real."""

from __future__ import annotations

import json
from pathlib import Path


def test_corpus_unpacked_has_an_expectation_for_every_table(delta_tables, shared_dir: Path):
    manifest = json.loads((shared_dir / "tables" / "MANIFEST.json").read_text())
    tables = {path.name for path in delta_tables.tables.iterdir()}
    expectations = {path.stem for path in delta_tables.expected.glob("*.json")}
    assert tables
    assert tables <= expectations
    assert len(manifest) > 0


def test_s3_server_given_an_object_gives_it_back(s3_server):
    s3_server.put("conftest/a b.txt", b"hello")
    answer = s3_server.client().get_object(Bucket=s3_server.bucket, Key="conftest/a b.txt")
    assert answer["Body"].read() == b"hello"


def test_s3_server_given_a_folder_holds_its_files(s3_server, tmp_path: Path):
    (tmp_path / "year=2024").mkdir()
    (tmp_path / "year=2024" / "part.txt").write_bytes(b"1")
    s3_server.upload(tmp_path, "conftest/folder")
    listed = s3_server.client().list_objects_v2(Bucket=s3_server.bucket, Prefix="conftest/folder/")
    assert [item["Key"] for item in listed["Contents"]] == ["conftest/folder/year=2024/part.txt"]
