"""Writing the files of a change: data files, change files, and the care for them until they are committed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from distributary.delta.commit.data_file_writer import num_records
from distributary.delta.commit.staged_commit import Operation, StagedAction
from distributary.delta.operations.append import WritePlan
from distributary.spark.changed_table import ChangedTable
from distributary.spark.data_files import CHANGE_TYPE, write_data_files
from distributary.spark.row_changes import ChangeMetrics, FileChanges, ReadSet, commit_change, discard

# Fewer rows than this are gathered before they are written, so that many tasks do not make many small files.
_FEW_ROWS: Final = 500_000


class ChangeClock:
    """How long the parts of a change took, in milliseconds."""

    def __init__(self) -> None:
        self._start = self._scanned = time.monotonic()

    def scanned(self) -> None:
        """The rows have been found."""
        self._scanned = time.monotonic()

    def metrics(self) -> dict[str, int]:
        """The times by the names of Delta's history."""
        now = time.monotonic()
        return {
            "executionTimeMs": _ms(now - self._start),
            "scanTimeMs": _ms(self._scanned - self._start),
            "rewriteTimeMs": _ms(now - self._scanned),
        }


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


class ChangeWriter:
    """The file actions of one change as they come to be; an error removes the files that were written."""

    def __init__(self, table: ChangedTable, plan: WritePlan | None = None) -> None:
        self._table = table
        self._plan = plan or table.plan
        self._committing = False
        self.changes = FileChanges()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Once the commit has begun it alone knows whether the files are part of the table.
        if error is not None and not self._committing:
            discard(self._table, self.changes)

    def keep(self, changes: FileChanges) -> None:
        """Take more file actions in."""
        self.changes = self.changes.joined(changes)

    def write(self, rows: DataFrame, count: int) -> None:
        """Write about so many rows, already checked, as new data files."""
        adds = write_data_files(
            self._table.spark, self._table.store, self._plan, rows, balanced=self._balanced(count)
        )
        filled = tuple(add for add in adds if num_records([add]))
        discard(self._table, FileChanges(written=tuple(add for add in adds if add not in filled)))
        self.keep(FileChanges(written=filled))

    def write_changes(self, rows: DataFrame, count: int) -> None:
        """Write about so many rows with their type of change as change files."""
        files = write_data_files(
            self._table.spark,
            self._table.store,
            self._plan,
            rows,
            change=True,
            balanced=self._balanced(count),
        )
        self.keep(FileChanges(change_files=tuple(files)))

    def commit(
        self, operation: Operation, reads: ReadSet, beside: Sequence[StagedAction] = ()
    ) -> ChangeMetrics:
        """Commit all that was taken in and written."""
        self._committing = True
        return commit_change(self._table, operation, self.changes, reads, beside)

    def _balanced(self, count: int) -> bool:
        return bool(self._plan.metadata.partitioning) or count < _FEW_ROWS

    @property
    def written_rows(self) -> int:
        """How many rows the new data files hold."""
        return num_records(self.changes.written)

    def target_metrics(self) -> dict[str, int]:
        """What the files amount to, by the names of Delta's history for MERGE."""
        removed = self.changes.removed_files
        return {
            "numTargetFilesAdded": len(self.changes.written),
            "numTargetBytesAdded": sum(add.size for add in self.changes.written),
            "numTargetFilesRemoved": len(removed),
            "numTargetBytesRemoved": sum(remove.size or 0 for remove in removed),
            "numTargetChangeFilesAdded": len(self.changes.change_files),
            **self.changes.vector_counts("numTarget"),
        }

    def metrics(self) -> dict[str, int]:
        """What the files amount to, by the names of Delta's history for DELETE and UPDATE."""
        removed = self.changes.removed_files
        return {
            "numAddedFiles": len(self.changes.written),
            "numAddedBytes": sum(add.size for add in self.changes.written),
            "numRemovedFiles": len(removed),
            "numRemovedBytes": sum(remove.size or 0 for remove in removed),
            "numAddedChangeFiles": len(self.changes.change_files),
            **self.changes.vector_counts("num"),
        }


def with_type(rows: DataFrame, change: str) -> DataFrame:
    """Rows with the type of change that they are."""
    return rows.withColumn(CHANGE_TYPE, sf.lit(change))
