"""Directory access: credentials by which a recipient reads a table's directory itself (A7, AM-002).

Given only where the policy says so, the whole history is shared (the log shows all of it) and nothing of the
table is hidden; for the table's root, an auxiliary location, or a place inside one of them (RELIABILITY
E7). Everything is checked before the store is asked for anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from distributary.errors import DistributaryError, InvalidInputError
from distributary.server.query_answer import QueryAnswer
from distributary.server.table_errors import sharing_error
from distributary.sharing.error_response import (
    InvalidParameterError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
from distributary.sharing.objects import (
    LIST_CONTENT_TYPE,
    AwsTempCredentials,
    AzureUserDelegationSas,
    GcpOauthToken,
    TemporaryCredentials,
    TemporaryCredentialsResponse,
)
from distributary.sharing.table_policy import TablePolicy
from distributary.storage.location import parse_root
from distributary.storage.temporary_credentials import (
    DirectoryCredentials,
    NoTemporaryCredentialsError,
    directory_credentials,
)


def answer_credentials(
    policy: TablePolicy, location: str | None, options: Mapping[str, str], lifetime: timedelta
) -> QueryAnswer:
    """Credentials for a location of a table, as the protocol gives them."""
    place = permitted_location(policy, location)
    try:
        found = directory_credentials(place, options, lifetime)
    except NoTemporaryCredentialsError as error:
        raise UnsupportedOperationError(
            "The store of this table gives no credentials for directories: read it by URLs."
        ) from error
    except DistributaryError as error:
        raise sharing_error(error) from error
    body = msgspec.json.encode(TemporaryCredentialsResponse(_wire_form(found)))
    return QueryAnswer(0, (("Content-Type", LIST_CONTENT_TYPE),), iter([body]))


def permitted_location(policy: TablePolicy, location: str | None) -> str:
    """The location that credentials are for; refused unless the policy opens it."""
    if "dir" not in policy.access_modes or policy.partition_filter is not None:
        raise PermissionDeniedError("This table is not shared for directory access.")
    if not policy.history_shared or policy.start_version > 0:
        raise InvalidParameterError(
            "Directory access shows the whole history of a table, which is not shared of this one."
        )
    if location is None:
        return policy.location
    try:
        asked = parse_root(location)
    except InvalidInputError:
        raise _elsewhere() from None
    for root in (policy.location, *policy.auxiliary_locations):
        found = parse_root(root)
        if asked == found or found.key_of(asked) is not None:
            return asked.uri
    raise _elsewhere()


def _elsewhere() -> InvalidParameterError:
    return InvalidParameterError(
        "The location is no root of this table: neither its own nor an auxiliary one."
    )


def _wire_form(found: DirectoryCredentials) -> TemporaryCredentials:
    aws, sas, token = found.aws, found.azure_sas_token, found.gcp_oauth_token
    return TemporaryCredentials(
        location=found.location,
        expiration_time=found.expiration,
        aws_temp_credentials=None
        if aws is None
        else AwsTempCredentials(aws.access_key_id, aws.secret_access_key, aws.session_token or ""),
        azure_user_delegation_sas=None if sas is None else AzureUserDelegationSas(sas),
        gcp_oauth_token=None if token is None else GcpOauthToken(token),
    )
