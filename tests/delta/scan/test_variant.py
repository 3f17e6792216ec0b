"""Variant: the JSON text of every kind of value, shredded or not, and hostile bytes."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import random
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.errors import DataFileError
from distributary.delta.scan.variant import MAX_DEPTH, variant_to_json

EMPTY = b"\x01\x00\x00"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def primitive(kind: int, payload: bytes = b"") -> bytes:
    return bytes([kind << 2]) + payload


def names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {name for inner in value.values() for name in names_in(inner)}
    return {name for inner in value for name in names_in(inner)} if isinstance(value, list) else set()


def metadata_of(names: list[str], width: int = 4) -> bytes:
    texts = [name.encode() for name in names]
    offsets = [sum(map(len, texts[:i])) for i in range(len(texts) + 1)]
    header = bytes([1 | 16 | (width - 1) << 6]) + len(texts).to_bytes(width, "little")
    return header + b"".join(offset.to_bytes(width, "little") for offset in offsets) + b"".join(texts)


def value_of(value: Any, names: list[str], width: int = 4) -> bytes:
    """A small encoder: one size for all integers, objects in the order of their names."""
    if value is None or isinstance(value, bool):
        return primitive({None: 0, True: 1, False: 2}[value])
    if isinstance(value, int):
        return primitive(6, struct.pack("<q", value))
    if isinstance(value, float):
        return primitive(7, struct.pack("<d", value))
    if isinstance(value, str):
        data = value.encode()
        return (
            bytes([len(data) << 2 | 1]) + data
            if len(data) < 64
            else primitive(16, struct.pack("<I", len(data)) + data)
        )
    large = 1 if width > 1 else 0
    count = len(value).to_bytes(4 if large else 1, "little")
    keys = sorted(value, key=str.encode) if isinstance(value, dict) else []
    parts = [value_of(value[key] if keys else key, names, width) for key in keys or value]
    offsets = b"".join(sum(map(len, parts[:i])).to_bytes(width, "little") for i in range(len(parts) + 1))
    ids = b"".join(names.index(key).to_bytes(width, "little") for key in keys)
    if isinstance(value, dict):
        return (
            bytes([2 | ((width - 1) | (width - 1) << 2 | large << 4) << 2])
            + count
            + ids
            + offsets
            + b"".join(parts)
        )
    return bytes([3 | ((width - 1) | large << 2) << 2]) + count + offsets + b"".join(parts)


def column(*rows: tuple[bytes, bytes] | None) -> pa.StructArray:
    kind = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    return pa.array([None if row is None else {"metadata": row[0], "value": row[1]} for row in rows], kind)


def text_of(value: bytes, metadata: bytes = EMPTY) -> str:
    return variant_to_json(column((metadata, value)))[0].as_py()


class TestEncoding:
    @given(json_values, st.sampled_from([2, 3, 4]))
    def test_any_json_value_comes_back(self, value: Any, width: int):
        names = sorted(names_in(value), key=str.encode)
        assert json.loads(text_of(value_of(value, names, width), metadata_of(names, width))) == value

    def test_small_containers_have_one_byte_counts(self):
        value = {"a": [1, {"b": None}], "b": "x"}
        assert json.loads(text_of(value_of(value, ["a", "b"], 1), metadata_of(["a", "b"], 1))) == value

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            (primitive(0), "null"),
            (primitive(1), "true"),
            (primitive(2), "false"),
            (primitive(3, b"\x80"), "-128"),
            (primitive(4, struct.pack("<h", -300)), "-300"),
            (primitive(5, struct.pack("<i", 70_000)), "70000"),
            (primitive(6, struct.pack("<q", -(2**63))), "-9223372036854775808"),
            (primitive(7, struct.pack("<d", 1.0)), "1.0"),
            (primitive(7, struct.pack("<d", 1e10)), "1.0E10"),
            (primitive(7, struct.pack("<d", 1.25e-5)), "1.25E-5"),
            (primitive(7, struct.pack("<d", 9999999.5)), "9999999.5"),
            (primitive(7, struct.pack("<d", -0.0)), "-0.0"),
            (primitive(7, struct.pack("<d", math.nan)), '"NaN"'),
            (primitive(7, struct.pack("<d", -math.inf)), '"-Infinity"'),
            (primitive(14, struct.pack("<f", 0.2)), "0.2"),
            (primitive(14, struct.pack("<f", math.inf)), '"Infinity"'),
            (primitive(8, b"\x02" + struct.pack("<i", -12345)), "-123.45"),
            (primitive(8, b"\x03" + struct.pack("<i", 1500)), "1.5"),
            (primitive(9, b"\x00" + struct.pack("<q", 10**17)), "100000000000000000"),
            (
                primitive(10, b"\x26" + (10**37 + 1).to_bytes(16, "little")),
                "0.10000000000000000000000000000000000001",
            ),
            (primitive(10, b"\x05" + bytes(16)), "0"),
            (primitive(11, struct.pack("<i", 18661)), '"2021-02-03"'),
            (primitive(11, struct.pack("<i", 2932897)), '"+10000-01-01"'),
            (primitive(12, struct.pack("<q", 998_442_123_321_000)), '"2001-08-22 01:02:03.321+00:00"'),
            (primitive(13, struct.pack("<q", -1)), '"1969-12-31 23:59:59.999999"'),
            (primitive(13, struct.pack("<q", 0)), '"1970-01-01 00:00:00"'),
            (primitive(15, struct.pack("<I", 3) + b"eh?"), '"ZWg/"'),
            (primitive(16, struct.pack("<I", 4) + "é\n\x01".encode()), '"é\\n\\u0001"'),
            (primitive(17, struct.pack("<q", 3_661_000_001)), '"01:01:01.000001"'),
            (primitive(18, struct.pack("<q", 1)), '"1970-01-01 00:00:00.000000001+00:00"'),
            (primitive(19, struct.pack("<q", 1_500_000_000)), '"1970-01-01 00:00:01.5"'),
            (primitive(20, UUID(int=1).bytes), '"00000000-0000-0000-0000-000000000001"'),
            (b"\x09hi", '"hi"'),
        ],
    )
    def test_each_primitive_has_sparks_text(self, data: bytes, text: str):
        assert text_of(data) == text

    @given(st.floats(width=32, allow_nan=False, allow_infinity=False))
    def test_floats_have_their_own_short_text(self, value: float):
        assert np.float32(json.loads(text_of(primitive(14, struct.pack("<f", value))))) == np.float32(value)

    def test_null_rows_and_chunks_are_kept(self):
        rows = pa.chunked_array([column((EMPTY, primitive(1)), None), column((EMPTY, primitive(0)))])
        assert variant_to_json(rows).to_pylist() == ["true", None, "null"]
        assert variant_to_json(pa.chunked_array([], column().type)).to_pylist() == []

    def test_slices_read_their_own_rows(self):
        rows = column(*[(EMPTY, primitive(3, bytes([n]))) for n in range(5)])
        assert variant_to_json(rows.slice(2, 2)).to_pylist() == ["2", "3"]


class TestHostileBytes:
    @pytest.mark.parametrize(
        ("metadata", "value"),
        [
            (b"", primitive(0)),
            (b"\x02\x00\x00", primitive(0)),
            (b"\xc1\xff\xff\xff\xff", primitive(0)),
            (b"\x01\x01\x05\x02a", primitive(0)),
            (b"\x01\x01\x00\x09a", primitive(0)),
            (b"\x01\x01\x00\x01\xff", primitive(0)),
            (EMPTY, b""),
            (EMPTY, primitive(21)),
            (EMPTY, primitive(6, b"\x01")),
            (EMPTY, primitive(16, struct.pack("<I", 2**32 - 1))),
            (EMPTY, primitive(8, b"\xff" + bytes(4))),
            (EMPTY, primitive(16, struct.pack("<I", 1) + b"\xff")),
            (EMPTY, bytes([3 | 4 << 2]) + struct.pack("<I", 2**32 - 1)),
            (EMPTY, bytes([2]) + b"\x01\x00\x00\x01\x00"),
            (EMPTY, bytes([3]) + b"\x01\xff\x01\x00"),
        ],
    )
    def test_broken_bytes_are_an_error(self, metadata: bytes, value: bytes):
        with pytest.raises(DataFileError):
            text_of(value, metadata)

    def test_elements_at_one_place_again_and_again_are_an_error(self):
        """Forty lists of two elements that share their bytes would be a text of 2^40 values."""
        value = primitive(0)
        for _ in range(40):
            value = bytes([3, 2, 0, 0, len(value)]) + value
        with pytest.raises(DataFileError, match="overlap"):
            text_of(value)

    def test_nesting_has_a_limit(self):
        def nested(depth: int) -> bytes:
            value = primitive(0)
            for _ in range(depth):
                value = bytes([3 | 3 << 2, 1]) + struct.pack("<II", 0, len(value)) + value
            return value

        assert text_of(nested(MAX_DEPTH)) == "[" * MAX_DEPTH + "null" + "]" * MAX_DEPTH
        with pytest.raises(DataFileError, match="deeper"):
            text_of(nested(MAX_DEPTH + 1))

    def test_long_names_used_often_have_a_limit(self):
        count = 1000
        value = bytes([2 | (1 | 1 << 4) << 2]) + struct.pack("<I", count) + bytes(count)
        value += b"".join(struct.pack("<H", i) for i in range(count + 1)) + primitive(0) * count
        with pytest.raises(DataFileError, match="longer than"):
            text_of(value, metadata_of(["n" * 1_000_000]))

    @given(st.binary(max_size=40), st.binary(max_size=60))
    def test_any_bytes_give_json_or_an_error(self, metadata: bytes, value: bytes):
        for header in (metadata, EMPTY):
            with contextlib.suppress(DataFileError):
                json.loads(text_of(value, header))

    def test_flipped_bytes_give_json_or_an_error(self):
        value = {"a": [1, 2.5, "text", None], "b": {"c": True, "d": "x" * 70}}
        names, chance = ["a", "b", "c", "d"], random.Random(3)
        good = (metadata_of(names), value_of(value, names))
        for _ in range(3000):
            pair = [bytearray(part) for part in good]
            part = chance.choice(pair)
            part[chance.randrange(len(part))] = chance.randrange(256)
            with contextlib.suppress(DataFileError):
                json.loads(text_of(bytes(pair[1]), bytes(pair[0])))

    @pytest.mark.parametrize("kind", [pa.int64(), pa.struct([("value", pa.binary())])])
    def test_columns_that_are_no_variants_are_an_error(self, kind: pa.DataType):
        with pytest.raises(DataFileError):
            variant_to_json(pa.nulls(1, kind))


def shredded(
    typed_type: pa.DataType, *rows: dict[str, Any] | None, metadata: bytes = EMPTY
) -> list[str | None]:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", typed_type)])
    filled = [None if row is None else {"metadata": metadata, **row} for row in rows]
    return variant_to_json(pa.array(filled, kind)).to_pylist()


def group(typed_type: pa.DataType) -> pa.DataType:
    return pa.struct([("value", pa.binary()), ("typed_value", typed_type)])


class TestShredded:
    @pytest.mark.parametrize(
        ("kind", "value", "text"),
        [
            (pa.bool_(), True, "true"),
            (pa.int8(), -3, "-3"),
            (pa.int64(), 2**40, "1099511627776"),
            (pa.float32(), 0.2, "0.2"),
            (pa.float64(), 1e10, "1.0E10"),
            (pa.decimal128(9, 3), Decimal("1.500"), "1.5"),
            (pa.date32(), dt.date(2021, 2, 3), '"2021-02-03"'),
            (pa.time64("us"), dt.time(1, 2, 3, 4), '"01:02:03.000004"'),
            (
                pa.timestamp("us", "UTC"),
                dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
                '"2020-01-01 00:00:00+00:00"',
            ),
            (pa.timestamp("us"), dt.datetime(2020, 1, 1, 1), '"2020-01-01 01:00:00"'),
            (pa.timestamp("ns"), 1_000_000_001, '"1970-01-01 00:00:01.000000001"'),
            (pa.timestamp("ns", "UTC"), 5, '"1970-01-01 00:00:00.000000005+00:00"'),
            (pa.string(), 'a"b', '"a\\"b"'),
            (pa.large_string(), "é", '"é"'),
            (pa.binary(), b"eh?", '"ZWg/"'),
            (pa.binary(16), UUID(int=1).bytes, '"00000000-0000-0000-0000-000000000001"'),
        ],
    )
    def test_typed_primitives_have_the_same_text(self, kind: pa.DataType, value: object, text: str):
        rows = [{"typed_value": value}, {"value": primitive(0)}, {}, None]
        assert shredded(kind, *rows) == [text, "null", "null", None]

    def test_objects_are_joined_from_columns_and_rest(self):
        names = ["a", "b", "é", "z"]
        kind = pa.struct([("b", group(pa.int64())), ("a", group(pa.string()))])
        rest = value_of({"z": 1, "é": [True]}, names)
        rows = [
            {"typed_value": {"a": {"typed_value": "x"}, "b": {"typed_value": 7}}},
            {"typed_value": {"a": {}, "b": {"value": value_of("not a number", names)}}, "value": rest},
            {"typed_value": {"a": {}, "b": {}}},
            {"value": value_of([1], names)},
            {"value": rest},
            None,
        ]
        assert shredded(kind, *rows, metadata=metadata_of(names)) == [
            '{"a":"x","b":7}',
            '{"b":"not a number","z":1,"é":[true]}',
            "{}",
            "[1]",
            '{"z":1,"é":[true]}',
            None,
        ]

    def test_lists_of_objects_are_joined(self):
        kind = pa.list_(group(pa.struct([("a", group(pa.list_(group(pa.int32()))))])))
        names = ["a", "b"]
        one = {"typed_value": {"a": {"typed_value": [{"typed_value": 1}, {"value": primitive(1)}]}}}
        two = {"typed_value": {"a": {}}, "value": value_of({"b": "x"}, names)}
        rows = [
            {"typed_value": [one, two, {"value": primitive(2)}]},
            {"typed_value": []},
            {"value": primitive(3, b"\x05")},
        ]
        texts = shredded(kind, *rows, metadata=metadata_of(names))
        assert texts == ['[{"a":[1,true]},{"b":"x"},false]', "[]", "5"]

    @pytest.mark.parametrize(
        ("kind", "row"),
        [
            (pa.struct([("a", pa.int64())]), {"typed_value": {"a": 1}}),
            (pa.duration("us"), {"typed_value": dt.timedelta(1)}),
            (pa.struct([("a", group(pa.int64()))]), {"typed_value": {"a": {}}, "value": primitive(1)}),
            (pa.list_(pa.int64()), {"typed_value": [1]}),
        ],
    )
    def test_shredding_against_the_rules_is_an_error(self, kind: pa.DataType, row: dict[str, Any]):
        with pytest.raises(DataFileError):
            shredded(kind, row)


@pytest.mark.parametrize(
    "name",
    [
        "duckdb__variant.basic",
        "kjava__spark-shredded-variant-preview-delta",
        "spark__variant-stats-with-struct-no-checkpoint",
        "trino__databricks153.variant",
        "trino__databricks153.variant_types",
        "trino__databricks154.variant_read_after_optimization",
    ],
)
def test_files_of_real_tables_hold_the_rows_that_spark_sees(delta_tables: Any, name: str):
    expected = json.loads((delta_tables.expected / f"{name}.json").read_text())
    kept = {json.dumps(row[column], sort_keys=True) for row in expected["content"] for column in row}
    seen: set[str] = set()
    for file in (delta_tables.tables / name).rglob("*.parquet"):
        table = pq.ParquetFile(file).read() if "_delta_log" not in file.parts else pa.table({})
        for field in table.schema:
            if pa.types.is_struct(field.type) and field.type.get_field_index("metadata") >= 0:
                texts = variant_to_json(table[field.name]).to_pylist()
                seen |= {
                    json.dumps({"variant": json.loads(text)}, sort_keys=True)
                    for text in texts
                    if text is not None
                }
    assert seen
    assert seen <= kept
