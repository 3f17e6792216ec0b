"""Reading a shared table from its own directory, with credentials that the server lends (A7).

The table's log is read like any other Delta table's, so versions, pruning and every feature are the
engine's. Only cloud locations are opened: a server must not make its recipients read their own disks.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from distributary.client.errors import AccessModeError, UntrustedAddressError
from distributary.client.rest import Request, RestClient, table_path
from distributary.client.table_answer import TableInformation
from distributary.delta.table import DeltaTable
from distributary.sharing.names import TableName
from distributary.sharing.objects import (
    TemporaryCredentials,
    TemporaryCredentialsRequest,
    TemporaryCredentialsResponse,
)

_CLOUDS = frozenset(("s3", "s3a", "abfss", "abfs", "az", "gs"))


def open_directory(
    rest: RestClient,
    table: TableName,
    information: TableInformation,
    storage_options: Mapping[str, str],
) -> DeltaTable:
    """The table at its own location; `storage_options` add to the credentials (an endpoint, a region)."""
    if information.location is None:
        raise AccessModeError(f"{table}: the server offers directory access and gives no location")
    path = f"{table_path(table)}/temporary-table-credentials"
    body = TemporaryCredentialsRequest()
    lent = rest.json(Request("POST", path, body=body), TemporaryCredentialsResponse).credentials
    location = lent.location or information.location
    scheme = urlsplit(location).scheme.lower()
    if scheme not in _CLOUDS:
        raise UntrustedAddressError(
            f"{table}: the server names a location with {scheme or 'no'} scheme; only cloud stores are opened"
        )
    if information.auxiliary_locations:
        raise AccessModeError(
            f"{table} has files in {len(information.auxiliary_locations)} further locations, which cannot be "
            "read together with the first: read it with access='url'"
        )
    return DeltaTable(location, {**_options(lent), **storage_options})


def _options(lent: TemporaryCredentials) -> dict[str, str]:
    """The credentials as options of a store."""
    if (aws := lent.aws_temp_credentials) is not None:
        return {
            "aws_access_key_id": aws.access_key_id,
            "aws_secret_access_key": aws.secret_access_key,
            "aws_session_token": aws.session_token,
        }
    if (azure := lent.azure_user_delegation_sas) is not None:
        return {"azure_storage_sas_token": azure.sas_token}
    if (google := lent.gcp_oauth_token) is not None:
        return {"google_bearer_token": google.oauth_token}
    raise AccessModeError("the server lent no credentials of a kind that is known")
