"""The number of the range that a value lies in, looked up by Java's own binary search.

Bounds travel with the query as one Java array; `StaticInvoke` calls `java.util.Arrays.binarySearch` on it
in generated code.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from distributary.spark.jvm import column_of, expression_of, jvm_of, scala_seq


class RangeKind(enum.Enum):
    """How values are compared."""

    LONG = "long"
    DOUBLE = "double"
    TEXT = "text"


def place_in(spark: SparkSession, value: Column, kind: RangeKind, bounds: Sequence[Any]) -> Column:
    """How many bounds, which ascend, are below a value."""
    if not bounds:
        return F.lit(0)
    jvm = jvm_of(spark)
    array = _text_array(spark, bounds) if kind is RangeKind.TEXT else _number_array(spark, kind, bounds)
    types: Any = jvm.org.apache.spark.sql.types
    literal = jvm.org.apache.spark.sql.catalyst.expressions.Literal(array, types.ObjectType(array.getClass()))
    found = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName("java.util.Arrays"),
        types.DataType.fromDDL("int"),
        "binarySearch",
        scala_seq(spark, [literal, expression_of(spark, value)]),
        scala_seq(spark, []),
        True,
        False,
        True,
        jvm.scala.Option.empty(),
    )
    place = column_of(spark, found)
    return F.when(place >= 0, place).otherwise(-place - F.lit(1))


def _number_array(spark: SparkSession, kind: RangeKind, bounds: Sequence[Any]) -> Any:
    """A long[] or double[], filled from bytes in one call."""
    jvm = jvm_of(spark)
    is_long = kind is RangeKind.LONG
    data = np.array(bounds, ">i8" if is_long else ">f8").tobytes()
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore
    array = gateway.new_array(jvm.long if is_long else jvm.double, len(bounds))
    buffer: Any = jvm.java.nio.ByteBuffer.wrap(bytearray(data))
    (buffer.asLongBuffer() if is_long else buffer.asDoubleBuffer()).get(array)
    return array


def _text_array(spark: SparkSession, bounds: Sequence[str]) -> Any:
    """An Object[] of Spark's own strings."""
    jvm = jvm_of(spark)
    texts = jvm.java.util.ArrayList()
    for bound in bounds:
        texts.add(jvm.org.apache.spark.unsafe.types.UTF8String.fromBytes(bytearray(bound.encode())))
    return texts.toArray()
