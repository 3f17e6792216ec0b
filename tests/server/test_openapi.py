"""The OpenAPI description fits the server: generated requests get described answers, never a 5xx."""

from __future__ import annotations

import json

import hypothesis
import pytest
import schemathesis
from sharing_world.running import RunningServer

from distributary.server.openapi import openapi_description
from distributary.server.protocol_routes import PROTOCOL_ROUTES

SCHEMA = schemathesis.openapi.from_dict(openapi_description("http://127.0.0.1"))
KNOWN = {
    "share": ["Sales", "empty", "other"],
    "schema": ["eu", "us"],
    "table": ["Orders", "latest", "french"],
}


def test_every_route_is_described():
    described = openapi_description("https://share.example/delta-sharing")
    operations = [(method.upper(), path) for path, item in described["paths"].items() for method in item]
    assert sorted(operations) == sorted((route.method, route.template) for route in PROTOCOL_ROUTES)
    json.dumps(described)


def test_description_is_served_by_the_admin_listener(server: RunningServer):
    found = server.request("GET", f"{server.admin}/openapi.json", token=None).json()
    assert found == openapi_description(server.endpoint)


@SCHEMA.parametrize()
@hypothesis.settings(
    max_examples=25, deadline=None, suppress_health_check=list(hypothesis.HealthCheck), database=None
)
def test_generated_requests_get_described_answers(case, server):
    """RELIABILITY G3, REST-011: no 5xx, statuses and bodies as described"""
    for name, values in KNOWN.items():
        given = (case.path_parameters or {}).get(name)
        if given is not None and len(str(given)) % 4:  # most requests shall find something
            case.path_parameters[name] = values[len(str(given)) % len(values)]
    headers = {"Authorization": f"Bearer {server.contents.tokens['acme']}"}
    response = case.call(base_url=server.endpoint, headers=headers)
    assert response.status_code < 500, response.text
    case.validate_response(
        response,
        checks=[
            schemathesis.checks.not_a_server_error,
            schemathesis.checks.CHECKS.get_one("status_code_conformance"),
            schemathesis.checks.CHECKS.get_one("content_type_conformance"),
            schemathesis.checks.CHECKS.get_one("response_schema_conformance"),
        ],
    )


@pytest.mark.parametrize("route", PROTOCOL_ROUTES, ids=lambda route: route.name)
def test_every_status_of_an_error_is_described(route):
    operation = openapi_description("x")["paths"][route.template][route.method.lower()]
    assert {"200", "400", "401", "403", "500"} <= set(operation["responses"])
    assert ("404" in operation["responses"]) is (route.name != "list_shares")
