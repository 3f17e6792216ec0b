"""Pre-signed URLs: links by which anybody who has them reads one object of a store for a while.

`url_signer` gives the signer of a table's store; it signs many paths at once and says when the URLs end,
which is never after the credential that signed them. S3 URLs are made here (Signature Version 4 in the
query, checked against botocore byte for byte): the parts that are the same for all are hashed once, so that
a URL costs a microsecond or two. Azure and GCS URLs are made by obstore.

Paths come in their canonical form (`log_paths`); one that leaves the table's roots is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from binascii import hexlify
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import obstore
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import AccessDeniedError, InvalidInputError
from distributary.storage.base_store import ObjectStore
from distributary.storage.cloud import CloudStore
from distributary.storage.cloud_errors import typed_error
from distributary.storage.cloud_identity import AwsKeys
from distributary.storage.log_paths import resolve_canonical

DEFAULT_LIFETIME = timedelta(hours=1)
LONGEST_LIFETIME = timedelta(days=7)

_ALGORITHM = "AWS4-HMAC-SHA256"
_NEEDS_QUOTING = r"[^A-Za-z0-9._~/=-]"
_LEAVES_ROOT = r"://|\\|\x00"
# Arrow compiles a pattern at every call, which costs more than a few keys do.
_FEW_KEYS = 64
_needs_quoting = re.compile(_NEEDS_QUOTING).search
_leaves_root = re.compile(_LEAVES_ROOT).search
_BLOCK = 64
_INNER = bytes(value ^ 0x36 for value in range(256))
_OUTER = bytes(value ^ 0x5C for value in range(256))
# Clocks differ: a URL that would end with its credential ends a little before.
_MARGIN = 5

Now = Callable[[], float]


class PreSignedUrl(msgspec.Struct, frozen=True):
    """A URL and the time at which it ends, in milliseconds since 1970."""

    url: str
    expiration: int

    def __repr__(self) -> str:
        return f"PreSignedUrl({urlsplit(self.url).path!r}, expiration={self.expiration})"


class UrlSigner(Protocol):
    """Makes URLs of objects of one store."""

    def sign(self, paths: pa.Array) -> tuple[pa.Array, int]:
        """A URL for each canonical path, and when the first of them ends (milliseconds since 1970)."""
        ...


def url_signer(store: ObjectStore, lifetime: timedelta = DEFAULT_LIFETIME, now: Now = time.time) -> UrlSigner:
    """The signer of a store on a cloud; its URLs are of one moment, so take a new one for each answer."""
    if not isinstance(store, CloudStore):
        raise InvalidInputError(f"{store.root} is on no cloud that could sign URLs")
    if not timedelta(0) < lifetime <= LONGEST_LIFETIME:
        raise InvalidInputError("URLs can live for at most seven days")
    return StoreSigner(store, lifetime, now)


def sign_one(store: ObjectStore, path: str, lifetime: timedelta = DEFAULT_LIFETIME) -> PreSignedUrl:
    """The URL of one object, by its canonical path."""
    urls, expiration = url_signer(store, lifetime).sign(pa.array([path], pa.string()))
    return PreSignedUrl(urls[0].as_py(), expiration)


class StoreSigner:
    """Signs paths of a table: most lie below its root, some perhaps below a root it is allowed."""

    def __init__(self, store: CloudStore, lifetime: timedelta, now: Now) -> None:
        self._store = store
        self._lifetime = lifetime
        self._now = now
        self._signers: dict[str, _RootSigner] = {}

    def sign(self, paths: pa.Array) -> tuple[pa.Array, int]:
        """A URL for each canonical path, and when the first of them ends."""
        signer = self._signer(self._store)
        if not _any_leaves_root(paths):
            return signer.sign(paths)
        urls, ends = zip(*(self._resolved(path) for path in paths.to_pylist()), strict=True)
        return pa.array(urls, pa.string()), min(ends)

    def _resolved(self, path: str) -> tuple[str, int]:
        where, key = resolve_canonical(self._store, path)
        if not isinstance(where, CloudStore):
            raise InvalidInputError(f"{where.root} is on no cloud that could sign URLs")
        urls, end = self._signer(where).sign(pa.array([key], pa.string()))
        return urls[0].as_py(), end

    def _signer(self, store: CloudStore) -> _RootSigner:
        known = self._signers.get(store.root)
        if known is None:
            known = self._signers[store.root] = _root_signer(store, self._lifetime, self._now)
        return known


def _any_leaves_root(paths: pa.Array) -> bool:
    if len(paths) <= _FEW_KEYS:
        return any(map(_leaves_root, paths.to_pylist()))
    return pc.match_substring_regex(paths, _LEAVES_ROOT).true_count > 0


class _RootSigner(Protocol):
    """Signs keys below one root."""

    def sign(self, keys: pa.Array) -> tuple[pa.Array, int]: ...


def _root_signer(store: CloudStore, lifetime: timedelta, now: Now) -> _RootSigner:
    if store.location.scheme == "s3" and store.keys is not None:
        return _signer_of_second(store, store.keys(), lifetime, int(now()))
    return _ObstoreSigner(store, lifetime, now)


_of_second: WeakKeyDictionary[CloudStore, tuple[AwsKeys, timedelta, int, SigV4Signer]] = WeakKeyDictionary()


def _signer_of_second(store: CloudStore, keys: AwsKeys, lifetime: timedelta, second: int) -> SigV4Signer:
    """The S3 signer of a moment, which all answers of the same second share: their URLs say no more of it."""
    known = _of_second.get(store)
    if known is not None and known[:3] == (keys, lifetime, second):
        return known[3]
    made = SigV4Signer.of(store, keys, lifetime, second)
    _of_second[store] = (keys, lifetime, second, made)
    return made


class _ObstoreSigner:
    """Signs through obstore, a URL at a time."""

    def __init__(self, store: CloudStore, lifetime: timedelta, now: Now) -> None:
        self._store = store
        self._lifetime = lifetime
        self._end = int((now() + lifetime.total_seconds()) * 1000)

    def sign(self, keys: pa.Array) -> tuple[pa.Array, int]:
        store = self._store
        paths = [store.object_key(key) for key in keys.to_pylist()]
        if not paths:
            return pa.array([], pa.string()), self._end
        try:
            urls: Sequence[str] = obstore.sign(store.client, "GET", paths, self._lifetime)
        except Exception as error:
            raise typed_error(error, store.root, paths[0]) from None
        return pa.array(urls, pa.string()), self._end


@dataclass(frozen=True, slots=True)
class S3Address:
    """Where the objects of a bucket are on the web: the URL before a key, and its parts that are signed."""

    scheme: str
    host: str
    path: str

    @classmethod
    def of(cls, bucket: str, region: str, endpoint: str | None, virtual_hosted: bool) -> S3Address:
        """The address as obstore and botocore write it."""
        if endpoint is None:
            host = f"s3.{region}.amazonaws.com"
            if virtual_hosted:
                return cls("https", f"{bucket}.{host}", "/")
            return cls("https", host, f"/{bucket}/")
        parts = urlsplit(endpoint)
        base = parts.path.rstrip("/")
        return cls(parts.scheme, parts.netloc, f"{base}/" if virtual_hosted else f"{base}/{bucket}/")


class SigV4Signer:
    """Signs keys of one bucket, with everything but the key hashed beforehand."""

    def __init__(
        self,
        address: S3Address,
        prefix: str,
        region: str,
        keys: AwsKeys,
        lifetime: timedelta,
        moment: float,
    ) -> None:
        signed_at = datetime.fromtimestamp(int(moment), UTC)
        seconds = _seconds(lifetime, keys.expires_at, signed_at)
        self._end = (int(moment) + seconds) * 1000
        stamp = f"{signed_at:%Y%m%dT%H%M%SZ}"
        scope = f"{stamp[:8]}/{region}/s3/aws4_request"
        path = address.path + quote(f"{prefix}/", safe="/~") if prefix else address.path
        parameters = _parameters(keys, scope, stamp, seconds)
        canonical = "&".join(f"{name}={value}" for name, value in sorted(parameters.items()))
        self._request = hashlib.sha256(f"GET\n{path}".encode())
        self._rest = f"\n{canonical}\nhost:{address.host}\n\nhost\nUNSIGNED-PAYLOAD".encode()
        self._inner, self._outer = keyed_hashes(_signing_key(keys.secret_access_key, scope))
        self._inner.update(f"{_ALGORITHM}\n{stamp}\n{scope}\n".encode())
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        self._before = f"{address.scheme}://{address.host}{path}"
        self._between = f"?{query}&X-Amz-Signature="

    @classmethod
    def of(cls, store: CloudStore, keys: AwsKeys, lifetime: timedelta, moment: float) -> SigV4Signer:
        """The signer of an S3 store."""
        config: dict[str, Any] = dict(store.client.config)
        region = str(config.get("region", "us-east-1"))
        virtual = str(config.get("virtual_hosted_style_request", "false")).lower() == "true"
        address = S3Address.of(store.location.authority, region, config.get("endpoint"), virtual)
        return cls(address, store.location.path, region, keys, lifetime, moment)

    def sign(self, keys: pa.Array) -> tuple[pa.Array, int]:
        """A URL for each key, and when they end."""
        if len(keys) <= _FEW_KEYS:
            return pa.array(self._few(keys.to_pylist()), pa.string()), self._end
        quoted = quoted_keys(keys)
        signatures = _hex_texts(self._signatures(quoted.cast(pa.binary()).to_pylist()))
        urls = pc.binary_join_element_wise(self._before, quoted, self._between, signatures, "")
        return urls, self._end

    def _few(self, keys: list[str]) -> list[str]:
        quoted = [_quoted(key) for key in keys]
        signatures = self._signatures([key.encode() for key in quoted])
        return [
            f"{self._before}{key}{self._between}{signature.hex()}"
            for key, signature in zip(quoted, signatures, strict=True)
        ]

    def _signatures(self, keys: list[bytes]) -> list[bytes]:
        request, inner, outer, rest = self._request.copy, self._inner.copy, self._outer.copy, self._rest
        found: list[bytes] = []
        for key in keys:
            whole = request()
            whole.update(key + rest)
            first = inner()
            first.update(hexlify(whole.digest()))
            second = outer()
            second.update(first.digest())
            found.append(second.digest())
        return found


def _hex_texts(digests: list[bytes]) -> pa.Array:
    """SHA-256 digests as texts, all made at once."""
    text = hexlify(b"".join(digests))
    offsets = np.arange(len(digests) + 1, dtype=np.int32) * _BLOCK
    return pa.StringArray.from_buffers(len(digests), pa.py_buffer(offsets), pa.py_buffer(text))


def _quoted(key: str) -> str:
    return quote(key, safe="/~") if _needs_quoting(key) else key.replace("=", "%3D")


def quoted_keys(keys: pa.Array) -> pa.Array:
    """Keys as they stand in a URL: all but letters, digits and ``-._~/`` escaped."""
    odd = pc.match_substring_regex(keys, _NEEDS_QUOTING)
    plain = pc.replace_substring(keys, "=", "%3D")
    if odd.true_count == 0:
        return plain
    careful = [quote(key, safe="/~") for key in keys.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(careful, pa.string()))


def _parameters(keys: AwsKeys, scope: str, stamp: str, seconds: int) -> dict[str, str]:
    """The query of a URL, values escaped, in the order in which AWS's own library writes them."""
    parameters = {
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": quote(f"{keys.access_key_id}/{scope}", safe="-_.~"),
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.session_token is not None:
        parameters["X-Amz-Security-Token"] = quote(keys.session_token, safe="-_.~")
    return parameters


def _seconds(lifetime: timedelta, expires_at: datetime | None, signed_at: datetime) -> int:
    """How long a URL lives: as long as asked for, but not longer than the credential that signs it."""
    seconds = int(lifetime.total_seconds())
    if expires_at is not None:
        seconds = min(seconds, int((expires_at - signed_at).total_seconds()) - _MARGIN)
    if seconds <= 0:
        raise AccessDeniedError("The credential that signs URLs has expired: renew it")
    return seconds


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def keyed_hashes(key: bytes) -> tuple[Any, Any]:
    """The two hashes of HMAC, each fed with its key, to be copied for every message."""
    padded = key.ljust(_BLOCK, b"\0")
    return hashlib.sha256(padded.translate(_INNER)), hashlib.sha256(padded.translate(_OUTER))
