"""What a caller may say about a write, checked together: some choices exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from pyspark.sql import Column

from distributary.delta.operations.append import Transaction
from distributary.errors import InvalidInputError

Mode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]
MODES: Final = ("append", "overwrite", "error", "errorifexists", "ignore")


class WriteOptions(msgspec.Struct, frozen=True):
    """The choices of one write; see :func:`distributary.spark.table_write.write_table`."""

    mode: str = "append"
    partition_by: tuple[str, ...] | None = None
    replace_where: str | Column | None = None
    dynamic: bool = False
    merge_schema: bool = False
    overwrite_schema: bool = False
    properties: Mapping[str, str] = {}
    txn: Transaction | None = None
    cluster_by: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] = ()
    optimize_write: bool | None = None
    target_file_size: int | None = None
    user_metadata: str | None = None
    data_change: bool = True

    @property
    def parameter(self) -> str:
        """The mode as Delta's history names it."""
        names = {"append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}
        return names.get(self.mode, "ErrorIfExists")

    def check(self) -> None:
        """Refuse choices that contradict each other."""
        if self.mode not in MODES:
            raise InvalidInputError(f"{self.mode!r} is no mode of a write: use one of {', '.join(MODES)}")
        replacing = {
            "replace_where": self.replace_where is not None,
            "partition_overwrite": self.dynamic,
            "overwrite_schema": self.overwrite_schema,
        }
        chosen = [name for name, given in replacing.items() if given]
        if chosen and self.mode != "overwrite":
            raise InvalidInputError(f'{chosen[0]} is for mode="overwrite", not {self.mode!r}')
        if len(chosen) > 1:
            raise InvalidInputError(f"{chosen[0]} and {chosen[1]} exclude each other: choose one of them")
        if self.overwrite_schema and self.merge_schema:
            raise InvalidInputError("overwrite_schema and merge_schema exclude each other: choose one")
        if self.partition_by and self.cluster_by:
            raise InvalidInputError("a table is partitioned or clustered, not both: choose one")
