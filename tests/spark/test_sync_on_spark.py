"""Local copies of shared tables whose files are fetched by Spark's tasks."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from distributary.client import spark_copy
from distributary.client.local_copy import LocalCopy
from distributary.client.session import Session
from distributary.client.spark_copy import CopyTask, spark_copying
from distributary.client.table_query import QueryBody, QuerySettings, SnapshotQuestion
from distributary.delta.log.actions import Add
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from sync_world import SyncWorld, marks, rows, sync_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncWorld]:
    with sync_world(tmp_path_factory.mktemp("sync")) as made:
        yield made


def numbers(*values: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(values, pa.int64()), "part": pa.array([v % 3 for v in values], pa.int64())}
    )


def made(path: Path) -> DeltaTable:
    table = DeltaTable.create(path, schema=numbers().schema, partition_by=["part"])
    table.append(numbers(*range(9)))
    return table


def test_tasks_fetch_what_the_driver_commits(spark, world, tmp_path, monkeypatch):
    """Interrupted before its first commit, then taken up; later versions are one commit each."""
    table = made(tmp_path / "t")
    shared, copy = world.share("on_spark", tmp_path / "t"), tmp_path / "copy"
    monkeypatch.setattr(spark_copy, "TASK_BYTES", 1)
    with monkeypatch.context() as broken:
        broken.setattr(LocalCopy, "commit", _failing)
        with pytest.raises(InterruptedError):
            shared.sync(copy, spark=spark)
    assert len(list(copy.glob("*.parquet"))) == 3
    first = shared.sync(copy, spark=spark)
    assert (first.commits, first.added_files, first.downloaded_bytes) == (1, 3, 0)
    table.append(numbers(10, 11))
    table.overwrite(numbers(12))
    done = shared.sync(copy, spark=spark)
    assert (done.commits, done.added_files) == (2, 3)
    assert done.downloaded_bytes > 0
    for version, own in marks(copy).items():
        assert rows(copy, own) == rows(table, version)
    assert shared.sync(copy).commits == 0


def _failing(*_arguments: object) -> int:
    raise InterruptedError("killed before the commit")


def test_a_task_renews_its_urls_and_tells_of_files_that_are_gone(world, tmp_path):
    """CL-017: a task is all that another process needs, and shows no secret."""
    made(tmp_path / "t")
    shared, copy = world.share("task", tmp_path / "t"), tmp_path / "copy"
    copy.mkdir()
    task = pickle.loads(pickle.dumps(_task(shared._session, shared.name, copy)))
    shown = f"{task!r} {task.pin!r}"
    assert world.profile["bearerToken"] not in shown
    assert "http" not in shown
    for file in (tmp_path / "t").rglob("*.parquet"):
        file.rename(file.with_suffix(".away"))
    gone = task.run()
    assert (gone.bytes, gone.status) == (0, 404), gone.problem
    for file in (tmp_path / "t").rglob("*.away"):
        file.rename(file.with_suffix(".parquet"))
    assert task.run().bytes == sum(add.size for add in task.adds)
    assert task.run().bytes == 0


def _task(session: Session, name, copy: Path) -> CopyTask:
    """The task of all files, with URLs that are over already."""
    question = SnapshotQuestion(session.rest, name, QueryBody(), QuerySettings(formats=("delta",)))
    answer = question.ask()
    for key, url in answer.urls.items():
        answer.urls[key] = type(url)(url.url, 1)
    adds = [file.action for file in answer.files if isinstance(file.action, Add)]
    return spark_copying(None, session, name, str(copy))(question, answer)._task(adds)  # pyright: ignore


def test_a_copy_that_workers_cannot_reach_is_refused(world):
    with pytest.raises(InvalidInputError, match="memory"):
        spark_copying(None, None, None, "memory://copy")  # pyright: ignore[reportArgumentType]
