"""Temporary credentials: for a while, read the objects below one prefix, and nothing else.

For directory access (A7): S3 by STS AssumeRole of the role in the storage option ``sharing_role_arn``, with
a session policy that allows reading and listing below the prefix only; Azure by a shared access signature
for the directory, of the account key or of a user delegation key; GCS by a token down-scoped to the prefix.
A store that cannot do this is refused with a reason. The one module here that calls a cloud's own HTTP
API; secrets are in no text.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from distributary.errors import (
    AccessDeniedError,
    InvalidInputError,
    MissingExtraError,
    StorageError,
    StorageUnreachableError,
)
from distributary.storage.cloud_identity import AwsKeys, aws_keys, botocore_session
from distributary.storage.location import Location, parse_root
from distributary.storage.storage_options import AWS, AZURE, CLOUDS, GOOGLE, StorageOptions, read_options

SHORTEST_LIFETIME = timedelta(minutes=15)

_AZURE_VERSION = "2021-06-08"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_TIMEOUT = 20.0

Now = Callable[[], float]


class NoTemporaryCredentialsError(StorageError):
    """The store of a table cannot give credentials for a directory, or is not set up to."""

    code = "NO_TEMPORARY_CREDENTIALS"
    exit_code = 1


@dataclass(frozen=True, slots=True, repr=False)
class DirectoryCredentials:
    """Credentials of one kind for one location, until a time in milliseconds since 1970."""

    location: str
    expiration: int
    aws: AwsKeys | None = None
    azure_sas_token: str | None = None
    gcp_oauth_token: str | None = None

    def __repr__(self) -> str:
        return f"DirectoryCredentials({self.location!r}, expiration={self.expiration})"


def directory_credentials(
    location: str,
    storage_options: Mapping[str, str] | None = None,
    lifetime: timedelta = timedelta(hours=1),
    now: Now = time.time,
) -> DirectoryCredentials:
    """Credentials that read what lies below a location, and nothing else."""
    root = parse_root(location)
    if root.scheme not in CLOUDS:
        raise NoTemporaryCredentialsError(
            f"{root.scheme}:// has no credentials that could be lent: share the table by URLs"
        )
    if not root.path:
        raise NoTemporaryCredentialsError("A whole bucket is not lent: put the table below a prefix")
    options = read_options(CLOUDS[root.scheme], storage_options or {})
    if CLOUDS[root.scheme] is AWS:
        return _assumed_role(root, options, lifetime, now)
    if CLOUDS[root.scheme] is GOOGLE:
        return _downscoped_token(root, options, now)
    assert CLOUDS[root.scheme] is AZURE
    return _directory_sas(root, options, lifetime, now)


def session_policy(root: Location) -> dict[str, Any]:
    """The policy of an STS session: read below the prefix, list it, and nothing else."""
    bucket = f"arn:aws:s3:::{root.authority}"
    # In a policy these signs are patterns; as ${*} they are themselves.
    prefix = "".join(f"${{{sign}}}" if sign in "*?$" else sign for sign in root.path)
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{bucket}/{prefix}/*"]},
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [bucket],
                "Condition": {"StringLike": {"s3:prefix": [f"{prefix}/*", f"{prefix}/"]}},
            },
        ],
    }


def _assumed_role(
    root: Location, options: StorageOptions, lifetime: timedelta, now: Now
) -> DirectoryCredentials:
    role = options.get("sharing_role_arn")
    if not role:
        raise NoTemporaryCredentialsError(
            "Directory access on S3 needs the storage option sharing_role_arn: a role that may read the table"
        )
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = _sts_client(options).assume_role(
            RoleArn=role,
            RoleSessionName="distributary-sharing",
            Policy=json.dumps(session_policy(root), separators=(",", ":")),
            DurationSeconds=int(max(lifetime, SHORTEST_LIFETIME).total_seconds()),
        )
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        raise AccessDeniedError(f"The role for directory access was not given by STS ({code})") from None
    except BotoCoreError as error:
        raise StorageUnreachableError(f"STS does not answer ({type(error).__name__})") from None
    found = answer["Credentials"]
    keys = AwsKeys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], found["Expiration"])
    return DirectoryCredentials(root.uri, int(found["Expiration"].timestamp() * 1000), aws=keys)


def _sts_client(options: StorageOptions) -> Any:
    source = aws_keys(options)
    session = botocore_session(options.get("profile"))
    if session is None:
        raise MissingExtraError("aws", "Directory access on S3")
    from botocore.config import Config

    keys = None if source is None else source()
    return session.create_client(
        "sts",
        region_name=options.get("region") or "us-east-1",
        endpoint_url=options.get("sts_endpoint"),
        aws_access_key_id=None if keys is None else keys.access_key_id,
        aws_secret_access_key=None if keys is None else keys.secret_access_key,
        aws_session_token=None if keys is None else keys.session_token,
        config=Config(connect_timeout=5, read_timeout=_TIMEOUT, retries={"total_max_attempts": 2}),
    )


@dataclass(frozen=True, slots=True, repr=False)
class _DelegationKey:
    """A key that Azure gives to an identity, to sign for it."""

    fields: tuple[str, ...]
    value: str

    @property
    def parameters(self) -> dict[str, str]:
        return dict(zip(("skoid", "sktid", "skt", "ske", "sks", "skv"), self.fields, strict=True))


def _directory_sas(
    root: Location, options: StorageOptions, lifetime: timedelta, now: Now
) -> DirectoryCredentials:
    container, _, host = root.authority.partition("@")
    account = host.partition(".")[0] or options.get("account_name")
    if not account:
        raise InvalidInputError("Directory access on Azure needs the storage option account_name")
    begin = datetime.fromtimestamp(int(now()), UTC)
    end = begin + lifetime
    key = options.get("account_key")
    delegation = None if key else _delegation_key(account, begin, end)
    token = directory_sas(account, container, root.path, end, account_key=key, delegation=delegation)
    where = host or f"{account}.dfs.core.windows.net"
    location = Location("abfss", f"{container}@{where}", root.path)
    return DirectoryCredentials(location.uri, int(end.timestamp() * 1000), azure_sas_token=token)


def directory_sas(
    account: str,
    container: str,
    path: str,
    end: datetime,
    *,
    account_key: str | None = None,
    delegation: _DelegationKey | None = None,
) -> str:
    """A signature that lets its bearer read and list one directory, over TLS only."""
    secret = account_key or (delegation.value if delegation else "")
    expiry = f"{end:%Y-%m-%dT%H:%M:%SZ}"
    resource = f"/blob/{account}/{container}/{path}"
    # Permissions, start, end, place; a policy's name or the delegation key and three identities;
    # addresses, protocol, version, kind; snapshot, encryption scope and five headers of answers.
    identity = [""] if delegation is None else [*delegation.fields, "", "", ""]
    parts = ["rl", "", expiry, resource, *identity, "", "https", _AZURE_VERSION, "d", "", "", *[""] * 5]
    signature = hmac.digest(base64.b64decode(secret), "\n".join(parts).encode(), "sha256")
    parameters = {
        "sv": _AZURE_VERSION,
        "spr": "https",
        "se": expiry,
        "sr": "d",
        "sdd": str(len(path.split("/"))),
        "sp": "rl",
        **({} if delegation is None else delegation.parameters),
        "sig": base64.b64encode(signature).decode(),
    }
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())


def _delegation_key(account: str, begin: datetime, end: datetime) -> _DelegationKey:
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError:
        raise MissingExtraError("azure", "Directory access on Azure without an account_key") from None
    import httpx2

    token = DefaultAzureCredential().get_token("https://storage.azure.com/.default").token
    times = [f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (begin, end)]
    body = f"<KeyInfo><Start>{times[0]}</Start><Expiry>{times[1]}</Expiry></KeyInfo>"
    try:
        answer = httpx2.post(
            f"https://{account}.blob.core.windows.net/?restype=service&comp=userdelegationkey",
            content=body.encode(),
            headers={"Authorization": f"Bearer {token}", "x-ms-version": _AZURE_VERSION},
            timeout=_TIMEOUT,
        )
    except httpx2.HTTPError as error:
        raise StorageUnreachableError(f"Azure does not answer ({type(error).__name__})") from None
    if answer.status_code != 200:
        raise AccessDeniedError(f"Azure gave no user delegation key (status {answer.status_code})")
    found = ElementTree.fromstring(answer.content)
    names = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion")
    return _DelegationKey(tuple(found.findtext(name) or "" for name in names), found.findtext("Value") or "")


def access_boundary(root: Location) -> list[dict[str, Any]]:
    """The rule of a down-scoped token: view objects below the prefix of one bucket."""
    name = f"projects/_/buckets/{root.authority}/objects/{root.path}/"
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    listed = f"{root.path}/".replace("\\", "\\\\").replace("'", "\\'")
    return [
        {
            "available_resource": f"//storage.googleapis.com/projects/_/buckets/{root.authority}",
            "available_permissions": ["inRole:roles/storage.objectViewer"],
            "expression": f"resource.name.startsWith('{quoted}') || "
            "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"
            f".startsWith('{listed}')",
        }
    ]


def _downscoped_token(root: Location, options: StorageOptions, now: Now) -> DirectoryCredentials:
    try:
        import google.auth
        from google.auth import downscoped
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
    except ImportError:
        raise MissingExtraError("gcs", "Directory access on GCS") from None
    rules = [
        downscoped.AccessBoundaryRule(
            available_resource=rule["available_resource"],
            available_permissions=rule["available_permissions"],
            availability_condition=downscoped.AvailabilityCondition(rule["expression"]),
        )
        for rule in access_boundary(root)
    ]
    try:
        source = _google_source(google.auth, options)
        lent: Any = downscoped.Credentials(source, downscoped.CredentialAccessBoundary(rules=rules))
        lent.refresh(Request())
    except GoogleAuthError as error:
        raise AccessDeniedError(f"Google gave no down-scoped token ({type(error).__name__})") from None
    end = lent.expiry.replace(tzinfo=UTC) if lent.expiry else datetime.fromtimestamp(now(), UTC)
    return DirectoryCredentials(root.uri, int(end.timestamp() * 1000), gcp_oauth_token=lent.token)


def _google_source(auth: Any, options: StorageOptions) -> Any:
    file = options.get("service_account") or options.get("application_credentials")
    if file:
        return auth.load_credentials_from_file(file, scopes=[_GOOGLE_SCOPE])[0]
    return auth.default(scopes=[_GOOGLE_SCOPE])[0]
