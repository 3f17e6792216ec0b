"""The border to Spark's JVM: the only module that talks to py4j.

Our Java classes are few and stay on the driver; executors see stock Spark classes only. They are compiled
when first needed, by the compiler (Janino) that Spark itself ships and uses, once a JVM. What comes out of
the JVM has no types here; the functions say in words what they give.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession

from distributary.spark.errors import UnsupportedSparkError

PACKAGE: Final = "distributary"
# In the order in which they need each other.
SOURCES: Final = (
    "FileColumn",
    "FileColumns",
    "ColumnStatistics",
    "FileStatistics",
    "PartitionTest",
    "FileTest",
    "SkippingRules",
    "SnapshotFileIndex",
    "PhysicalNames",
    "MappedParquetFormat",
)

_lock = threading.Lock()
# One class loader a JVM, kept by the gateway's own identity; a process has one JVM, tests may restart it.
_loaders: dict[int, tuple[Any, Any]] = {}


def has_jvm(spark: SparkSession) -> bool:
    """Whether a session has its JVM in this process; one of Spark Connect has not."""
    return hasattr(spark, "_jsparkSession")


def jvm_of(spark: SparkSession) -> Any:
    """The JVM of a session."""
    if not has_jvm(spark):
        raise UnsupportedSparkError(
            "This is a session of Spark Connect, which has no JVM in this process. Use a classic session "
            "(distributary.spark.session()) for this, or format('distributary') after "
            "register_format(spark), which reads, streams and writes over Connect too"
        )
    return spark._jvm  # pyright: ignore[reportPrivateUsage]


def java_class(spark: SparkSession, name: str) -> Any:
    """One of our classes, as a java.lang.Class; compiled when first asked for."""
    jvm = jvm_of(spark)
    with _lock:
        gateway, loader = _loaders.get(id(_gateway(spark)), (None, None))
        if gateway is not _gateway(spark):
            loader = _compiled(jvm)
            _loaders.clear()
            _loaders[id(_gateway(spark))] = (_gateway(spark), loader)
    return loader.loadClass(f"{PACKAGE}.{name}")


def new_instance(spark: SparkSession, name: str, *arguments: Any) -> Any:
    """An object of one of our classes, which have one constructor each."""
    constructor = java_class(spark, name).getConstructors()[0]
    # A list, since a Python object that the JVM is to call cannot be put into an array of py4j.
    return constructor.newInstance(java_list(spark, arguments).toArray())


def start_callbacks(spark: SparkSession) -> None:
    """Let the JVM call Python objects that say which interface they implement; safe to call again."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(_gateway(spark))


def _compiled(jvm: Any) -> Any:
    """A class loader with all our classes, each compiled over those before it."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in SOURCES:
        text = resources.files("distributary.spark").joinpath("java", f"{name}.java").read_text()
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.setTargetVersion(8)
        compiler.cook(text)
        loader = compiler.getClassLoader()
    return loader


def _gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]


def java_list(spark: SparkSession, values: Iterable[Any]) -> Any:
    """A java.util.ArrayList."""
    items = jvm_of(spark).java.util.ArrayList()
    for value in values:
        items.add(value)
    return items


def scala_seq(spark: SparkSession, values: Iterable[Any]) -> Any:
    """An immutable scala Seq."""
    return jvm_of(spark).scala.jdk.javaapi.CollectionConverters.asScala(java_list(spark, values)).toSeq()


def scala_map(spark: SparkSession, values: Mapping[str, str]) -> Any:
    """An immutable scala Map of texts."""
    items = _module(jvm_of(spark).scala.collection.immutable, "Map").empty()
    for key, value in values.items():
        items = items.updated(key, value)
    return items


def _module(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def java_schema(spark: SparkSession, schema_json: str) -> Any:
    """Spark's own StructType of the JSON text of a schema, all of it nullable.

    Spark trusts a column that is said to have no nulls. A file that breaks that promise, or that was written
    before the column was added, would then be read wrongly.
    """
    return jvm_of(spark).org.apache.spark.sql.types.DataType.fromJson(schema_json).asNullable()


def expression_of(spark: SparkSession, column: Column) -> Any:
    """The Catalyst expression of a column."""
    utilities: Any = jvm_of(spark).org.apache.spark.sql.classic.ExpressionUtils
    return utilities.expression(column._jc)


def column_of(spark: SparkSession, expression: Any) -> Column:
    """The column of a Catalyst expression."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(jvm_of(spark).org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def broadcast(spark: SparkSession, value: Any) -> Any:
    """A Java broadcast of a Java object."""
    return spark.sparkContext._jsc.broadcast(value)  # pyright: ignore


def relation_frame(
    spark: SparkSession,
    index: Any,
    partition_schema: str,
    data_schema: str,
    file_format: Any,
    options: Mapping[str, str],
) -> DataFrame:
    """The rows of a file index as Spark reads them: a relation of its own kind, the file list ours."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    jvm = jvm_of(spark)
    session: Any = spark._jsparkSession  # pyright: ignore
    relation = jvm.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        index,
        java_schema(spark, partition_schema),
        java_schema(spark, data_schema),
        jvm.scala.Option.empty(),
        file_format,
        scala_map(spark, options),
        session,
    )
    return ClassicDataFrame(session.baseRelationToDataFrame(relation), spark)


def parquet_format(spark: SparkSession) -> Any:
    """Spark's own Parquet format."""
    return jvm_of(spark).org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat()


def pruning_filters(frame: DataFrame, index: Any) -> tuple[Any, Any] | None:
    """The filters of a planned frame over the partition columns of an index, and all its other filters.

    A scan of Spark's hands over less: it keeps back what joins partition and data columns in one condition.
    None where the plan does not read the index at all, since no row can satisfy its filters.
    """
    planned: Any = frame
    found = _scan_and_filter(planned._jdf.queryExecution().sparkPlan(), None, index)
    if found is None:
        return None
    scan, above = found
    others = scan.dataFilters() if above is None else scala_seq(frame.sparkSession, [above.condition()])
    return scan.partitionFilters(), others


def _scan_and_filter(node: Any, above: Any, index: Any) -> tuple[Any, Any] | None:
    """The scan of an index in a plan, with the filter right above it (None where there is none)."""
    kind = node.getClass().getSimpleName()
    if kind == "FileSourceScanExec" and index.equals(node.relation().location()):
        return node, above
    children = node.children()
    here = node if kind == "FilterExec" else None
    found = (_scan_and_filter(children.apply(at), here, index) for at in range(children.size()))
    return next((pair for pair in found if pair is not None), None)


def bitmap_contains(spark: SparkSession, serialized: bytes, place: Column, *, wide: bool) -> Column:
    """Whether a broadcast Roaring bitmap (of 64-bit numbers when `wide`) has a place.

    Made of Catalyst's own expressions: a call of `value()` on the broadcast, then of `contains`.
    """
    jvm = jvm_of(spark)
    shared = broadcast(spark, _bitmap(jvm, serialized, wide=wide))
    nothing = scala_seq(spark, ())

    def invoke(target: Any, name: str, result: Any, arguments: Any) -> Any:
        objects = jvm.org.apache.spark.sql.catalyst.expressions.objects
        return objects.Invoke(target, name, result, arguments, nothing, False, False, True)

    types = jvm.org.apache.spark.sql.types
    holder = jvm.org.apache.spark.sql.catalyst.expressions.Literal(
        shared, types.ObjectType(_class_named(jvm, "org.apache.spark.broadcast.Broadcast"))
    )
    bitmap = invoke(holder, "value", types.ObjectType(_class_named(jvm, _bitmap_class(wide))), nothing)
    arguments = scala_seq(spark, [expression_of(spark, place)])
    return column_of(spark, invoke(bitmap, "contains", types.DataTypes.BooleanType, arguments))


def _bitmap(jvm: Any, serialized: bytes, *, wide: bool) -> Any:
    source = jvm.java.nio.ByteBuffer.wrap(bytearray(serialized))
    if not wide:
        bitmap = jvm.org.roaringbitmap.RoaringBitmap()
        bitmap.deserialize(source)
        return bitmap
    stream = jvm.java.io.DataInputStream(jvm.java.io.ByteArrayInputStream(bytearray(serialized)))
    bitmap = jvm.org.roaringbitmap.longlong.Roaring64NavigableMap()
    bitmap.deserializePortable(stream)
    return bitmap


def _bitmap_class(wide: bool) -> str:
    return "org.roaringbitmap." + ("longlong.Roaring64NavigableMap" if wide else "RoaringBitmap")


def _class_named(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name)
