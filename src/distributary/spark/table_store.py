"""The store of a table, with the roots outside of it that a session trusts.

The log of a shallow clone names files of the table that it was made of by absolute paths. Such a path is
followed only below a root that was allowed, since a log may have been written by anyone: by `allowed_roots=`
of a call, or for a whole session (also for SQL) by its setting `spark.distributary.allowedRoots`, roots with
commas between them. Who makes a shallow clone in a session allows its source there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession

from distributary.storage.object_store import ObjectStore, open_store

ALLOWED_ROOTS: Final = "spark.distributary.allowedRoots"


def table_store(
    spark: SparkSession,
    path: str,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
) -> ObjectStore:
    """The store of the table at a path."""
    return open_store(path, storage_options, trusted_roots(spark, allowed_roots))


def trusted_roots(spark: SparkSession, allowed_roots: Sequence[str] = ()) -> tuple[str, ...]:
    """These roots and those of the session."""
    known = (spark.conf.get(ALLOWED_ROOTS, None) or "").split(",")
    return (*allowed_roots, *(root.strip() for root in known if root.strip()))


def trust_root(spark: SparkSession, root: str) -> None:
    """Allow a root in a session."""
    if root not in trusted_roots(spark):
        spark.conf.set(ALLOWED_ROOTS, ",".join((*trusted_roots(spark), root)))
