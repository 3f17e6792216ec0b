"""Row ids where files are written anew: rows keep them, and the version that last changed them.

Implements the reader's and the rewriter's part of "Row Tracking". A row's id is what its file says in a
hidden column, else the file's `baseRowId` plus the row's number; the version likewise. Rows that are written
anew take both along in two columns of the frame, which the writer of data files stores in the hidden columns;
a row that is new has null in them, and a row that is updated has null for its version: the file's own apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.active_files import FileSelection
from distributary.delta.schema.data_types import LONG, StructField, StructType
from distributary.delta.table_properties import (
    ENABLE_ROW_TRACKING,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    TableProperties,
)
from distributary.spark.rule_violation import column_named

ROW_ID: Final = "__distributary_row_id"
ROW_VERSION: Final = "__distributary_row_version"
IDENTITY: Final = (ROW_ID, ROW_VERSION)
_BASE_ID: Final = "__distributary_base_row_id"
_BASE_VERSION: Final = "__distributary_base_row_version"


class RowIdentity(msgspec.Struct, frozen=True):
    """The hidden columns of a table's files that hold ids and versions of rows."""

    id_column: str
    version_column: str

    @classmethod
    def of(cls, configuration: Mapping[str, str], root: str) -> Self | None:
        """Those of a table that tracks its rows; none of any other."""
        properties = TableProperties.from_configuration(configuration)
        if not properties.get(ENABLE_ROW_TRACKING):
            return None
        names = (properties.get(ROW_ID_COLUMN), properties.get(ROW_COMMIT_VERSION_COLUMN))
        if None in names:
            raise UnsupportedFeatureError(
                f"{root} tracks its rows, but does not say in which columns its files keep their ids "
                f"({ROW_ID_COLUMN.key}, {ROW_COMMIT_VERSION_COLUMN.key}): rows would get new ids. Switch row "
                "tracking off first.",
                features=("rowTracking",),
            )
        return cls(str(names[0]), str(names[1]))

    def schema(self, schema: StructType) -> StructType:
        """The columns of a table's files with the hidden ones."""
        hidden = (StructField(self.id_column, LONG), StructField(self.version_column, LONG))
        return StructType((*schema.fields, *hidden))

    @property
    def names(self) -> tuple[str, ...]:
        """The hidden columns and the constants of files, from which `columns` are computed."""
        return (self.id_column, self.version_column, _BASE_ID, _BASE_VERSION)

    def columns(self, row: Column) -> list[Column]:
        """Id and version of each row of files that have the constants below; `row` is its number."""
        return [
            sf.coalesce(column_named(self.id_column), sf.col(_BASE_ID) + row).alias(ROW_ID),
            sf.coalesce(column_named(self.version_column), sf.col(_BASE_VERSION)).alias(ROW_VERSION),
        ]

    def stored(self) -> list[Column]:
        """Id and version of rows as files keep them."""
        return [sf.col(ROW_ID).alias(self.id_column), sf.col(ROW_VERSION).alias(self.version_column)]


def file_constants(files: FileSelection) -> dict[str, pa.Array]:
    """What is the same for all rows of a file: its first id, and the version that its rows are of."""
    return {
        _BASE_ID: files.column("baseRowId").combine_chunks().cast(pa.int64()),
        _BASE_VERSION: files.column("defaultRowCommitVersion").combine_chunks().cast(pa.int64()),
    }


def carried(frame: DataFrame) -> list[str]:
    """Which of the two columns a frame has: all or none."""
    return [name for name in IDENTITY if name in frame.columns]


def updated_identity(frame: DataFrame, changed: Column | None = None) -> list[Column]:
    """The two columns for rows that are changed (all, or those of which `changed` is true)."""
    if not carried(frame):
        return []
    nothing = sf.lit(None).cast("bigint")
    version = nothing if changed is None else sf.when(changed, nothing).otherwise(sf.col(ROW_VERSION))
    return [sf.col(ROW_ID), version.alias(ROW_VERSION)]
