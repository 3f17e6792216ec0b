"""Sessions: settings, versions, and what is asked of a session that the user brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from distributary.spark import register, session
from distributary.spark.errors import UnsupportedSparkError
from distributary.spark.spark_session import check_version, hadoop_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_existing_session_is_taken_and_registered_again_without_harm(spark: SparkSession) -> None:
    assert register(register(spark)) is spark
    assert session("tests").sparkContext is spark.sparkContext


def test_settings_are_given_by_name_or_by_conf(spark: SparkSession) -> None:
    same = session("tests", conf={"spark.sql.ansi.enabled": "true"}, spark__sql__shuffle__partitions=2)
    assert same.conf.get("spark.sql.shuffle.partitions") == "2"


def test_name_that_is_no_setting_is_refused() -> None:
    with pytest.raises(UnsupportedSparkError, match="'shuffle' is no setting"):
        session(shuffle=1)


@pytest.mark.parametrize("version", ["4.1.0", "4.2.0", "4.3.1-SNAPSHOT"])
def test_supported_version_is_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "4.4.0", "main"])
def test_other_version_is_refused(version: str) -> None:
    with pytest.raises(UnsupportedSparkError, match=r"supported are 4\.1 to 4\.3"):
        check_version(version)


def test_hadoop_is_the_one_that_spark_brings(spark: SparkSession) -> None:
    assert hadoop_version() == spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion()  # pyright: ignore
