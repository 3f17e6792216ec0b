"""Storage options: how a user says endpoint, region, credentials and limits of a cloud store.

Names are obstore's (``access_key_id``, ``endpoint``), with or without the cloud's prefix and in any
case (``AWS_ACCESS_KEY_ID``, ``azure_storage_account_name``). What the caller does not give is taken from
environment variables of the prefixed names. A name that no store knows is refused with a suggestion;
prefixed options of another cloud are ignored, so that one set can serve tables on several.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from distributary.errors import InvalidInputError

_CLIENT = [
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
]
_OWN = ("max_concurrency", "sharing_role_arn", "sts_endpoint")
_BOOLEANS = frozenset(
    [
        "allow_http",
        "allow_invalid_certificates",
        "http1_only",
        "http2_only",
        "virtual_hosted_style_request",
        "skip_signature",
        "imdsv1_fallback",
        "unsigned_payload",
        "s3_express",
        "request_payer",
        "disable_tagging",
        "sse_bucket_key_enabled",
        "disable_bulk_delete",
        "use_emulator",
        "use_fabric_endpoint",
        "use_azure_cli",
    ]
)

_SECRET = re.compile(
    r"secret|password|token$|sas|account_key|private_key|service_account_key|customer_key|bearer"
)


@dataclass(frozen=True, slots=True)
class Cloud:
    """The options of one cloud: its prefixes, its names, and further spellings of them."""

    title: str
    prefixes: tuple[str, ...]
    names: tuple[str, ...]
    spellings: Mapping[str, str]

    def option(self, name: str) -> str | None:
        """Our name of an option as a user wrote it, or None."""
        written = name.lower()
        for bare in (written, *self._unprefixed(written)):
            known = self.spellings.get(bare, bare)
            if known in self.names or known in _CLIENT or known in _OWN:
                return known
        return None

    def is_prefixed(self, name: str) -> bool:
        """Whether a name can only be meant for this cloud."""
        return bool(self._unprefixed(name.lower())) and self.option(name) is not None

    def _unprefixed(self, name: str) -> list[str]:
        return [name[len(prefix) :] for prefix in self.prefixes if name.startswith(prefix)]


AWS = Cloud(
    "S3",
    ("aws_",),
    (
        "access_key_id",
        "secret_access_key",
        "session_token",
        "profile",
        "region",
        "endpoint",
        "virtual_hosted_style_request",
        "skip_signature",
        "checksum_algorithm",
        "conditional_put",
        "container_credentials_relative_uri",
        "container_credentials_full_uri",
        "container_authorization_token_file",
        "disable_tagging",
        "disable_bulk_delete",
        "imdsv1_fallback",
        "metadata_endpoint",
        "request_payer",
        "role_arn",
        "role_session_name",
        "s3_express",
        "server_side_encryption",
        "sse_bucket_key_enabled",
        "sse_customer_key_base64",
        "sse_kms_key_id",
        "sts_endpoint",
        "unsigned_payload",
        "web_identity_token_file",
    ),
    {
        "token": "session_token",
        "default_region": "region",
        "region_name": "region",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "profile_name": "profile",
        "requester_pays": "request_payer",
    },
)
AZURE = Cloud(
    "Azure",
    ("azure_storage_", "azure_"),
    (
        "account_name",
        "account_key",
        "client_id",
        "client_secret",
        "credential_type",
        "tenant_id",
        "authority_host",
        "sas_key",
        "token",
        "use_emulator",
        "use_fabric_endpoint",
        "encryption_key",
        "endpoint",
        "msi_endpoint",
        "object_id",
        "msi_resource_id",
        "federated_token_file",
        "use_azure_cli",
        "skip_signature",
        "disable_tagging",
        "fabric_token_service_url",
        "fabric_workload_host",
        "fabric_session_token",
        "fabric_cluster_identifier",
    ),
    {
        "access_key": "account_key",
        "master_key": "account_key",
        "sas_token": "sas_key",
        "bearer_token": "token",
        "authority_id": "tenant_id",
        "identity_endpoint": "msi_endpoint",
        "endpoint_url": "endpoint",
    },
)
GOOGLE = Cloud(
    "GCS",
    ("google_",),
    (
        "service_account",
        "service_account_key",
        "base_url",
        "bearer_token",
        "application_credentials",
        "skip_signature",
    ),
    {
        "service_account_path": "service_account",
        "endpoint": "base_url",
        "endpoint_url": "base_url",
        "token": "bearer_token",
    },
)
CLOUDS: Mapping[str, Cloud] = {"s3": AWS, "abfss": AZURE, "az": AZURE, "gs": GOOGLE}
# A caller who gives one of these means that identity: the environment's are then not mixed in.
IDENTITY = frozenset(
    [
        "access_key_id",
        "secret_access_key",
        "session_token",
        "profile",
        "skip_signature",
        "role_arn",
        "web_identity_token_file",
        "account_key",
        "client_id",
        "client_secret",
        "sas_key",
        "token",
        "federated_token_file",
        "use_azure_cli",
        "tenant_id",
        "service_account",
        "service_account_key",
        "bearer_token",
        "application_credentials",
    ]
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The options that hold for one store: by our names, not shown in any text."""

    values: Mapping[str, str] = field(repr=False)

    def get(self, name: str) -> str | None:
        """The text of an option, or None."""
        return self.values.get(name)

    def flag(self, name: str) -> bool:
        """Whether a boolean option is set to a true value."""
        return _boolean(name, self.values.get(name, "false"))

    @property
    def max_concurrency(self) -> int:
        """How many requests may be under way at the same time."""
        text = self.values.get("max_concurrency", "32")
        if not text.isdecimal() or not 1 <= int(text) <= 1024:
            raise InvalidInputError(f"max_concurrency must be a number from 1 to 1024, not {text!r}")
        return int(text)

    def client(self) -> dict[str, Any]:
        """The options of the HTTP client, its time limits short enough to notice a dead endpoint."""
        chosen = {name: self._typed(name) for name in _CLIENT if name in self.values}
        return {"connect_timeout": "3s", "timeout": "60s", **chosen}

    def config(self, names: Iterable[str]) -> dict[str, Any]:
        """The named options of the cloud, in obstore's types."""
        return {name: self._typed(name) for name in names if name in self.values}

    def _typed(self, name: str) -> str | bool:
        return _boolean(name, self.values[name]) if name in _BOOLEANS else self.values[name]


def read_options(
    cloud: Cloud, given: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> StorageOptions:
    """The options of a store: what the caller gave, then what the environment says."""
    chosen: dict[str, str] = {}
    for name, value in given.items():
        known = cloud.option(name)
        if known is not None:
            chosen[known] = str(value)
        elif not any(other.is_prefixed(name) for other in CLOUDS.values()):
            raise _unknown(name, [cloud])
    own_identity = any(name in IDENTITY for name in chosen)
    for name, value in (os.environ if environment is None else environment).items():
        known = cloud.option(name) if name.lower().startswith(cloud.prefixes) else None
        if known is not None and not (own_identity and known in IDENTITY):
            chosen.setdefault(known, value)
    return StorageOptions(chosen)


def check_options(given: Mapping[str, str]) -> None:
    """Refuse option names that no store knows; a store without options ignores the others."""
    for name in given:
        if not any(cloud.option(name) for cloud in CLOUDS.values()):
            raise _unknown(name, CLOUDS.values())


def allow_plain_http(options: StorageOptions, endpoint: str | None) -> bool:
    """Whether requests may go without TLS: when asked for, or to this machine itself."""
    if endpoint is None or not endpoint.lower().startswith("http://"):
        return options.flag("allow_http")
    if options.flag("allow_http") or urlsplit(endpoint).hostname in _LOOPBACK:
        return True
    raise InvalidInputError(
        f"The endpoint {urlsplit(endpoint).hostname} is plain http: use https, or set allow_http=true "
        "where the network is trusted"
    )


def _boolean(name: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("true", "1", "yes", "on", "requester"):
        return True
    if lowered in ("false", "0", "no", "off", ""):
        return False
    raise InvalidInputError(f"The storage option {name} must be true or false")


def _unknown(name: str, clouds: Iterable[Cloud]) -> InvalidInputError:
    """The refusal of an unknown name, with the nearest known one."""
    known = {name: None for cloud in clouds for name in (*cloud.names, *cloud.spellings, *_CLIENT, *_OWN)}
    prefixes = [prefix for cloud in clouds for prefix in cloud.prefixes if name.lower().startswith(prefix)]
    prefix = max(prefixes, key=len, default="")
    near = difflib.get_close_matches(name.lower()[len(prefix) :], known, n=1, cutoff=0.6)
    spelled = prefix + near[0] if near else ""
    hint = (
        f"did you mean {spelled.upper() if name.isupper() else spelled!r}?"
        if near
        else "see the storage docs"
    )
    return InvalidInputError(f"Unknown storage option {name!r}: {hint}")


def is_secret_option(name: str) -> bool:
    """Whether the value of an option must not be shown, nor stand on a command line."""
    return _SECRET.search(name.lower()) is not None
