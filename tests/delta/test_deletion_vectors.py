"""Deletion vectors: codec, framing, checks, and what hostile bytes may do (nothing)."""

from __future__ import annotations

import contextlib
import random
import struct
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from distributary.delta.deletion_vectors import (
    NATIVE_MAGIC,
    PORTABLE_MAGIC,
    DeletionVectorDescriptor,
    decode_bitmap,
    dv_file_path,
    encode_bitmap,
    file_descriptor,
    inline_descriptor,
    keep_mask,
    read_deletion_vector,
    write_deletion_vector_file,
    z85_decode,
    z85_encode,
)
from distributary.delta.errors import CorruptDeletionVectorError

GOLDEN_FILE = bytes.fromhex(
    "01 00000022 D1D33964 0100000000000000 00000000 3A300000 01000000 0000 0000 10000000 0000 F7A6B4B5"
)

rows = st.one_of(
    st.sets(st.integers(0, 300), max_size=40),
    st.sets(st.integers(0, 2**40), max_size=40),
    st.builds(
        lambda start, length: set(range(start, start + length)), st.integers(0, 2**33), st.integers(0, 9000)
    ),
    st.builds(lambda step, n: set(range(0, step * n, step)), st.integers(2, 5), st.integers(4000, 9000)),
)


def reader_of(content: bytes):
    def read_range(path: str, offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    return read_range


def inline(data: bytes, cardinality: int) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(
        storage_type="i",
        path_or_inline_dv=z85_encode(data + bytes(-len(data) % 4)),
        size_in_bytes=len(data),
        cardinality=cardinality,
    )


def in_file(text: str = "vBn[lx{q8@P<9BNH/isA", **changes: object) -> DeletionVectorDescriptor:
    fields = {
        "storage_type": "u",
        "path_or_inline_dv": text,
        "offset": 1,
        "size_in_bytes": 34,
        "cardinality": 1,
    }
    return DeletionVectorDescriptor(**(fields | changes))  # type: ignore[arg-type]


def no_file(path: str, offset: int, length: int) -> bytes:
    raise AssertionError(f"an inline vector needs no file, asked for {path}")


def native_form(buckets: list[BitMap64]) -> bytes:
    """The old form: 32-bit bitmaps by index; a 32-bit bitmap is a 64-bit one without count and key."""
    data = struct.pack("<II", NATIVE_MAGIC, len(buckets))
    for bucket in buckets:
        bitmap = bucket.serialize()[12:] or bytes.fromhex("3A30000000000000")
        data += struct.pack("<I", len(bitmap)) + bitmap
    return data


class TestZ85:
    @given(st.binary(max_size=64).map(lambda data: data + bytes(-len(data) % 4)))
    def test_bytes_round_trip(self, data: bytes):
        assert z85_decode(z85_encode(data)) == data

    def test_rfc_32_vector_encodes_as_hello_world(self):
        assert z85_encode(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"

    @pytest.mark.parametrize("text", ["abc", "ab'de", "#####", "%nSc1", "#zzzz", "##zzz", "###zz", "ééé"])
    def test_text_that_is_not_z85_is_refused(self, text: str):
        with pytest.raises(CorruptDeletionVectorError):
            z85_decode(text)

    @pytest.mark.parametrize(("text", "data"), [("##093", b"\x03\x00"), ("00000###03", b"\0\0\0\0\x03")])
    def test_text_padded_with_hashes_gives_the_short_tail(self, text: str, data: bytes):
        assert z85_decode(text) == data

    @given(st.text("0azAZ.-:+=#é' ", max_size=25))
    def test_any_text_decodes_or_is_refused(self, text: str):
        with contextlib.suppress(CorruptDeletionVectorError):
            z85_decode(text)


class TestDescriptor:
    def test_json_names_are_those_of_the_log(self):
        text = (
            b'{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,'
            b'"sizeInBytes":40,"cardinality":6,"maxRowIndex":9}'
        )
        descriptor = msgspec.json.decode(text, type=DeletionVectorDescriptor)
        assert (descriptor.offset, descriptor.size_in_bytes, descriptor.cardinality) == (4, 40, 6)
        assert descriptor.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"

    def test_unique_id_without_offset_has_no_suffix(self):
        assert inline_descriptor(BitMap64([3])).unique_id.startswith("i^Bg9^")

    def test_path_with_prefix_is_below_a_directory(self):
        path = dv_file_path(in_file("ab^-aqEH.-t@S}K{vb[*k^"))
        assert path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"

    def test_path_without_prefix_is_in_the_table_root(self):
        assert dv_file_path(in_file()) == "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"

    def test_prefix_that_needs_it_is_escaped_as_a_log_path(self):
        assert dv_file_path(in_file("a b%/vBn[lx{q8@P<9BNH/isA")).startswith("a%20b%25//deletion_vector_")

    def test_absolute_path_is_kept(self):
        descriptor = in_file("s3://b/t/deletion_vector_x.bin", storage_type="p")
        assert dv_file_path(descriptor) == "s3://b/t/deletion_vector_x.bin"

    @pytest.mark.parametrize(("storage_type", "text"), [("i", "00000"), ("x", "00000"), ("u", "short")])
    def test_descriptor_without_a_file_is_refused(self, storage_type: str, text: str):
        with pytest.raises(CorruptDeletionVectorError):
            dv_file_path(in_file(text, storage_type=storage_type))


class TestBitmap:
    @given(rows)
    @settings(max_examples=60, deadline=None)
    def test_set_round_trips_through_the_portable_form(self, values: set[int]):
        bitmap = BitMap64(values)
        data = encode_bitmap(bitmap)
        assert struct.unpack_from("<I", data) == (PORTABLE_MAGIC,)
        assert decode_bitmap(data) == bitmap
        assert read_deletion_vector(inline_descriptor(bitmap), no_file) == bitmap

    @given(st.lists(st.sets(st.integers(0, 2**32 - 1), max_size=20), max_size=4))
    @settings(deadline=None)
    def test_native_form_is_read(self, buckets: list[set[int]]):
        expected = BitMap64([(key << 32) + low for key, bucket in enumerate(buckets) for low in bucket])
        assert decode_bitmap(native_form([BitMap64(bucket) for bucket in buckets])) == expected

    def test_empty_bucket_of_the_portable_form_is_read(self):
        data = struct.pack("<IQI", PORTABLE_MAGIC, 1, 0) + bytes.fromhex("3A30000000000000")
        assert decode_bitmap(data) == BitMap64()

    def test_example_of_the_protocol_text_in_big_endian_order_is_refused(self):
        with pytest.raises(CorruptDeletionVectorError, match="magic"):
            decode_bitmap(z85_decode("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"))

    @pytest.mark.parametrize(
        ("name", "tail"),
        [
            ("unsorted rows", "3A300000 01000000 0000 0100 10000000 0500 0400"),
            ("repeated rows", "3A300000 01000000 0000 0100 10000000 0500 0500"),
            ("run count and header differ", "3B300000 01 0000 0400 0100 0000 0200"),
            ("run leaves its container", "3B300000 01 0000 0200 0100 FFFF 0200"),
            ("runs overlap", "3B300000 01 0000 0400 0200 0000 0200 0100 0100"),
            ("no such cookie", "3C300000 01000000 0000 0000 10000000 0500"),
            ("too many containers", "3A300000 FFFFFFFF 0000 0000 10000000 0500"),
            (
                "bitset with fewer bits than its header says",
                "3A300000 01000000 0000 FFFF 10000000" + "00" * 8192,
            ),
            ("container keys repeat", "3A300000 02000000 0000 0000 0000 0000 18000000 1A000000 0100 0200"),
            ("trailing bytes", "3A300000 01000000 0000 0000 10000000 0500 00"),
        ],
    )
    def test_container_that_breaks_its_own_rules_is_refused(self, name: str, tail: str):
        """Native code trusts these numbers: a bitset's false cardinality would overrun a buffer."""
        with pytest.raises(CorruptDeletionVectorError):
            decode_bitmap(struct.pack("<IQI", PORTABLE_MAGIC, 1, 0) + bytes.fromhex(tail))

    def test_keys_out_of_order_or_too_large_are_refused(self):
        bitmap = bytes.fromhex("3A300000 01000000 0000 0000 10000000 0500")
        for keys in ([1, 0], [0, 0], [2**31]):
            data = struct.pack("<IQ", PORTABLE_MAGIC, len(keys))
            with pytest.raises(CorruptDeletionVectorError, match="keys"):
                decode_bitmap(data + b"".join(struct.pack("<I", key) + bitmap for key in keys))

    @given(st.binary(max_size=80))
    @example(struct.pack("<IQ", PORTABLE_MAGIC, 2**64 - 1))
    @example(struct.pack("<II", NATIVE_MAGIC, 2**32 - 1))
    def test_any_bytes_decode_or_are_refused(self, data: bytes):
        for candidate in (
            data,
            struct.pack("<I", PORTABLE_MAGIC) + data,
            struct.pack("<I", NATIVE_MAGIC) + data,
        ):
            with contextlib.suppress(CorruptDeletionVectorError):
                decode_bitmap(candidate)


class TestReading:
    def test_golden_file_gives_row_zero(self):
        bitmap = read_deletion_vector(in_file(), reader_of(GOLDEN_FILE))
        assert list(bitmap) == [0]
        assert write_deletion_vector_file([bitmap])[0] == GOLDEN_FILE

    def test_absent_offset_means_the_first_vector(self):
        assert list(read_deletion_vector(in_file(offset=None), reader_of(GOLDEN_FILE))) == [0]

    def test_vectors_of_one_file_are_read_by_their_offsets(self):
        bitmaps = [BitMap64([1, 5]), BitMap64(), BitMap64(range(70_000))]
        content, offsets = write_deletion_vector_file(bitmaps)
        identity = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
        for bitmap, offset in zip(bitmaps, offsets, strict=True):
            descriptor = file_descriptor(bitmap, identity, offset, "ab")
            assert dv_file_path(descriptor) == f"ab/deletion_vector_{identity}.bin"
            assert read_deletion_vector(descriptor, reader_of(content)) == bitmap

    @pytest.mark.parametrize(
        "changes",
        [
            {"size_in_bytes": 33},
            {"size_in_bytes": 35},
            {"size_in_bytes": -1},
            {"size_in_bytes": 2**31 - 1},
            {"size_in_bytes": 2**31, "cardinality": 2**60},
            {"offset": 0},
            {"offset": 2},
            {"offset": -5},
            {"cardinality": 2},
            {"cardinality": -1},
        ],
    )
    def test_descriptor_that_does_not_match_the_file_is_refused(self, changes: dict[str, int]):
        with pytest.raises(CorruptDeletionVectorError):
            read_deletion_vector(in_file(**changes), reader_of(GOLDEN_FILE))

    def test_size_beyond_any_bitmap_is_refused_before_reading(self):
        with pytest.raises(CorruptDeletionVectorError, match="more than any bitmap needs"):
            read_deletion_vector(in_file(size_in_bytes=2**31 - 1), no_file)

    def test_every_flipped_byte_of_a_file_is_noticed(self):
        for position in range(len(GOLDEN_FILE)):
            for bit in range(8):
                content = bytearray(GOLDEN_FILE)
                content[position] ^= 1 << bit
                with pytest.raises(CorruptDeletionVectorError):
                    read_deletion_vector(in_file(), reader_of(bytes(content)))

    def test_truncated_file_is_refused(self):
        for length in range(len(GOLDEN_FILE)):
            with pytest.raises(CorruptDeletionVectorError):
                read_deletion_vector(in_file(), reader_of(GOLDEN_FILE[:length]))

    @pytest.mark.parametrize(
        "bitmap",
        [BitMap64([1, 5, 9, 2**33]), BitMap64(range(100, 9000)), BitMap64(range(0, 20_000, 3))],
        ids=["array", "run", "bitset"],
    )
    def test_flips_of_bytes_without_a_checksum_never_crash(self, bitmap: BitMap64):
        """Inline vectors have no CRC: a flip is an error, or a set of the same cardinality."""
        data, chance = encode_bitmap(bitmap), random.Random(7)
        for _ in range(2000):
            changed = bytearray(data)
            for _ in range(chance.choice([1, 1, 2, 4])):
                changed[chance.randrange(min(len(data), 200))] = chance.randrange(256)
            try:
                found = read_deletion_vector(inline(bytes(changed), len(bitmap)), no_file)
            except CorruptDeletionVectorError:
                continue
            assert len(found) == len(found.to_array()) == len(bitmap)

    def test_bad_structure_behind_a_good_checksum_is_refused(self):
        data = bytearray(encode_bitmap(BitMap64([0])))
        data[26] = 9
        content = b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        with pytest.raises(CorruptDeletionVectorError):
            read_deletion_vector(in_file(size_in_bytes=len(data)), reader_of(content))


class TestKeepMask:
    @given(rows, st.integers(0, 20_000), st.integers(0, 20_000))
    @settings(max_examples=60, deadline=None)
    def test_mask_is_false_just_at_deleted_rows(self, values: set[int], start: int, length: int):
        mask = keep_mask(BitMap64(values), start, length)
        assert len(mask) == length
        deleted = start + np.flatnonzero(~np.array(mask.to_pylist(), bool))
        assert set(deleted.tolist()) == {value for value in values if start <= value < start + length}

    def test_window_above_four_billion_rows_is_masked(self):
        assert keep_mask(BitMap64([2**32 + 1]), 2**32, 3).to_pylist() == [True, False, True]


def test_vectors_of_real_tables_have_the_rows_their_logs_say(delta_tables: Any):
    """Every add with a deletion vector in the corpus whose file is there."""
    seen = 0
    for log in sorted(delta_tables.tables.glob("*/_delta_log/*.json")):
        root = log.parent.parent

        def read_range(path: str, offset: int, length: int, root: Path = root) -> bytes:
            return (root / unquote(path)).read_bytes()[offset : offset + length]

        for descriptor in descriptors_of(log):
            if descriptor.storage_type == "i" or (root / unquote(dv_file_path(descriptor))).exists():
                assert len(read_deletion_vector(descriptor, read_range)) == descriptor.cardinality
                seen += 1
    assert seen > 50


def descriptors_of(log: Path) -> list[DeletionVectorDescriptor]:
    found: list[DeletionVectorDescriptor] = []
    for line in log.read_bytes().splitlines():
        if b'"deletionVector":{' not in line or not line.startswith(b'{"add"'):
            continue
        vector = msgspec.json.decode(line)["add"]["deletionVector"]
        found.append(msgspec.convert(vector, DeletionVectorDescriptor))
    return found
