"""The client of each cloud: from a root and its options to a store that can be asked.

S3: a custom endpoint gets path-style addresses and region us-east-1 unless told otherwise; region and
endpoint of an AWS profile count when no option says them. Azure: ``abfss://container@account…`` names
the account, ``az://container`` takes it from the options. GCS: ``endpoint`` is the base URL.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from distributary.errors import InvalidInputError
from distributary.storage.base_store import Reopen
from distributary.storage.cloud import CloudStore
from distributary.storage.cloud_identity import (
    KeySource,
    aws_identity,
    aws_keys,
    azure_identity,
    botocore_session,
    google_identity,
)
from distributary.storage.location import Location
from distributary.storage.storage_options import (
    AWS,
    AZURE,
    CLOUDS,
    GOOGLE,
    StorageOptions,
    allow_plain_http,
    read_options,
)

_NO_RETRIES: Any = {"max_retries": 0, "retry_timeout": datetime.timedelta(seconds=60)}
_AZURE_HOST = ".dfs.core.windows.net"
_KEYS = frozenset(("access_key_id", "secret_access_key", "session_token", "profile"))


def open_cloud(
    location: Location, given: Mapping[str, str], allowed_roots: Sequence[str], reopen: Reopen
) -> CloudStore:
    """The store of a root on S3, Azure or GCS."""
    if not location.authority:
        raise InvalidInputError(
            f"{location.scheme}:// names no bucket: write {location.scheme}://bucket/path"
        )
    client_of = {"s3": _s3, "gs": _gcs}.get(location.scheme, _azure)
    options = read_options(CLOUDS[location.scheme], given)
    keys = aws_keys(options) if location.scheme == "s3" else None
    settled, client = client_of(location, options, keys)
    return CloudStore(settled, client, options.max_concurrency, allowed_roots, reopen, keys)


def _s3(location: Location, options: StorageOptions, keys: KeySource | None) -> tuple[Location, S3Store]:
    config: Any = {name: value for name, value in options.config(AWS.names).items() if name not in _KEYS}
    for name, value in _of_profile(options).items():
        config.setdefault(name, value)
    config.setdefault("region", "us-east-1")
    config.setdefault("virtual_hosted_style_request", False)
    client = S3Store(
        location.authority,
        config=config,
        client_options=_client_options(options, config.get("endpoint")),
        retry_config=_NO_RETRIES,
        credential_provider=aws_identity(keys),
    )
    return location, client


def _of_profile(options: StorageOptions) -> dict[str, str]:
    """Region and endpoint as the AWS profile says them, where the options leave them open."""
    if not options.get("profile") and (options.get("endpoint") or options.get("region")):
        return {}
    session = botocore_session(options.get("profile"))
    if session is None:
        return {}
    scoped = session.get_scoped_config()
    found = {"region": scoped.get("region"), "endpoint": scoped.get("endpoint_url")}
    return {name: value for name, value in found.items() if value}


def _azure(location: Location, options: StorageOptions, _: KeySource | None) -> tuple[Location, AzureStore]:
    container, _at, host = location.authority.partition("@")
    account = host.partition(".")[0] or options.get("account_name")
    if options.flag("use_emulator"):
        account = account or "devstoreaccount1"
    if not account:
        raise InvalidInputError(
            f"{location.uri} names no storage account: write abfss://container@account{_AZURE_HOST}/path, "
            "or set the storage option account_name"
        )
    config: Any = {**options.config(AZURE.names), "account_name": account}
    client = AzureStore(
        container,
        config=config,
        client_options=_client_options(options, options.get("endpoint"), options.flag("use_emulator")),
        retry_config=_NO_RETRIES,
        credential_provider=azure_identity(options),
    )
    return Location("abfss", f"{container}@{host or account + _AZURE_HOST}", location.path), client


def _gcs(location: Location, options: StorageOptions, _: KeySource | None) -> tuple[Location, GCSStore]:
    config: Any = options.config(GOOGLE.names)
    client = GCSStore(
        location.authority,
        config=config,
        client_options=_client_options(options, options.get("base_url")),
        retry_config=_NO_RETRIES,
        credential_provider=google_identity(options),
    )
    return location, client


def _client_options(options: StorageOptions, endpoint: str | None, local: bool = False) -> Any:
    return {**options.client(), "allow_http": local or allow_plain_http(options, endpoint)}
