"""The OpenAPI description of the protocol endpoints, made from the same routes that the server answers.

Served at `/openapi.json` of the admin listener. Every operation states its parameters, its statuses and the
form of its answers, so that tests can generate requests from it and hold the answers against it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from distributary.server.protocol_routes import PROTOCOL_ROUTES
from distributary.server.routes import Route

Json = dict[str, Any]

_NAME: Final[Json] = {"type": "string", "minLength": 1, "maxLength": 255}
_LONG: Final[Json] = {"type": "integer", "format": "int64", "minimum": 0}
_TIME: Final[Json] = {"type": "string", "examples": ["2022-01-01T00:00:00Z"]}
_LISTS: Final = ("list_shares", "list_schemas", "list_tables", "list_all_tables")
_SUMMARIES: Final = {
    "list_shares": "List the shares that the recipient can read",
    "get_share": "Get a share",
    "list_schemas": "List the schemas of a share",
    "list_tables": "List the tables of a schema",
    "list_all_tables": "List the tables of a share",
    "table_version_head": "Query the version of a table (first protocol edition)",
    "table_version": "Query the version of a table",
    "table_metadata": "Query the metadata of a table",
    "table_query": "Read the data of a table",
    "poll_query": "Poll an asynchronous query",
    "table_changes": "Read the change data feed of a table",
    "temporary_credentials": "Get temporary credentials for the directory of a table",
}


def openapi_description(server_url: str) -> Json:
    """The description, for the URL at which the protocol is served."""
    paths: Json = {}
    for route in PROTOCOL_ROUTES:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Delta Sharing", "version": "1.0", "license": {"name": "Apache-2.0"}},
        "servers": [{"url": server_url}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


def _operation(route: Route[Any]) -> Json:
    operation: Json = {
        "operationId": route.name,
        "summary": _SUMMARIES[route.name],
        "parameters": [*_path_parameters(route.template), *_PARAMETERS.get(route.name, ())],
        "responses": {"200": _success(route), **_errors(route)},
    }
    if route.method == "POST":
        schema = _BODIES[route.name]
        operation["requestBody"] = {"required": False, "content": {"application/json": {"schema": schema}}}
    return operation


def _path_parameters(template: str) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _NAME}
        for name in re.findall(r"\{(\w+)\}", template)
    ]


def _success(route: Route[Any]) -> Json:
    if route.name in ("table_version", "table_version_head"):
        return {"description": "The version, in a header", "headers": _VERSION_HEADER}
    if route.name in _JSON_ANSWERS:
        schema = {"$ref": f"#/components/schemas/{_JSON_ANSWERS[route.name]}"}
        return {"description": "Done", "content": {"application/json": {"schema": schema}}}
    return {
        "description": "One JSON object a line",
        "headers": _VERSION_HEADER,
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }


def _errors(route: Route[Any]) -> Json:
    statuses = ["400", "401", "403", "405", "408", "413", "429", "431", "500", "503"]
    if route.name != "list_shares":
        statuses.append("404")
    if route.name == "table_query":
        statuses.append("409")
    if route.method == "HEAD":
        return {status: {"description": "See errorCode of the same GET"} for status in sorted(statuses)}
    schema = {"$ref": "#/components/schemas/Error"}
    answer = {"description": "Not done", "content": {"application/json": {"schema": schema}}}
    return dict.fromkeys(sorted(statuses), answer)


def _query_parameter(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _header_parameter(name: str, schema: Json) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": schema}


_VERSION_HEADER: Final[Json] = {
    "Delta-Table-Version": {"required": True, "schema": {"type": "string", "pattern": "^[0-9]+$"}}
}
_PAGING: Final = [
    _query_parameter("maxResults", {"type": "integer", "format": "int32", "minimum": 0}),
    _query_parameter("pageToken", {"type": "string"}),
]
_WISHES: Final = [
    _header_parameter(
        "delta-sharing-capabilities",
        {"type": "string", "examples": ["responseformat=delta,parquet;readerfeatures=deletionvectors"]},
    ),
    _header_parameter("fileidhash", {"enum": ["parquet", "delta"]}),
]
_PARAMETERS: Final[dict[str, list[Json]]] = {
    **dict.fromkeys(_LISTS, _PAGING),
    "table_version_head": [_query_parameter("startingTimestamp", _TIME)],
    "table_version": [_query_parameter("startingTimestamp", _TIME)],
    "table_metadata": [
        _query_parameter("version", _LONG),
        _query_parameter("timestamp", _TIME),
        *_WISHES,
    ],
    "table_query": _WISHES,
    "poll_query": _WISHES,
    "table_changes": [
        _query_parameter("startingVersion", _LONG),
        _query_parameter("startingTimestamp", _TIME),
        _query_parameter("endingVersion", _LONG),
        _query_parameter("endingTimestamp", _TIME),
        _query_parameter("includeHistoricalMetadata", {"type": "boolean"}),
        _query_parameter("includeHistoricalProtocol", {"type": "boolean"}),
        _query_parameter("maxFiles", {"type": "integer", "format": "int32", "minimum": 1}),
        _query_parameter("pageToken", {"type": "string"}),
        *_WISHES,
    ],
}
_POLL: Final[Json] = {
    "maxFiles": {"type": "integer", "format": "int32", "minimum": 1},
    "pageToken": {"type": "string"},
}
_BODIES: Final[dict[str, Json]] = {
    "table_query": {
        "type": "object",
        "properties": {
            "predicateHints": {"type": "array", "items": {"type": "string"}},
            "jsonPredicateHints": {"type": "string"},
            "limitHint": _LONG,
            "version": _LONG,
            "timestamp": _TIME,
            "startingVersion": _LONG,
            "endingVersion": _LONG,
            "includeHistoricalProtocol": {"type": "boolean"},
            "idempotencyKey": {"type": "string", "minLength": 1, "maxLength": 255},
            "includeRefreshToken": {"type": "boolean"},
            "refreshToken": {"type": "string"},
            **_POLL,
        },
    },
    "poll_query": {"type": "object", "properties": _POLL},
    "temporary_credentials": {"type": "object", "properties": {"location": {"type": "string"}}},
}
_JSON_ANSWERS: Final = {
    "list_shares": "Shares",
    "get_share": "GetShare",
    "list_schemas": "Schemas",
    "list_tables": "Tables",
    "list_all_tables": "Tables",
    "temporary_credentials": "TemporaryCredentials",
}


def _page_of(item: str) -> Json:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{item}"}},
            "nextPageToken": {"type": "string"},
        },
    }


def _object(required: tuple[str, ...], *optional: str) -> Json:
    properties = {name: {"type": "string"} for name in (*required, *optional)}
    return {"type": "object", "required": list(required), "properties": properties}


_SCHEMAS: Final[Json] = {
    "Error": _object(("errorCode", "message")),
    "Share": _object(("name",), "id", "displayName", "comment"),
    "Schema": _object(("name", "share")),
    "Table": _object(("name", "schema", "share"), "id", "shareId", "location"),
    "Shares": _page_of("Share"),
    "Schemas": _page_of("Schema"),
    "Tables": _page_of("Table"),
    "GetShare": {
        "type": "object",
        "required": ["share"],
        "properties": {"share": {"$ref": "#/components/schemas/Share"}},
    },
    "TemporaryCredentials": {
        "type": "object",
        "required": ["credentials"],
        "properties": {"credentials": {"type": "object", "required": ["location", "expirationTime"]}},
    },
}
