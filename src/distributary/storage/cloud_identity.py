"""Who we are to a cloud: keys from the options, a profile, or the identity of this machine.

Each function gives obstore a credential provider, or None where obstore shall look by itself. Providers
are asked again before credentials expire. Secrets live in closures and are in no text.

The libraries of the identities are extras: botocore (``aws``), azure-identity (``azure``) and
google-auth (``gcs``).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from distributary.errors import AccessDeniedError, InvalidInputError, MissingExtraError
from distributary.storage.storage_options import StorageOptions

CredentialProvider = Callable[[], Any]


@dataclass(frozen=True, slots=True, repr=False)
class AwsKeys:
    """Keys that sign requests, and when they end (None: never, or nobody knows)."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"AwsKeys(expires_at={self.expires_at})"


KeySource = Callable[[], AwsKeys]

# botocore refreshes credentials that have less than ten minutes left, whenever it is asked.
_ASK_AGAIN = timedelta(minutes=5)
_AZURE_KEYS = ("account_key", "sas_key", "token", "client_secret", "federated_token_file", "msi_endpoint")
_AZURE_CHOICES = ("use_azure_cli", "use_emulator", "skip_signature", "use_fabric_endpoint")
_GOOGLE_KEYS = ("service_account", "service_account_key", "bearer_token", "application_credentials")
_GOOGLE_DEFAULT = ".config/gcloud/application_default_credentials.json"


def aws_keys(options: StorageOptions) -> KeySource | None:
    """Keys of the options or environment, else a profile or the machine's identity through botocore."""
    if options.flag("skip_signature"):
        return None
    if options.get("access_key_id") or options.get("secret_access_key"):
        return _static_keys(options)
    session = botocore_session(options.get("profile"))
    credentials = None if session is None else session.get_credentials()
    if credentials is None and options.get("profile"):
        raise InvalidInputError(f"The AWS profile {options.get('profile')!r} has no credentials")
    return None if credentials is None else _from_botocore(credentials)


def aws_identity(keys: KeySource | None) -> CredentialProvider | None:
    """The same keys for obstore, which is made to ask again every few minutes where they can end."""
    if keys is None:
        return None

    def provide() -> dict[str, Any]:
        found = keys()
        return {
            "access_key_id": found.access_key_id,
            "secret_access_key": found.secret_access_key,
            "token": found.session_token,
            "expires_at": None if found.expires_at is None else datetime.now(UTC) + _ASK_AGAIN,
        }

    return provide


def botocore_session(profile: str | None) -> Any | None:
    """A session of botocore for a profile, or None where botocore is missing and nobody asked for one."""
    try:
        import botocore.session
        from botocore.exceptions import ProfileNotFound
    except ImportError:
        if profile:
            raise MissingExtraError("aws", f"The AWS profile {profile!r}") from None
        return None
    session = botocore.session.Session(profile=profile)
    try:
        session.get_scoped_config()
    except ProfileNotFound:
        raise InvalidInputError(
            f"There is no AWS profile {profile!r}: see `aws configure list-profiles`"
        ) from None
    return session


def azure_identity(options: StorageOptions) -> CredentialProvider | None:
    """None where the options hold a credential, else the machine's identity through azure-identity."""
    if any(options.get(name) for name in _AZURE_KEYS) or any(options.flag(name) for name in _AZURE_CHOICES):
        return None
    if importlib.util.find_spec("azure") is None or importlib.util.find_spec("azure.identity") is None:
        raise MissingExtraError("azure", "Azure without account_key, sas_token or another credential")
    from obstore.auth.azure import AzureCredentialProvider

    return AzureCredentialProvider()


def google_identity(options: StorageOptions) -> CredentialProvider | None:
    """None where obstore can find a credential, else the machine's identity through google-auth."""
    given = any(options.get(name) for name in _GOOGLE_KEYS) or options.flag("skip_signature")
    if given or (Path.home() / _GOOGLE_DEFAULT).exists():
        return None
    if importlib.util.find_spec("google") is None or importlib.util.find_spec("google.auth") is None:
        raise MissingExtraError("gcs", "GCS without a service account or another credential")
    from google.auth.exceptions import DefaultCredentialsError
    from obstore.auth.google import GoogleCredentialProvider

    try:
        return GoogleCredentialProvider()
    except DefaultCredentialsError:
        raise AccessDeniedError(
            "No Google credentials were found: set service_account, or run "
            "`gcloud auth application-default login`"
        ) from None


def _static_keys(options: StorageOptions) -> KeySource:
    key, secret = options.get("access_key_id"), options.get("secret_access_key")
    if not key or not secret:
        raise InvalidInputError("access_key_id and secret_access_key belong together: one of them is missing")
    keys = AwsKeys(key, secret, options.get("session_token") or None)
    return lambda: keys


def _from_botocore(credentials: Any) -> KeySource:
    """Keys of botocore, which refreshes what is about to expire whenever it is asked."""

    def provide() -> AwsKeys:
        frozen = credentials.get_frozen_credentials()
        # Only credentials that botocore can refresh know when they end, and under this name alone.
        ends: datetime | None = getattr(credentials, "_expiry_time", None)
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or None, ends)

    return provide
