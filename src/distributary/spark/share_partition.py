"""One task's share of a read: some files of a shared table."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from distributary.client.read_task import ReadTask


class TaskPartition(InputPartition):
    """Some files of a shared table, for one task; shows neither secrets nor URLs."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(None)
        self.task = task
