"""GET /api/openapi.json: complete, true to the types, and with examples that hold."""

from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis

from api.openapi import document, routes_of
from tests.routes import APP, SETTINGS
from tests.serving import settings_for
from webapp.app import create_app

DOCUMENT = document(routes_of(APP), SETTINGS)
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def contents(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every body that the operation takes or gives, as JSON."""
    for place in (operation.get("requestBody", {}), *operation["responses"].values()):
        content = place.get("content", {}).get("application/json", {})
        # What OTLP sends is described elsewhere.
        if "schema" in content:
            yield content


async def test_the_document_is_served(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/api/openapi.json")

    assert response.headers["content-type"] == "application/json"
    assert response.json() == DOCUMENT


def test_the_document_is_openapi_3_1() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()

    assert DOCUMENT["openapi"].startswith("3.1")
    assert {"POST /api/ingest", "GET /api/metrics", "POST /api/internal/pg-sync", "GET /api/health"} <= set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_examples_are_valid(name: str) -> None:
    for content in contents(OPERATIONS[name]):
        validator = jsonschema_rs.Draft202012Validator({**content["schema"], "components": DOCUMENT["components"]})
        for title, example in content.get("examples", {}).items():
            assert [error.message for error in validator.iter_errors(example["value"])] == [], title


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_documented_completely(name: str) -> None:
    operation = OPERATIONS[name]

    assert operation["summary"]
    assert operation["description"]
    assert operation["tags"][0] in {tag["name"] for tag in DOCUMENT["tags"]}
    for response in operation["responses"].values():
        assert "X-Request-Id" in response["headers"]
        assert response["description"]
    assert all(parameter["description"] for parameter in operation.get("parameters", []))
    assert operation["responses"]["500"]["content"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_type_and_its_fields_are_described(name: str) -> None:
    assert SCHEMAS[name].get("description")


@pytest.mark.parametrize("field", ["costUSD", "cost", "latency"])
def test_numbers_that_are_read_later_are_numbers_all_the_same(field: str) -> None:
    for schema in (SCHEMAS["Run"], SCHEMAS["SingleRun"]):
        assert "number" in schema["properties"][field]["type"]
        assert schema["properties"][field]["minimum"] == 0


def test_legacy_tokens_are_numbers() -> None:
    assert {name: (field["type"], field["minimum"]) for name, field in SCHEMAS["Tokens"]["properties"].items()} == {
        "input": (["number", "null"], 0),
        "output": (["number", "null"], 0),
    }


def test_the_limits_are_those_of_the_interface() -> None:
    run = SCHEMAS["Run"]

    assert run["required"] == ["provider", "model"]
    assert SCHEMAS["SingleRun"]["required"] == ["provider", "model", "projectId"]
    assert run["properties"]["promptPreview"]["maxLength"] == 160
    assert run["properties"]["inputTokens"]["minimum"] == 0
    assert SCHEMAS["Status"]["enum"] == ["error", "success", "timeout"]
    assert SCHEMAS["Batch"]["properties"]["runs"]["minItems"] == 1


def test_the_limits_are_those_of_the_server() -> None:
    settings = settings_for("postgresql://nowhere", max_batch_runs=7)

    described = document(routes_of(create_app(settings)), settings)

    assert described["components"]["schemas"]["Batch"]["properties"]["runs"]["maxItems"] == 7


def test_keys_are_where_the_interface_says() -> None:
    wanted = {name: [next(iter(scheme)) for scheme in operation["security"]] for name, operation in OPERATIONS.items()}
    schemes = DOCUMENT["components"]["securitySchemes"]

    assert wanted["POST /api/ingest"] == ["ingestKey", "ingestKeyHeader"]
    assert wanted["GET /api/metrics"] == ["projectKey"]
    assert wanted["POST /api/internal/pg-sync"] == ["signature"]
    assert wanted["GET /api/health"] == []
    assert schemes["ingestKeyHeader"]["name"] == "x-api-key"
    assert schemes["signature"]["name"] == "x-svc-signature"


@pytest.mark.parametrize("name", ["IngestedRun", "IngestedBatch", "SyncedRun", "MetricsAnswer", "Failure", "Live"])
def test_fields_that_every_answer_has_are_required(name: str) -> None:
    assert "ok" in SCHEMAS[name]["required"]
    assert "schemaVersion" in SCHEMAS["ShieldsEndpoint"]["required"]


def test_errors_are_documented_by_status_and_code() -> None:
    responses = OPERATIONS["POST /api/ingest"]["responses"]

    def codes(status: str, operation: str = "POST /api/ingest") -> set[str]:
        return set(OPERATIONS[operation]["responses"][status]["content"]["application/json"]["examples"])

    assert codes("400") == {"invalid_json", "missing_project_id"}
    assert codes("401") == {"missing_key", "invalid_key"}
    assert codes("408") == codes("408", "POST /api/internal/pg-sync") == {"request_timeout"}
    assert codes("413") == {"body_too_large"}
    assert codes("415") == {"unsupported_media_type"}
    assert codes("422") == {"invalid_payload", "batch_too_large"}
    assert codes("429") == {"rate_limited"}
    assert codes("503") == {"not_configured", "store_unavailable", "overloaded"}
    assert codes("503", "POST /api/internal/pg-sync") == codes("503")
    assert codes("503", "GET /api/metrics") == {"store_unavailable", "overloaded", "query_too_slow"}
    assert {"Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} <= set(
        responses["429"]["headers"]
    )
    assert "WWW-Authenticate" in responses["401"]["headers"]
    assert "RateLimit-Remaining" in responses["422"]["headers"]
    assert "RateLimit-Remaining" not in responses["401"]["headers"]
    # No scheme of HTTP says how to sign a body.
    assert "WWW-Authenticate" not in OPERATIONS["POST /api/internal/pg-sync"]["responses"]["401"]["headers"]
