"""Hadoop's connectors for clouds: what a session must load to read s3, abfss and gs.

Local disks and HDFS need nothing. PySpark brings Hadoop without its cloud connectors, and the connector for
S3 asks for an SDK bundle of nearly 700 MB, of which three parts are enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distributary.storage.object_store import ObjectStore


def with_connectors(settings: Mapping[str, str], clouds: Sequence[str]) -> dict[str, str]:
    """Settings of a session with the packages of these clouds added."""
    del clouds
    return dict(settings)


def hadoop_options(store: ObjectStore) -> dict[str, str]:
    """What Hadoop must know to reach a store as the engine does."""
    del store
    return {}
