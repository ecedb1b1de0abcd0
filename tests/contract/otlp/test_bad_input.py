"""Answers to OTLP requests that are wrong in whole or in part."""

import gzip
from collections.abc import Callable

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from runtally.db.database import Database
from tests.otlp import JSON, PATHS, PROTOBUF, RUN, assert_refused, ids_of, request_for
from tests.spans import SECOND, START, Json, as_json, as_protobuf, chat, make_span


@pytest.mark.parametrize(("kind", "encode"), [(JSON, as_json), (PROTOBUF, as_protobuf)], ids=["json", "protobuf"])
async def test_runs_that_break_a_constraint_are_rejected_and_the_others_stored(
    client: httpx.AsyncClient,
    database: Database,
    project_id: str,
    kind: dict[str, str],
    encode: Callable[[Json], bytes],
) -> None:
    canary = "canary" * 50
    bad = [
        make_span(chat(gen_ai__request__model=canary), spanId="2" * 16),
        make_span(chat(gen_ai__request__model=canary), spanId="3" * 16),
        make_span(spanId="4" * 16, startTimeUnixNano=str(START + 70 * 365 * 86_400 * SECOND)),
        make_span(spanId="5" * 16, startTimeUnixNano="5"),
        make_span(spanId="00" * 8),
        make_span({"http.request.method": "GET"}, spanId=""),
    ]
    response = await client.post("/v1/traces", content=encode(request_for(project_id, *bad, make_span())), headers=kind)

    assert response.status_code == 200
    if kind is JSON:
        partial = response.json()["partialSuccess"]
        rejected, message = int(partial["rejectedSpans"]), partial["errorMessage"]
    else:
        told = ExportTraceServiceResponse.FromString(response.content).partial_success
        rejected, message = told.rejected_spans, told.error_message
    assert rejected == 5
    assert all(word in message for word in ("model", "256", "timestamp", "spanId", "(2)"))
    assert "canary" not in message
    assert await ids_of(database, project_id) == [RUN]


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
async def test_a_malformed_body_is_refused_as_a_whole(
    client: httpx.AsyncClient, database: Database, project_id: str, kind: dict[str, str]
) -> None:
    body = (as_json if kind is JSON else as_protobuf)(request_for(project_id))

    assert_refused(await client.post("/v1/traces", content=body[:-1], headers=kind), 400, 3, says="Content-Type")
    packed = {**kind, "Content-Encoding": "gzip"}
    for sent in (body, gzip.compress(body)[:-9], gzip.compress(body) + b"more"):
        assert_refused(await client.post("/v1/traces", content=sent, headers=packed), 400, 3)
    assert await ids_of(database, project_id) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"}, {}, {"Content-Type": "application/grpc"}, {**PROTOBUF, "Content-Encoding": "zstd"},
        {**JSON, "Content-Encoding": "snappy"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
async def test_other_types_are_refused(client: httpx.AsyncClient, headers: dict[str, str], signal: str) -> None:
    response = await client.post(f"/v1/{signal}", content=b"{}", headers=headers)

    assert_refused(response, 415, 3, says="gzip" if "Content-Encoding" in headers else "otlp_http")


@pytest.mark.parametrize("path", [*PATHS, "/v1/logs", "/v1/metrics", "/api/otlp/p/x/v1/logs"])
async def test_other_methods_are_refused_with_the_allowed_one(stranger: httpx.AsyncClient, path: str) -> None:
    response = await stranger.get(path)

    assert_refused(response, 405, 12)
    assert response.headers["allow"] == "POST"


async def test_an_unknown_path_of_otlp_is_a_404(client: httpx.AsyncClient) -> None:
    assert_refused(await client.post("/v1/profiles", content=b"", headers=PROTOBUF), 404, 5)


async def test_langfuses_own_ingestion_is_not_there(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/public/ingestion", json={})

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"
