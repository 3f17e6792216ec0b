"""Spark for the tests: one session a worker of xdist, small and on two threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "America/New_York",
}
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in a zone that is not UTC, so that a result that depends on the zone is seen."""
    from distributary.spark import session

    folder = tmp_path_factory.mktemp("spark")
    places = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # Small data, many plans: code that is compiled well costs more than it saves.
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder / 'derby'} {QUICK_START}",
    }
    made = session("tests", conf={**SETTINGS, **places})
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A JVM on a busy machine takes its time: the usual limit of a test is for others."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))
