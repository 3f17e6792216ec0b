"""Verifying tables: sound ones are clean, and each kind of damage is found as exactly that."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from distributary.cli.sample_table import make_sample_table
from distributary.delta.deletion_vectors import inline_descriptor
from distributary.delta.errors import TableNotFoundError
from distributary.delta.log.last_checkpoint import hint_checksum
from distributary.delta.operations.verification_report import PROBLEM_CODES, VerificationReport
from distributary.delta.operations.verify import verify_table
from distributary.storage.object_store import open_store


def verified(path: Path, *, deep: bool = False, roots: tuple[str, ...] = ()) -> VerificationReport:
    return verify_table(open_store(str(path), None, roots), deep=deep)


def codes(report: VerificationReport) -> list[str]:
    return [problem.code for problem in report.problems]


def commit_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def actions(table: Path, version: int) -> list[dict]:
    return [json.loads(line) for line in commit_file(table, version).read_text().splitlines()]


def write_actions(table: Path, version: int, lines: list[dict]) -> None:
    commit_file(table, version).write_text("".join(json.dumps(line) + "\n" for line in lines))


def change_adds(table: Path, version: int, change: Callable[[dict], None]) -> None:
    lines = actions(table, version)
    for line in lines:
        if "add" in line:
            change(line["add"])
    write_actions(table, version, lines)


@pytest.fixture
def orders(tmp_path) -> Path:
    """The sample table: five versions, no checkpoint, and no checksums, which would tell of damage too."""
    table = make_sample_table(tmp_path / "orders").path
    for checksum in (table / "_delta_log").glob("*.crc"):
        checksum.unlink()
    return table


def data_file(table: Path, version: int, country: str) -> Path:
    """The file of a country that a version added."""
    adds = [line["add"] for line in actions(table, version) if "add" in line]
    return next(table / add["path"] for add in adds if add["partitionValues"] == {"country": country})


@pytest.fixture
def copied(delta_tables, tmp_path) -> Callable[[str], Path]:
    """Copies tables of the corpus, so that they can be damaged."""
    return lambda name: Path(shutil.copytree(delta_tables.tables / name, tmp_path / name))


def test_sample_table_is_clean_and_everything_was_looked_at(orders):
    report = verified(orders, deep=True)
    assert report.problems == ()
    assert report.checked == {"commits": 5, "data_files": 7, "footers": 7}


@pytest.mark.parametrize(
    "name",
    [
        "dat__with_checkpoint",
        "kernelrs__v2-checkpoints-parquet-with-sidecars",
        "kernelrs__v2-checkpoints-json-with-sidecars",
        "kjava__kernel-pagination-multi-part-checkpoints",
        "kernelrs__cdf-table-with-dv",
        "spark__table-with-dv-large",
        "dat__column_mapping",
        "deltars__table_with_column_mapping",
        "golden__data-skipping-basic-stats-all-types-checkpoint",
        "golden__type-widening",
        "trino__databricks73.pruning.float_nan",
        "trino__databricks73.person",
        "trino__deltalake.multipart_checkpoint",
        "trino__databricks133.parsed_stats_struct",
        "golden__log-replay-special-characters-a",
    ],
)
def test_sound_third_party_table_has_no_error(delta_tables, name):
    assert verified(delta_tables.tables / name, deep=True).problems == ()


def test_folder_without_a_log_is_not_a_table(tmp_path):
    with pytest.raises(TableNotFoundError):
        verified(tmp_path)


def test_missing_commits_are_one_gap(orders):
    """LR-028: a missing version is an error, never a shorter table."""
    commit_file(orders, 1).unlink()
    commit_file(orders, 2).unlink()
    (problem,) = verified(orders).problems
    assert problem.code == "LOG_GAP"
    assert problem.where.endswith("00000000000000000001.json")
    assert "versions 1 to 2" in problem.message


def test_commits_cleaned_up_before_a_checkpoint_are_no_gap(copied):
    table = copied("dat__with_checkpoint")
    for version in (0, 1, 2):
        commit_file(table, version).unlink()
    assert verified(table).problems == ()


def test_commits_missing_after_the_checkpoint_are_a_gap(copied):
    table = copied("dat__with_checkpoint")
    for version in (0, 1, 3):
        commit_file(table, version).unlink()
    shutil.copy(commit_file(table, 2), commit_file(table, 4))
    assert set(codes(verified(table))) >= {"LOG_GAP"}


def test_torn_commit_is_named_with_its_line(orders):
    text = commit_file(orders, 2).read_text()
    commit_file(orders, 2).write_text(text[: text.index("\n") + 40])
    (problem,) = verified(orders).problems
    assert problem.code == "CORRUPT_COMMIT"
    assert problem.where.endswith("00000000000000000002.json, line 2")


def test_empty_commit_is_corrupt(orders):
    commit_file(orders, 3).write_text("")
    assert codes(verified(orders)) == ["CORRUPT_COMMIT"]


def test_schema_that_does_not_parse_is_a_corrupt_commit(orders):
    lines = actions(orders, 0)
    next(line for line in lines if "metaData" in line)["metaData"]["schemaString"] = '{"type":"struct"'
    write_actions(orders, 0, lines)
    assert codes(verified(orders)) == ["CORRUPT_COMMIT"]


def test_table_that_needs_an_unknown_feature_is_unreadable(orders):
    lines = actions(orders, 0)
    protocol = next(line for line in lines if "protocol" in line)["protocol"]
    protocol |= {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": ["noSuchFeature"], "writerFeatures": ["noSuchFeature"]}
    write_actions(orders, 0, lines)
    (problem,) = verified(orders).problems
    assert problem.code == "TABLE_UNREADABLE"
    assert "noSuchFeature" in problem.message


def test_compaction_that_does_not_parse_is_a_warning(orders):
    (orders / "_delta_log" / f"{0:020d}.{2:020d}.compacted.json").write_text("{")
    report = verified(orders)
    assert codes(report) == ["CORRUPT_COMPACTION"]
    assert report.errors == ()


def test_truncated_checkpoint_is_corrupt(copied):
    table = copied("dat__with_checkpoint")
    (file,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    assert codes(verified(table)) == ["CORRUPT_CHECKPOINT"]


def test_damaged_page_of_a_checkpoint_is_corrupt(copied):
    """The footer is sound; only reading every column finds it."""
    table = copied("dat__with_checkpoint")
    (file,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows, file, write_page_checksum=True, compression="none", use_dictionary=False)
    group = pq.read_metadata(file).row_group(0)
    chunks = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    path = chunks["add.path"]
    data = bytearray(file.read_bytes())
    data[path.data_page_offset + path.total_compressed_size - 1] ^= 1
    file.write_bytes(bytes(data))
    assert codes(verified(table)) == ["CORRUPT_CHECKPOINT"]


def test_checkpoint_that_lost_files_disagrees_with_the_commits(copied):
    table = copied("dat__with_checkpoint")
    (file,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(file)
    is_add = rows.column("add").is_valid().to_pylist()
    pq.write_table(
        rows.filter(pa.array([not (add and at == is_add.index(True)) for at, add in enumerate(is_add)])), file
    )
    (problem,) = verified(table).problems
    assert problem.code == "CHECKPOINT_DISAGREES"
    assert "1 files too few" in problem.message


def test_lost_part_of_a_checkpoint_is_a_warning(copied):
    """CK-006: an incomplete set is never used."""
    table = copied("kjava__kernel-pagination-multi-part-checkpoints")
    next((table / "_delta_log").glob("*.0000000002.0000000003.parquet")).unlink()
    (table / "_delta_log" / "_last_checkpoint").unlink()
    report = verified(table)
    assert codes(report) == ["INCOMPLETE_CHECKPOINT"]
    assert report.errors == ()


def test_lost_sidecar_is_found(copied):
    table = copied("kernelrs__v2-checkpoints-parquet-with-sidecars")
    last = max((table / "_delta_log").glob("*.checkpoint.*.parquet"))
    sidecars = pq.read_table(last, columns=["sidecar"]).column("sidecar").drop_null().to_pylist()
    (table / "_delta_log" / "_sidecars" / sidecars[0]["path"]).unlink()
    (problem,) = verified(table).problems
    assert problem.code == "SIDECAR_MISSING"
    assert problem.where.endswith(last.name)


@pytest.mark.parametrize(
    "content", [b"", b'{"version":2', b"[]", b'{"version":1}', b'{"version":2,"size":1,"parts":7}']
)
def test_wrong_hint_is_found(copied, content):
    """LR-061: readers do without the hint; verify says that it is wrong."""
    table = copied("dat__with_checkpoint")
    (table / "_delta_log" / "_last_checkpoint").write_bytes(content)
    assert codes(verified(table)) == ["LAST_CHECKPOINT_INVALID"]


def test_hint_is_held_to_its_own_checksum(copied):
    table = copied("dat__with_checkpoint")
    content = {"version": 2, "size": 5}
    hint = table / "_delta_log" / "_last_checkpoint"
    hint.write_text(json.dumps(content | {"checksum": hint_checksum(content)}))
    assert verified(table).problems == ()
    hint.write_text(json.dumps(content | {"checksum": "0" * 32}))
    assert codes(verified(table)) == ["LAST_CHECKPOINT_INVALID"]


def test_checksum_that_counts_other_files_disagrees(copied):
    table = copied("kernelrs__v2-checkpoints-parquet-with-sidecars")
    file = table / "_delta_log" / f"{4:020d}.crc"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"numFiles": content["numFiles"] + 1}))
    (problem,) = verified(table).problems
    assert problem.code == "CHECKSUM_DISAGREES"
    assert problem.where.endswith(file.name)


def test_checksum_is_compared_where_the_log_starts_at_a_checkpoint(copied):
    table = copied("kernelrs__v2-checkpoints-parquet-with-sidecars")
    for version in range(3):
        commit_file(table, version).unlink()
    file = table / "_delta_log" / f"{5:020d}.crc"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"tableSizeBytes": 1}))
    assert codes(verified(table)) == ["CHECKSUM_DISAGREES"]


def test_checksum_that_does_not_parse_is_a_warning(copied):
    table = copied("kernelrs__v2-checkpoints-parquet-with-sidecars")
    (table / "_delta_log" / f"{4:020d}.crc").write_text("{")
    report = verified(table)
    assert codes(report) == ["CHECKSUM_UNREADABLE"]
    assert report.errors == ()


def test_missing_data_file_is_found(orders):
    file = data_file(orders, 2, "FR")
    file.unlink()
    (problem,) = verified(orders, deep=True).problems
    assert problem.code == "DATA_FILE_MISSING"
    assert problem.where == f"country=FR/{file.name}"


def test_many_missing_files_are_told_as_a_number(orders):
    def many(add: dict) -> None:
        add["path"] = add["path"].replace("part", "gone")

    change_adds(orders, 3, many)
    lines = actions(orders, 3)
    template = lines[-1]["add"]
    lines += [{"add": template | {"path": f"gone-{n}.parquet"}} for n in range(200)]
    write_actions(orders, 3, lines)
    report = verified(orders)
    assert report.found == {"DATA_FILE_MISSING": 203}
    assert len(report.problems) == 101
    assert "103 more" in report.problems[-1].message


def test_data_file_that_was_cut_is_found(orders):
    file = data_file(orders, 3, "NL")
    file.write_bytes(file.read_bytes()[:-1])
    assert codes(verified(orders)) == ["DATA_FILE_SIZE"]


def test_path_outside_the_table_is_not_looked_at_unless_its_root_is_allowed(orders, tmp_path):
    outside = tmp_path / "elsewhere" / "part.parquet"
    outside.parent.mkdir()
    shutil.copy(data_file(orders, 3, "FR"), outside)

    def move(add: dict) -> None:
        if "FR" in add["path"]:
            add["path"] = outside.as_uri()

    change_adds(orders, 3, move)
    assert codes(verified(orders)) == ["PATH_OUTSIDE_TABLE"]
    assert verified(orders, roots=(str(outside.parent),), deep=True).problems == ()
    outside.unlink()
    assert codes(verified(orders, roots=(str(outside.parent),))) == ["DATA_FILE_MISSING"]


def test_file_that_is_active_twice_is_found(orders):
    path = data_file(orders, 3, "FR").relative_to(orders)
    add = next(line["add"] for line in actions(orders, 3) if line.get("add", {}).get("path") == str(path))
    vector = inline_descriptor(BitMap64([0]))
    again = {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline_dv,
        "sizeInBytes": vector.size_in_bytes,
        "cardinality": 1,
    }
    write_actions(orders, 4, [*actions(orders, 4), {"add": add | {"deletionVector": again}}])
    assert codes(verified(orders)) == ["DUPLICATE_FILE"]


def test_partition_value_of_a_wrong_type_is_found(orders):
    lines = actions(orders, 0)
    metadata = next(line for line in lines if "metaData" in line)["metaData"]
    metadata["schemaString"] = re.sub(
        r'("name":"country","type":)"string"', r'\1"long"', metadata["schemaString"]
    )
    write_actions(orders, 0, lines)
    assert codes(verified(orders)) == ["INVALID_PARTITION_VALUE"]


def test_missing_deletion_vector_file_is_found(copied):
    table = copied("spark__table-with-dv-small")
    next(table.glob("deletion_vector_*.bin")).unlink()
    assert codes(verified(table)) == ["DELETION_VECTOR_MISSING"]
    assert codes(verified(table, deep=True)) == ["DELETION_VECTOR_MISSING"]


def test_deletion_vector_file_that_was_cut_is_found(copied):
    table = copied("spark__table-with-dv-small")
    file = next(table.glob("deletion_vector_*.bin"))
    file.write_bytes(file.read_bytes()[:-4])
    assert codes(verified(table)) == ["CORRUPT_DELETION_VECTOR"]


def test_flipped_bit_in_a_deletion_vector_is_found_deep(copied):
    table = copied("spark__table-with-dv-small")
    file = next(table.glob("deletion_vector_*.bin"))
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    file.write_bytes(bytes(data))
    assert codes(verified(table)) == []
    assert codes(verified(table, deep=True)) == ["CORRUPT_DELETION_VECTOR"]


def test_wrong_cardinality_of_a_deletion_vector_is_found_deep(copied):
    table = copied("spark__table-with-dv-small")

    def more(add: dict) -> None:
        if add.get("deletionVector"):
            add["deletionVector"]["cardinality"] += 1

    change_adds(table, 1, more)
    assert codes(verified(table, deep=True)) == ["CORRUPT_DELETION_VECTOR"]


def test_deletion_vector_beyond_the_file_is_found_deep(orders):
    vector = inline_descriptor(BitMap64([1_000_000]))

    def beyond(add: dict) -> None:
        if "FR" in add["path"]:
            add["deletionVector"] = {
                "storageType": "i",
                "pathOrInlineDv": vector.path_or_inline_dv,
                "sizeInBytes": vector.size_in_bytes,
                "cardinality": 1,
            }

    change_adds(orders, 3, beyond)
    assert codes(verified(orders, deep=True)) == ["CORRUPT_DELETION_VECTOR"]


def test_data_file_that_is_no_parquet_is_found_deep(orders):
    file = data_file(orders, 3, "NL")
    file.write_bytes(b"x" * file.stat().st_size)
    assert codes(verified(orders)) == []
    assert codes(verified(orders, deep=True)) == ["DATA_FILE_UNREADABLE"]


def statistics_changed(table: Path, change: Callable[[dict], None]) -> VerificationReport:
    """Verify deeply after one file's statistics have been made to lie."""

    def lie(add: dict) -> None:
        if "FR" in add["path"]:
            statistics = json.loads(add["stats"])
            change(statistics)
            add["stats"] = json.dumps(statistics)

    change_adds(table, 3, lie)
    assert verified(table).problems == ()
    return verified(table, deep=True)


def test_wrong_row_count_is_found_deep(orders):
    report = statistics_changed(orders, lambda statistics: statistics.update(numRecords=5))
    assert codes(report) == ["WRONG_ROW_COUNT"]


@pytest.mark.parametrize(
    ("bound", "column", "value", "says"),
    [
        ("minValues", "order_id", 26, "smallest"),
        ("maxValues", "order_id", 26, "greatest"),
        ("minValues", "customer", "Blaisf", "smallest"),
        ("nullCount", "customer", 3, "nulls"),
    ],
)
def test_statistics_that_lie_are_found_deep(orders, bound, column, value, says):
    report = statistics_changed(orders, lambda statistics: statistics[bound].update({column: value}))
    (problem,) = report.problems
    assert problem.code == "WRONG_STATISTICS"
    assert f"column {column}" in problem.message
    assert says in problem.message


def test_bounds_that_are_only_wider_are_no_lie(orders):
    def widen(statistics: dict) -> None:
        statistics["minValues"] |= {"order_id": -5, "customer": ""}
        statistics["maxValues"] |= {"order_id": 10_000, "customer": "zzz"}

    assert statistics_changed(orders, widen).problems == ()


def test_every_code_is_explained_in_the_docs(project_dir):
    page = (project_dir / "docs" / "verifying.md").read_text()
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \| (\w+) \|", page, re.MULTILINE))
    assert documented == {code: severity.value for code, severity in PROBLEM_CODES.items()}
