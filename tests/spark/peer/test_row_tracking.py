"""Rows keep their ids through changes and rewrites: delta-spark reads them in our files, and we in its."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from side_by_side import Pair, Step

from distributary.delta.table import DeltaTable
from distributary.spark.row_identity import ROW_ID, ROW_VERSION
from distributary.spark.table_scan import scan_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CREATE = (
    "CREATE TABLE {{t}} (id BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
    "'delta.enableDeletionVectors' = '{vectors}', 'delta.columnMapping.mode' = '{mapping}')"
)
FILLED = 2
STEPS = (
    "INSERT INTO {t} SELECT id, 'a' FROM range(0, 6)",
    "INSERT INTO {t} SELECT id, 'b' FROM range(6, 12)",
    "DELETE FROM {t} WHERE id = 1",
    "UPDATE {t} SET v = 'u' WHERE id IN (2, 8)",
    "MERGE INTO {t} t USING (SELECT id, 'm' AS v FROM range(5, 14)) s ON t.id = s.id "
    "WHEN MATCHED AND t.id < 7 THEN UPDATE SET v = s.v WHEN MATCHED AND t.id = 9 THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT *",
    "OPTIMIZE {t}",
    "UPDATE {t} SET v = 'w' WHERE id = 3",
    "REORG TABLE {t} APPLY (PURGE)",
    Step("SELECT id, 'r' AS v FROM range(13, 15)", {"mode": "overwrite", "replace_where": "id >= 13"}),
    "OPTIMIZE {t} ZORDER BY (id)",
)

Identities = dict[int, tuple[int, int]]


def identities(pair: Pair, whose: str, version: int | None = None) -> Identities:
    """What delta-spark says: id and version of each row, by its key."""
    when = "" if version is None else f" VERSION AS OF {version}"
    columns = "id, _metadata.row_id AS row, _metadata.row_commit_version AS version"
    answer = pair.peer_says(f"SELECT {columns} FROM {{t}}{when}", whose)
    return {row["id"]: (row["row"], row["version"]) for row in answer["rows"]}


def test_rows_keep_their_ids_as_delta_spark_keeps_them(
    pairs: Callable[[str], Pair], spark: SparkSession
) -> None:
    for vectors, mapping in (("false", "none"), ("true", "name")):
        pair = pairs(vectors)
        pair.run(CREATE.format(vectors=vectors, mapping=mapping), *STEPS)
        first, last = identities(pair, "ours", FILLED), identities(pair, "ours")
        theirs = identities(pair, "theirs")
        assert {key: last[key][0] for key in first if key in last} == {
            key: row for key, (row, _) in first.items() if key in last
        }
        assert len({row for row, _ in last.values()}) == len(last)
        # Where there is nothing to compact, one side commits and the other does not: compare by operation.
        ours_did, theirs_did = pair.operations()
        assert {key: ours_did[version] for key, (_, version) in last.items()} == {
            key: theirs_did[version] for key, (_, version) in theirs.items()
        }
        table = DeltaTable(pair.theirs)
        found = scan_snapshot(spark, table.store, table.snapshot().state, identity=True).collect()
        assert {row["id"]: (row[ROW_ID], row[ROW_VERSION]) for row in found} == theirs
        pair.exchange("UPDATE {t} SET v = 'z' WHERE id = 4")
