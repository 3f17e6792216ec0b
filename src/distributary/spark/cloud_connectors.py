"""Hadoop's connectors for clouds: what a session must load to read and write s3, abfss and gs.

Local disks and HDFS need nothing. PySpark brings Hadoop without its cloud connectors, and the connector for
S3 asks for an SDK bundle of nearly 700 MB, of which three parts are enough (18 MB). A cluster that has
connectors of its own needs nothing from here.

The storage options of a table (obstore's names) are handed to the connector with each read and write, so
that Spark reaches a store as the engine does; what they leave open is found by the connector's own chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from distributary.errors import InvalidInputError
from distributary.spark.errors import MissingConnectorError
from distributary.storage.cloud_identity import KeySource
from distributary.storage.object_store import ObjectStore


class Connector(msgspec.Struct, frozen=True):
    """What a cloud needs: the class of its file system, the packages that have it, and what to leave out."""

    file_system: str
    packages: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}

    def recipe(self, hadoop: str) -> dict[str, str]:
        """The settings of a session that load the connector for a version of Hadoop."""
        sdk = _AWS_SDK.get(hadoop.rpartition(".")[0], _NEWEST_SDK)
        packages = ",".join(package.format(hadoop=hadoop, sdk=sdk) for package in self.packages)
        excludes = {"spark.jars.excludes": ",".join(self.excludes)} if self.excludes else {}
        return {"spark.jars.packages": packages, **excludes, **self.settings}


# The SDK that each line of Hadoop's connector was made with.
_AWS_SDK: Final = {"3.4": "2.29.52", "3.5": "2.35.4"}
_NEWEST_SDK: Final = "2.35.4"

CONNECTORS: Final[Mapping[str, Connector]] = {
    "s3": Connector(
        "org.apache.hadoop.fs.s3a.S3AFileSystem",
        (
            "org.apache.hadoop:hadoop-aws:{hadoop}",
            "software.amazon.awssdk:s3:{sdk}",
            "software.amazon.awssdk:s3-transfer-manager:{sdk}",
            "software.amazon.awssdk:sts:{sdk}",
        ),
        ("software.amazon.awssdk:bundle",),
    ),
    "abfss": Connector(
        "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
        ("org.apache.hadoop:hadoop-azure:{hadoop}",),
    ),
    "gs": Connector(
        "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",),
        settings={"spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"},
    ),
}


def with_connectors(settings: Mapping[str, str], clouds: Sequence[str], hadoop: str) -> dict[str, str]:
    """Settings of a session with the packages of these clouds added to those that it asks for itself."""
    merged = dict(settings)
    for cloud in clouds:
        if cloud not in CONNECTORS:
            raise InvalidInputError(f"There is no connector for {cloud!r}: known are {', '.join(CONNECTORS)}")
        for name, value in CONNECTORS[cloud].recipe(hadoop).items():
            merged[name] = f"{merged[name]},{value}" if name in merged else value
    return merged


def check_connector(spark: Any, store: ObjectStore) -> None:
    """Refuse a store that a session cannot reach; the error has the settings that would make it possible."""
    connector = CONNECTORS.get(store.location.scheme)
    if connector is None or not hasattr(spark, "_jsparkSession") or _loads(spark, connector.file_system):
        return
    hadoop = spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    recipe = "".join(f"\n  {name}={value}" for name, value in connector.recipe(hadoop).items())
    raise MissingConnectorError(
        f"This session cannot reach {store.root}: it has no connector of Hadoop for {store.location.scheme}. "
        f"Start it with distributary.spark.session(clouds=[{store.location.scheme!r}]), or with these "
        f"settings of Spark:{recipe}"
    )


def _loads(spark: Any, name: str) -> bool:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Exception:  # py4j's error for ClassNotFoundException; anything else means the same here
        return False
    return True


def hadoop_options(store: ObjectStore) -> dict[str, str]:
    """What Hadoop must know to reach a store as the engine does: options of a read or a write.

    Hadoop keeps one connection a bucket and process, made with the options of whoever came first.
    """
    if store.location.scheme != "s3":
        return {}
    # A store of S3 is a CloudStore; naming the class would load obstore for local tables too.
    cloud: Any = store
    config: Mapping[str, Any] = cloud.client.config
    endpoint = config.get("endpoint")
    chosen: dict[str, str] = {}
    if endpoint:
        virtual = str(config.get("virtual_hosted_style_request", False)).lower() == "true"
        chosen["fs.s3a.endpoint"] = endpoint
        chosen["fs.s3a.path.style.access"] = "false" if virtual else "true"
        chosen["fs.s3a.connection.ssl.enabled"] = "false" if endpoint.startswith("http://") else "true"
    if config.get("region"):
        chosen["fs.s3a.endpoint.region"] = config["region"]
    return chosen | _s3_keys(cloud.keys)


def _s3_keys(source: KeySource | None) -> dict[str, str]:
    if source is None:
        return {}
    keys = source()
    kind = "Temporary" if keys.session_token else "Simple"
    found = {
        "fs.s3a.access.key": keys.access_key_id,
        "fs.s3a.secret.key": keys.secret_access_key,
        "fs.s3a.session.token": keys.session_token,
        "fs.s3a.aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{kind}AWSCredentialsProvider",
    }
    return {name: value for name, value in found.items() if value}
