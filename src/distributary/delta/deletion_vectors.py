"""Deletion vectors: the rows of a data file that no longer count.

A deletion vector is a set of physical row indexes of one data file (counted over all its row
groups), kept as a 64-bit Roaring bitmap: inside the descriptor (``i``), or in a file named by a UUID
(``u``) or by an absolute URI (``p``). This is the "Deletion Vectors" part of the Delta protocol:
descriptor, Z85 text, file framing (big-endian size and CRC-32 around each bitmap) and the
little-endian bitmap forms, of which the portable one is read and written and the old native one only
read.

Guarantees: bytes are checked in full before a native library sees them: size, magic number, checksum,
the structure of every container, and the cardinality that the log gives. Anything wrong is a
CorruptDeletionVectorError, and no length inside the bytes is trusted for an allocation.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, TypeAlias, cast
from urllib.parse import quote
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from distributary.delta.errors import CorruptDeletionVectorError

FILE_VERSION = 1
PORTABLE_MAGIC = 1681511377
NATIVE_MAGIC = 1681511376

ReadRange: TypeAlias = Callable[[str, int, int], bytes]

_Z85_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_DIGITS = np.frombuffer(_Z85_ALPHABET, np.uint8)
_Z85_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], np.uint64)
_NOT_Z85, _MAX_WORD = 255, 0xFFFFFFFF
_Z85_VALUES = np.full(256, _NOT_Z85, np.uint8)
_Z85_VALUES[_Z85_DIGITS] = np.arange(85, dtype=np.uint8)
_UUID_TEXT_LENGTH = 20

_RUN_COOKIE = 12347
_PLAIN_COOKIE = 12346
_ARRAY_CONTAINER_LIMIT = 4096
_BITSET_BYTES = 8192
_OFFSETS_WITH_RUNS_FROM = 4
_MAX_SIZE = 2**31 - 1
# A row costs at most 26 bytes (alone in its bucket, as a run), so a size far beyond that is a lie.
_MAX_BYTES_PER_ROW = 64
_SIZE_SLACK = 1 << 20


class DeletionVectorDescriptor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a deletion vector is and how many rows it deletes, as in ``add.deletionVector``."""

    storage_type: str
    path_or_inline_dv: str
    offset: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    size_in_bytes: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
    cardinality: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

    @property
    def unique_id(self) -> str:
        """The second half of a logical file's key; the same vector always has the same id."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{at}"


def z85_encode(data: bytes) -> str:
    """Text of bytes whose length is a multiple of four."""
    if len(data) % 4:
        raise ValueError("Z85 needs a multiple of 4 bytes")
    words = np.frombuffer(data, ">u4").astype(np.uint64)
    digits = words[:, None] // _Z85_POWERS % np.uint64(85)
    return _Z85_DIGITS[digits].tobytes().decode("ascii")


def z85_decode(text: str) -> bytes:
    """Bytes of a Z85 text; raises CorruptDeletionVectorError when it is not one.

    Some writers do not pad the bytes but the text: a last group that starts with n ``#`` (no 32-bit
    number does) holds 4 - n bytes.
    """
    values = _Z85_VALUES[np.frombuffer(text.encode("utf-8"), np.uint8)]
    if len(values) % 5 or (values == _NOT_Z85).any():
        raise CorruptDeletionVectorError(f"not Z85 text: {_shown(text)}")
    padding = len(text[-5:]) - len(text[-5:].lstrip("#"))
    values[len(values) - 5 : len(values) - 5 + padding] = 0
    words = values.reshape(-1, 5).astype(np.uint64) @ _Z85_POWERS
    if (words > _MAX_WORD).any() or padding > 3 or (padding and int(words[-1]) >= 1 << 8 * (4 - padding)):
        raise CorruptDeletionVectorError(f"Z85 text with a group over 32 bits: {_shown(text)}")
    data = words.astype(">u4").tobytes()
    return data[:-4] + data[len(data) - 4 + padding :] if padding else data


def dv_file_path(descriptor: DeletionVectorDescriptor) -> str:
    """Log path (a URI reference) of the file that holds a vector, relative to the table or absolute."""
    text = descriptor.path_or_inline_dv
    if descriptor.storage_type == "p":
        return text
    if descriptor.storage_type != "u":
        raise _corrupt(descriptor, "has no file: its storage type is neither 'u' nor 'p'")
    if len(text) < _UUID_TEXT_LENGTH:
        raise _corrupt(descriptor, "names no UUID: its text is shorter than 20 characters")
    prefix, identity = text[:-_UUID_TEXT_LENGTH], UUID(bytes=z85_decode(text[-_UUID_TEXT_LENGTH:]))
    directory = f"{quote(prefix, safe='/')}/" if prefix else ""
    return f"{directory}deletion_vector_{identity}.bin"


def read_deletion_vector(descriptor: DeletionVectorDescriptor, read_range: ReadRange) -> BitMap64:
    """The deleted rows; ``read_range(log path, offset, length)`` gives bytes of vector files."""
    _check_sizes(descriptor)
    if descriptor.storage_type == "i":
        data = _inline_bytes(descriptor)
    else:
        data = _stored_bytes(descriptor, read_range)
    try:
        bitmap = decode_bitmap(data)
    except CorruptDeletionVectorError as error:
        raise _corrupt(descriptor, str(error)) from error
    if len(bitmap) != descriptor.cardinality:
        raise _corrupt(descriptor, f"deletes {len(bitmap)} rows, the log says {descriptor.cardinality}")
    return bitmap


def inline_descriptor(bitmap: BitMap64) -> DeletionVectorDescriptor:
    """A descriptor that carries a (small) vector itself."""
    data = encode_bitmap(bitmap)
    text = z85_encode(data + bytes(-len(data) % 4))
    return DeletionVectorDescriptor(
        storage_type="i", path_or_inline_dv=text, size_in_bytes=len(data), cardinality=len(bitmap)
    )


def file_descriptor(
    bitmap: BitMap64, identity: UUID, offset: int, prefix: str = ""
) -> DeletionVectorDescriptor:
    """A descriptor of a vector at an offset of the file ``deletion_vector_<identity>.bin``."""
    return DeletionVectorDescriptor(
        storage_type="u",
        path_or_inline_dv=prefix + z85_encode(identity.bytes),
        offset=offset,
        size_in_bytes=len(encode_bitmap(bitmap)),
        cardinality=len(bitmap),
    )


def write_deletion_vector_file(bitmaps: Iterable[BitMap64]) -> tuple[bytes, list[int]]:
    """Content of a vector file and the offset of each vector in it."""
    content = bytearray([FILE_VERSION])
    offsets: list[int] = []
    for bitmap in bitmaps:
        data = encode_bitmap(bitmap)
        offsets.append(len(content))
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return bytes(content), offsets


def encode_bitmap(bitmap: BitMap64) -> bytes:
    """Portable form: magic number, bucket count, then key and 32-bit bitmap of each bucket."""
    compact = bitmap.copy()
    compact.run_optimize()
    return struct.pack("<I", PORTABLE_MAGIC) + compact.serialize()


def decode_bitmap(data: bytes) -> BitMap64:
    """The set in a bitmap of either form; raises CorruptDeletionVectorError for anything else."""
    magic = _unpack("<I", data, 0)
    if magic == PORTABLE_MAGIC:
        buckets = list(_portable_buckets(data))
    elif magic == NATIVE_MAGIC:
        buckets = list(_native_buckets(data))
    else:
        raise CorruptDeletionVectorError(f"unknown magic number {magic}")
    filled = [struct.pack("<I", key) + bitmap for key, bitmap in buckets if len(bitmap) > 8]
    try:
        return BitMap64.deserialize(struct.pack("<Q", len(filled)) + b"".join(filled))
    except ValueError as error:
        raise CorruptDeletionVectorError("the bitmap does not decode") from error


def keep_mask(bitmap: BitMap64, start: int, length: int) -> pa.BooleanArray:
    """True for each row of ``[start, start + length)`` that is not deleted."""
    keep = np.ones(length, np.bool_)
    if length and bitmap.range_cardinality(start, start + length):
        window = BitMap64()
        window.add_range(start, start + length)
        deleted = np.frombuffer((bitmap & window).to_array(), np.uint64)
        keep[(deleted - np.uint64(start)).astype(np.intp)] = False
    # From buffers, since pa.array(ndarray) imports pandas where it is installed.
    bits = pa.py_buffer(np.packbits(keep, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.bool_(), length, [None, bits])


def _check_sizes(descriptor: DeletionVectorDescriptor) -> None:
    size, rows = descriptor.size_in_bytes, descriptor.cardinality
    if not 0 <= size <= _MAX_SIZE or rows < 0 or (descriptor.offset or 0) < 0:
        raise _corrupt(descriptor, "has an impossible size, offset or cardinality")
    if size > _MAX_BYTES_PER_ROW * rows + _SIZE_SLACK:
        raise _corrupt(descriptor, f"takes {size} bytes for {rows} rows, more than any bitmap needs")


def _inline_bytes(descriptor: DeletionVectorDescriptor) -> bytes:
    data = z85_decode(descriptor.path_or_inline_dv)
    if not 0 <= len(data) - descriptor.size_in_bytes < 4:
        raise _corrupt(descriptor, f"holds {len(data)} bytes, the log says {descriptor.size_in_bytes}")
    return data[: descriptor.size_in_bytes]


def _stored_bytes(descriptor: DeletionVectorDescriptor, read_range: ReadRange) -> bytes:
    """Bytes of one framed bitmap; byte 0 of a file is its version, so no offset means the first vector."""
    path, size = dv_file_path(descriptor), descriptor.size_in_bytes
    offset = 1 if descriptor.offset is None else descriptor.offset
    skipped = 1 if offset == 1 else 0
    content = read_range(path, offset - skipped, skipped + size + 8)
    if len(content) != skipped + size + 8:
        raise _corrupt(descriptor, f"ends early: {len(content)} of {skipped + size + 8} bytes in {path}")
    if skipped and content[0] != FILE_VERSION:
        raise _corrupt(descriptor, f"is in {path} of unknown version {content[0]}")
    frame = content[skipped:]
    stored_size, checksum = _unpack(">I", frame, 0), _unpack(">I", frame, size + 4)
    if stored_size != size:
        raise _corrupt(descriptor, f"has {stored_size} bytes in {path}, the log says {size}")
    data = frame[4:-4]
    if zlib.crc32(data) != checksum:
        raise _corrupt(descriptor, f"does not match its checksum in {path}")
    return data


def _portable_buckets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Key and checked 32-bit bitmap of each bucket of the portable form."""
    count, position, last_key = _unpack("<Q", data, 4), 12, -1
    for _ in range(min(count, len(data))):
        key = _unpack("<I", data, position)
        if not last_key < key < 2**31:
            raise CorruptDeletionVectorError("bucket keys are not ascending 31-bit numbers")
        end = _bitmap_end(data, position + 4)
        yield key, data[position + 4 : end]
        position, last_key = end, key
    if position != len(data):
        raise CorruptDeletionVectorError(f"{len(data) - position} bytes follow the last bucket")


def _native_buckets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Key and checked 32-bit bitmap of each bucket of the native form, where the key is the index."""
    count, position = _unpack("<I", data, 4), 8
    for key in range(min(count, len(data))):
        length = _unpack("<I", data, position)
        end = _bitmap_end(data, position + 4)
        if end != position + 4 + length:
            raise CorruptDeletionVectorError("a bucket's length does not match its bitmap")
        yield key, data[position + 4 : end]
        position = end
    if position != len(data):
        raise CorruptDeletionVectorError(f"{len(data) - position} bytes follow the last bucket")


def _bitmap_end(data: bytes, position: int) -> int:
    """Position after a 32-bit Roaring bitmap, all of whose containers have been checked."""
    cookie = _unpack("<I", data, position)
    if cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        flags = _numbers(data, position + 4, (count + 7) // 8, "u1")
        is_run = np.unpackbits(flags.astype(np.uint8), bitorder="little")[:count].tolist()
        position += 4 + len(flags)
        has_offsets = count >= _OFFSETS_WITH_RUNS_FROM
    elif cookie == _PLAIN_COOKIE:
        count = _unpack("<I", data, position + 4)
        position += 8
        is_run, has_offsets = [0] * min(count, 65536), True
    else:
        raise CorruptDeletionVectorError(f"unknown bitmap cookie {cookie}")
    if count > 65536:
        raise CorruptDeletionVectorError(f"a bitmap of {count} containers")
    header = _numbers(data, position, 2 * count, "<u2").reshape(-1, 2).astype(np.int64)
    if not _ascending(header[:, 0]):
        raise CorruptDeletionVectorError("container keys are not ascending")
    position += 4 * count + (4 * count if has_offsets else 0)
    return _containers_end(data, position, is_run, (header[:, 1] + 1).tolist())


def _containers_end(data: bytes, position: int, is_run: Sequence[int], sizes: Sequence[int]) -> int:
    """Position after the containers; each must hold just as many distinct rows as its header says."""
    for run, size in zip(is_run, sizes, strict=True):
        if run:
            found, position = _run_container(data, position)
        elif size <= _ARRAY_CONTAINER_LIMIT:
            found, position = _array_container(data, position, size)
        else:
            bits = _numbers(data, position, _BITSET_BYTES, "u1")
            found, position = int(np.unpackbits(bits.astype(np.uint8)).sum()), position + _BITSET_BYTES
        if found != size:
            raise CorruptDeletionVectorError(f"a container holds {found} rows, its header says {size}")
    return position


def _array_container(data: bytes, position: int, size: int) -> tuple[int, int]:
    if not _ascending(_numbers(data, position, size, "<u2").astype(np.int64)):
        raise CorruptDeletionVectorError("rows of an array container are not ascending")
    return size, position + 2 * size


def _run_container(data: bytes, position: int) -> tuple[int, int]:
    count = _unpack("<H", data, position)
    runs = _numbers(data, position + 2, 2 * count, "<u2").reshape(-1, 2).astype(np.int64)
    starts, ends = runs[:, 0], runs[:, 0] + runs[:, 1]
    if (ends > 0xFFFF).any() or (starts[1:] <= ends[:-1]).any():
        raise CorruptDeletionVectorError("runs overlap or leave their container")
    return int((ends - starts + 1).sum()), position + 2 + 4 * count


def _ascending(values: npt.NDArray[np.int64]) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _numbers(data: bytes, position: int, count: int, kind: str) -> npt.NDArray[np.generic]:
    if position + count * np.dtype(kind).itemsize > len(data):
        raise CorruptDeletionVectorError("the bitmap ends early")
    return np.frombuffer(data, kind, count, position)


def _unpack(form: str, data: bytes, position: int) -> int:
    if position + struct.calcsize(form) > len(data):
        raise CorruptDeletionVectorError("the bitmap ends early")
    return cast(int, struct.unpack_from(form, data, position)[0])


def _corrupt(descriptor: DeletionVectorDescriptor, what: str) -> CorruptDeletionVectorError:
    return CorruptDeletionVectorError(
        f"deletion vector {_shown(descriptor.unique_id)} {what}; "
        "restore the file from a copy, or read a version of the table before it"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
