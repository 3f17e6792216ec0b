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
    "SnapshotRelations",
)
# Between texts that go to the JVM as one; no name of a column or of an option has it.
SEPARATOR: Final = "\x1e"
_EXPRESSIONS: Final = "org.apache.spark.sql.classic.ExpressionUtils"
_CATALYST: Final = "org.apache.spark.sql.catalyst.expressions"

_lock = threading.Lock()
# One object of ours a JVM, kept by the gateway's own identity; a process has one JVM, tests may restart it.
_made: dict[int, tuple[Any, Any]] = {}


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


def class_named(spark: SparkSession, name: str) -> Any:
    """A class of the JVM by its whole name; py4j's dotted way asks the JVM about every package in it."""
    from py4j.java_gateway import JavaClass

    jvm_of(spark)
    return JavaClass(name, _gateway(spark)._gateway_client)


def relations(spark: SparkSession) -> Any:
    """Our SnapshotRelations; our classes are compiled when it is first asked for."""
    jvm, gateway = jvm_of(spark), _gateway(spark)
    with _lock:
        known, made = _made.get(id(gateway), (None, None))
        if known is not gateway:
            loader = _compiled(jvm)
            (constructor,) = loader.loadClass(f"{PACKAGE}.SnapshotRelations").getConstructors()
            made = constructor.newInstance(java_list(spark, ()).toArray())
            _made.clear()
            _made[id(gateway)] = (gateway, made)
    return made


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
    items = class_named(spark, "java.util.ArrayList")()
    for value in values:
        items.add(value)
    return items


def scala_seq(spark: SparkSession, values: Iterable[Any]) -> Any:
    """An immutable scala Seq."""
    converters = class_named(spark, "scala.jdk.javaapi.CollectionConverters")
    return converters.asScala(java_list(spark, values)).toSeq()


def expression_of(spark: SparkSession, column: Column) -> Any:
    """The Catalyst expression of a column."""
    java_column: Any = column
    return class_named(spark, _EXPRESSIONS).expression(java_column._jc)


def column_of(spark: SparkSession, expression: Any) -> Column:
    """The column of a Catalyst expression."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(class_named(spark, _EXPRESSIONS).column(expression))


def broadcast(spark: SparkSession, value: Any) -> Any:
    """A Java broadcast of a Java object."""
    return spark.sparkContext._jsc.broadcast(value)  # pyright: ignore


def file_index(
    spark: SparkSession,
    root: str,
    identity: str | None,
    files: bytearray | str,
    partition_schema: str,
    statistics: Any,
) -> Any:
    """A SnapshotFileIndex over a list of files."""
    return relations(spark).index(root, identity, files, partition_schema, statistics)


def relation_frame(
    spark: SparkSession,
    index: Any,
    data_schema: str,
    options: Mapping[str, str],
    *,
    mapped: str | None = None,
    by_id: bool = False,
) -> DataFrame:
    """The rows of a file index as Spark reads them: a relation of its own kind, the file list ours."""
    session: Any = spark._jsparkSession  # pyright: ignore
    texts = SEPARATOR.join(text for option in options.items() for text in option)
    return _frame(spark, relations(spark).frame(session, index, data_schema, mapped, by_id, texts))


def columns_of(frame: DataFrame, names: Iterable[str], row_number: str | None = None) -> DataFrame:
    """Columns of a frame by their names, then the number of each row in its file, if that gets a name."""
    spark = frame.sparkSession
    rows: Any = frame
    return _frame(spark, relations(spark).select(rows._jdf, SEPARATOR.join(names), row_number))


def _frame(spark: SparkSession, rows: Any) -> DataFrame:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(rows, spark)


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
    shared = broadcast(spark, _bitmap(spark, serialized, wide=wide))
    nothing = scala_seq(spark, ())
    invocation = class_named(spark, f"{_CATALYST}.objects.Invoke")

    def invoke(target: Any, name: str, result: Any, arguments: Any) -> Any:
        return invocation(target, name, result, arguments, nothing, False, False, True)

    broadcast_type = _object_type(spark, "org.apache.spark.broadcast.Broadcast")
    holder = class_named(spark, f"{_CATALYST}.Literal")(shared, broadcast_type)
    bitmap = invoke(holder, "value", _object_type(spark, _bitmap_class(wide)), nothing)
    arguments = scala_seq(spark, [expression_of(spark, place)])
    boolean = class_named(spark, "org.apache.spark.sql.types.DataTypes").BooleanType
    return column_of(spark, invoke(bitmap, "contains", boolean, arguments))


def _bitmap(spark: SparkSession, serialized: bytes, *, wide: bool) -> Any:
    bitmap = class_named(spark, _bitmap_class(wide))()
    if not wide:
        bitmap.deserialize(class_named(spark, "java.nio.ByteBuffer").wrap(bytearray(serialized)))
        return bitmap
    source = class_named(spark, "java.io.ByteArrayInputStream")(bytearray(serialized))
    bitmap.deserializePortable(class_named(spark, "java.io.DataInputStream")(source))
    return bitmap


def _bitmap_class(wide: bool) -> str:
    return "org.roaringbitmap." + ("longlong.Roaring64NavigableMap" if wide else "RoaringBitmap")


def _object_type(spark: SparkSession, name: str) -> Any:
    """Spark's type of values that are objects of a Java class."""
    java_class = class_named(spark, "java.lang.Class").forName(name)
    return class_named(spark, "org.apache.spark.sql.types.ObjectType")(java_class)
