"""OTLP traces over HTTP: where they are sent, what becomes of them, and what exporters are answered."""

import asyncio
import gzip
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from quart import Quart
from quart import typing as quart_typing

from runtally.access.scopes import Scope
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.ingest.writer import Writer
from runtally.otlp.queries import select_clients
from runtally.otlp.values import Value
from tests.factories import make_key
from tests.limits import create_without_time
from tests.serving import INGEST_KEY, Postgres, Server, client_of, running_server, settings_for
from tests.spans import (
    SECOND,
    SPAN,
    START,
    TRACE,
    Json,
    as_json,
    as_protobuf,
    chat,
    joined,
    make_attributes,
    make_logs,
    make_metrics,
    make_point,
    make_request,
    make_span,
    make_sum,
)
from tests.stored import stored_runs
from webapp.app import create_app

PATHS = ("/v1/traces", "/api/otlp/v1/traces", "/api/public/otel/v1/traces")
JSON, PROTOBUF = {"Content-Type": "application/json"}, {"Content-Type": "application/x-protobuf"}
RUN = f"{TRACE}-{SPAN}"
LIMIT = 200_000
# Of 1,000 tokens in and 500 out.
COST = Decimal("0.0105")


@pytest.fixture(scope="module")
def small_server(postgres: Postgres) -> Iterator[Server]:
    """A service that takes two requests for a project, two wrong keys from an address, and no large bodies."""
    with running_server(
        create_without_time(postgres, "small"),
        SVC_RATE_LIMIT_PER_MINUTE="2",
        WRONG_KEY_LIMIT_PER_MINUTE="2",
        OTLP_MAX_BODY_BYTES=str(LIMIT),
    ) as server:
        yield server


@pytest.fixture(scope="module")
async def small_database(small_server: Server) -> AsyncIterator[Database]:
    async with Database(small_server.database_url) as database:
        yield database


@pytest.fixture
async def small_client(small_server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(small_server.url, {"Authorization": f"Bearer {INGEST_KEY}", **JSON}) as client:
        yield client


@pytest.fixture(scope="module")
async def own_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """An application of this module's own, in this process."""
    app = create_app(settings_for(database_url, otlp_project="the-default"))
    async with app.test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


def request_for(project_id: str, *spans: Json, **resource: str) -> Json:
    return make_request(*(spans or (make_span(),)), resource={"service.name": project_id, **resource})


def spans_of(number: int, **fields: Any) -> list[Json]:  # noqa: ANN401  # Fields of a span.
    return [make_span(spanId=f"{place:016x}", **fields) for place in range(1, number + 1)]


async def ids_of(database: Database, project_id: str) -> list[str]:
    return [run["id"] for run in await stored_runs(database, project_id)]


def status_of(response: httpx.Response) -> tuple[int, str]:
    """Code and message of a google.rpc.Status, whichever way it is encoded."""
    if response.headers["content-type"] == "application/json":
        told = response.json()
        assert set(told) == {"code", "message"}
        return told["code"], told["message"]
    assert response.headers["content-type"] == "application/x-protobuf"
    # The same fields by the same numbers.
    status = ExportTracePartialSuccess.FromString(response.content)
    return status.rejected_spans, status.error_message


def assert_refused(response: httpx.Response, status: int, code: int, *, says: str = "") -> None:
    assert response.status_code == status, response.text
    told, message = status_of(response)
    assert told == code
    assert message.endswith(".")
    assert says in message
    assert response.headers["x-request-id"]


# What is stored -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
async def test_a_call_is_a_run_under_every_path_and_in_both_encodings(
    client: httpx.AsyncClient, database: Database, project_id: str, path: str
) -> None:
    for body, headers, empty in (
        (as_json(request_for(f"{project_id}-j")), JSON, b"{}"),
        (as_protobuf(request_for(f"{project_id}-p")), PROTOBUF, b""),
    ):
        response = await client.post(path, content=body, headers=headers)
        assert (response.status_code, response.content) == (200, empty)
        assert response.headers["content-type"] == headers["Content-Type"]
    (in_json,), (in_protobuf,) = [await stored_runs(database, f"{project_id}-{kind}") for kind in "jp"]

    ignored = {"project_id", "created_at", "metadata"}
    assert {name: value for name, value in in_json.items() if name not in ignored} == {
        name: value for name, value in in_protobuf.items() if name not in ignored
    }
    assert in_json["id"] == RUN
    assert in_json["trace_id"] == TRACE
    assert (in_json["provider"], in_json["model"], in_json["status"]) == ("acme", "acme-large", "success")
    assert (in_json["input_tokens"], in_json["output_tokens"], in_json["latency_ms"]) == (1000, 500, 2000)
    assert in_json["occurred_at"].timestamp() == START / SECOND
    assert in_json["cost_usd"] == COST
    assert in_json["metadata"] == {
        "service": f"{project_id}-j", "instrumentation": "tests", "operation": "chat",
    }  # fmt: skip


async def test_a_project_can_be_in_the_path(client: httpx.AsyncClient, database: Database, project_id: str) -> None:
    named = f"{project_id}/of shop"

    for base in (f"/api/otlp/p/{quote(named, safe='')}", f"/api/otlp/p/{quote(named)}"):
        response = await client.post(f"{base}/v1/traces", content=as_json(request_for("other")), headers=JSON)
        assert response.status_code == 200

    assert await ids_of(database, named) == [RUN]


async def test_the_same_request_again_changes_nothing(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    body = as_json(request_for(project_id, *spans_of(5)))

    answers = await asyncio.gather(*(client.post("/v1/traces", content=body, headers=JSON) for _ in range(5)))

    assert {answer.content for answer in answers} == {b"{}"}
    assert len(await ids_of(database, project_id)) == 5


async def test_spans_that_are_no_calls_are_no_runs_and_make_no_project(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    spans = (make_span({"http.request.method": "GET"}), make_span(chat(gen_ai__operation__name="invoke_agent")))

    response = await client.post("/v1/traces", content=as_json(request_for(project_id, *spans)), headers=JSON)

    assert (response.status_code, response.content) == (200, b"{}")
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM projects WHERE id = $1", project_id) == 0


@pytest.mark.parametrize(
    "packed", [gzip.compress, zlib.compress, lambda body: gzip.compress(body[:50]) + gzip.compress(body[50:])]
)
async def test_a_body_may_be_packed(
    client: httpx.AsyncClient, database: Database, project_id: str, packed: Callable[[bytes], bytes]
) -> None:
    body = packed(as_protobuf(request_for(project_id)))
    encoding = "deflate" if packed is zlib.compress else "gzip"

    response = await client.post("/v1/traces", content=body, headers={**PROTOBUF, "Content-Encoding": encoding})

    assert response.status_code == 200
    assert await ids_of(database, project_id) == [RUN]


async def test_a_body_may_come_in_chunks_without_its_length(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    body = as_json(request_for(project_id))

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    response = await client.post(
        "/v1/traces", content=pieces(), headers=JSON | {"Content-Type": "application/json; charset=utf-8"}
    )

    assert response.status_code == 200
    assert await ids_of(database, project_id) == [RUN]


@pytest.mark.parametrize(("body", "headers"), [(b"", PROTOBUF), (b"", JSON), (b"{}", JSON)])
async def test_an_empty_request_is_a_success(client: httpx.AsyncClient, body: bytes, headers: dict[str, str]) -> None:
    response = await client.post("/v1/traces", content=body, headers=headers)

    assert response.status_code == 200
    assert response.content == (b"{}" if headers is JSON else b"")


async def test_many_spans_are_stored_in_pieces(client: httpx.AsyncClient, database: Database, project_id: str) -> None:
    response = await client.post(
        "/v1/traces", content=as_protobuf(request_for(project_id, *spans_of(2500))), headers=PROTOBUF
    )

    assert response.status_code == 200
    assert len(await ids_of(database, project_id)) == 2500


async def test_nested_and_twin_records_are_one_run_also_in_two_requests(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    inner = make_span(spanId="1" * 16, parentSpanId="2" * 16)
    between = make_span({"http.request.method": "POST"}, spanId="2" * 16, parentSpanId="3" * 16)
    outer = make_span(spanId="3" * 16)
    twin = make_span(
        chat(session__id="s"), traceId="b" * 32, spanId="4" * 16,
        startTimeUnixNano=str(START - 1000), endTimeUnixNano=str(START + 2 * SECOND + 1000),
    )  # fmt: skip
    resource = {"service.name": project_id}
    requests = [
        make_request(inner, resource=resource, scope="inner"),
        make_request(between, outer, resource=resource, scope="outer"),
        make_request(twin, resource=resource, scope="twin"),
    ]
    for sent in (*requests, *requests, joined(*requests)):
        response = await client.post("/v1/traces", content=as_json(sent), headers=JSON)
        assert response.content == b"{}"

    assert await ids_of(database, project_id) == [f"{TRACE}-{'1' * 16}"]


async def test_the_response_model_prices_a_run_whose_own_has_no_price(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    span = make_span(chat(gen_ai__request__model="acme-router", gen_ai__response__model="acme-large"))

    await client.post("/v1/traces", content=as_json(request_for(project_id, span)), headers=JSON)

    (run,) = await stored_runs(database, project_id)
    assert (run["model"], run["cost_source"]) == ("acme-router", "catalog")
    assert run["cost_usd"] == COST


# Keys and projects ----------------------------------------------------------------------------------------------------------

KEYS = {
    "a bearer": {"Authorization": f"Bearer {INGEST_KEY}"},
    "a bearer, percent-encoded": {"Authorization": f"Bearer%20{INGEST_KEY}"},
    "a bearer in small letters": {"Authorization": f"bearer {INGEST_KEY}"},
    "x-api-key": {"x-api-key": INGEST_KEY},
    "x-api-key, percent-encoded": {"x-api-key": quote(INGEST_KEY, safe="").replace("-", "%2D")},
    "Basic": {"Authorization": "Basic " + b64encode(f":{INGEST_KEY}".encode()).decode()},
    "Basic, percent-encoded": {
        "Authorization": "Basic%20" + quote(b64encode(f":{INGEST_KEY}".encode()).decode(), safe="")
    },
}


@pytest.mark.parametrize("headers", KEYS.values(), ids=KEYS.keys())
async def test_a_key_is_sent_in_the_ways_that_exporters_can(
    stranger: httpx.AsyncClient, database: Database, project_id: str, headers: dict[str, str]
) -> None:
    response = await stranger.post("/v1/traces", content=as_json(request_for(project_id)), headers={**JSON, **headers})

    assert response.status_code == 200
    assert await ids_of(database, project_id) == [RUN]


def basic(user: str, key: str = INGEST_KEY) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{key}".encode()).decode()}


async def test_the_first_that_names_a_project_wins(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    in_path, in_header, in_user, in_resource = (
        f"{project_id}-{place}" for place in ("path", "header", "user", "resource")
    )
    body = as_json(request_for("service", **{"runtally.project": in_resource}))
    header = {"X-Runtally-Project": quote(in_header)}
    for path, headers, expected in (
        (f"/api/otlp/p/{in_path}/v1/traces", {**basic(in_user), **header}, in_path),
        ("/v1/traces", {**basic(in_user), **header}, in_header),
        ("/v1/traces", {**basic(in_user), "X-Runtally-Project": "%20"}, in_user),
        ("/v1/traces", basic(""), in_resource),
    ):
        response = await stranger.post(path, content=body, headers={**JSON, **headers})
        assert response.status_code == 200
        assert await ids_of(database, expected) == [RUN]


async def test_a_project_key_has_its_own_project_whatever_resources_say(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    body = as_json(request_for("other", **{"runtally.project": "another"}))

    for path, headers in (
        ("/v1/traces", {"Authorization": f"Bearer {key}"}),
        ("/v1/traces", {"Authorization": f"Bearer%20{key}", "X-Runtally-Project": project_id}),
        (f"/api/otlp/p/{project_id}/v1/traces", basic(project_id, key)),
    ):
        assert (await stranger.post(path, content=body, headers={**JSON, **headers})).status_code == 200

    assert await ids_of(database, project_id) == [RUN]
    (run,) = await stored_runs(database, project_id)
    assert run["key_id"] is not None


async def test_a_project_key_is_refused_where_another_project_is_named(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    for path, headers in (
        ("/v1/traces", {"Authorization": f"Bearer {key}", "X-Runtally-Project": "other"}),
        ("/api/otlp/p/other/v1/traces", {"Authorization": f"Bearer {key}"}),
        ("/v1/traces", basic("other", key)),
        ("/v1/metrics", basic("other", key)),
    ):
        response = await stranger.post(path, content=as_json(request_for("x")), headers={**JSON, **headers})
        assert_refused(response, 403, 7, says="project")

    assert await ids_of(database, project_id) == []


async def test_a_key_that_may_not_write_is_refused(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.METRICS_READ)

    response = await stranger.post("/v1/traces", content=b"{}", headers={**JSON, "Authorization": f"Bearer {key}"})

    assert_refused(response, 403, 7)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !"}, basic("p", "wrong")]
)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
async def test_without_a_right_key_nothing_is_taken(
    stranger: httpx.AsyncClient, headers: dict[str, str], kind: dict[str, str]
) -> None:
    response = await stranger.post("/v1/traces", content=b"{}", headers={**kind, **headers})

    assert_refused(response, 401, 16, says="INGEST_API_KEY")
    assert response.headers["www-authenticate"]


async def test_more_projects_than_a_request_may_have_are_rejected_and_the_first_ones_stored(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    requests = [request_for(f"{project_id}-{number:02}") for number in range(52)]

    response = await client.post("/v1/traces", content=as_json(joined(*requests)), headers=JSON)

    assert response.status_code == 200
    partial = response.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "2"
    assert "50" in partial["errorMessage"]
    assert await ids_of(database, f"{project_id}-49") == [RUN]
    assert await ids_of(database, f"{project_id}-50") == []


# Coding agents --------------------------------------------------------------------------------------------------------------


def claude_request(number: int, **more: Value | None) -> Json:
    attributes: dict[str, Value | None] = {
        "event.name": "api_request", "event.timestamp": "2026-11-01T04:11:32.462Z", "session.id": "s1", "request_id": f"req_{number}",
        "model": "claude-sonnet-4-5", "input_tokens": 150, "output_tokens": 350, "cache_read_tokens": 1000,
        "cache_creation_tokens": 50, "cost_usd_micros": 6188, "duration_ms": 251, "prompt": "never", **more,
    }  # fmt: skip
    return {"attributes": make_attributes(attributes), "body": {"stringValue": "claude_code.api_request"}}


@pytest.mark.parametrize(("kind", "encode"), [(JSON, as_json), (PROTOBUF, as_protobuf)], ids=["json", "protobuf"])
async def test_log_records_of_a_coding_agent_are_runs_once(
    client: httpx.AsyncClient,
    database: Database,
    project_id: str,
    kind: dict[str, str],
    encode: Callable[[Json], bytes],
) -> None:
    request = make_logs(
        claude_request(1), claude_request(2), claude_request(3, **{"event.name": "user_prompt"}),
        resource={"service.name": "claude-code", "user.name": "ada", "team.id": "search", "runtally.project": project_id},
    )  # fmt: skip

    for _ in range(2):
        response = await client.post("/v1/logs", content=encode(request), headers=kind)
        assert (response.status_code, response.content) == (200, b"{}" if kind is JSON else b"")

    run, _ = await stored_runs(database, project_id)
    assert (run["provider"], run["model"], run["input_tokens"]) == ("anthropic", "claude-sonnet-4-5", 1200)
    assert (run["user_id"], run["session_id"], run["cost_source"]) == ("ada", "s1", "catalog")
    assert run["reported_cost_usd"] is None
    assert run["metadata"] == {"agent": "claude-code", "team": "search", "reportedCostUSD": 0.006188}


async def test_log_records_that_break_a_constraint_are_rejected(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    records = [claude_request(1), claude_request(2, model="x" * 300)]
    request = make_logs(*records, resource={"service.name": "claude-code", "runtally.project": project_id})

    response = await client.post("/v1/logs", content=as_json(request), headers=JSON)

    partial = response.json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "1"
    assert "model" in partial["errorMessage"]
    assert len(await ids_of(database, project_id)) == 1


async def test_invalid_log_records_are_refused(client: httpx.AsyncClient) -> None:
    assert_refused(await client.post("/v1/logs", content=b"{", headers=JSON), 400, 3)


async def test_a_span_and_a_record_of_one_request_of_claude_code_are_one_run(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    resource: dict[str, Value] = {"service.name": "claude-code", "runtally.project": project_id}
    span = make_span(
        {"span.type": "llm_request", "session.id": "s1", "request_id": "req_1", "input_tokens": 150, "model": "m"}
    )

    await client.post("/v1/traces", content=as_json(make_request(span, resource=resource)), headers=JSON)
    await client.post("/v1/logs", content=as_json(make_logs(claude_request(1), resource=resource)), headers=JSON)

    assert len(await ids_of(database, project_id)) == 1


async def test_langfuse_is_shown_the_project_of_its_credentials(stranger: httpx.AsyncClient, project_id: str) -> None:
    response = await stranger.get("/api/public/projects", headers=basic(project_id))

    assert response.status_code == 200
    (project,) = response.json()["data"]
    assert (project["id"], project["name"]) == (project_id, project_id)
    refused = await stranger.get("/api/public/projects", headers=basic(project_id, "wrong"))
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_key"


async def test_without_a_name_runs_go_to_the_default_project(own_app: Quart, database: Database) -> None:
    client = own_app.test_client()
    span = make_span(traceId="d" * 32)

    response = await client.post(
        "/v1/traces",
        data=as_json(make_request(span, resource={"service.name": "unknown_service:node"})),
        headers={**JSON, "Authorization": f"Bearer {INGEST_KEY}"},
    )

    assert response.status_code == 200
    assert f"{'d' * 32}-{SPAN}" in await ids_of(database, "the-default")


# What exporters are answered ------------------------------------------------------------------------------------------------


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

    assert_refused(response, 415, 3, says="gzip" if "Content-Encoding" in headers else "otlphttp")


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


@pytest.mark.parametrize("base", ["", "/api/otlp", "/api/otlp/p/x", "/api/public/otel"])
@pytest.mark.parametrize("signal", ["logs", "metrics"])
async def test_other_signals_are_a_success_and_nothing_is_kept(
    client: httpx.AsyncClient, stranger: httpx.AsyncClient, base: str, signal: str
) -> None:
    response = await client.post(f"{base}/v1/{signal}", content=b"{}", headers=JSON)
    assert (response.status_code, response.content) == (200, b"{}")
    response = await client.post(f"{base}/v1/{signal}", content=b"", headers=PROTOBUF)
    assert (response.status_code, response.content) == (200, b"")
    assert_refused(await stranger.post(f"{base}/v1/{signal}", content=b"", headers=PROTOBUF), 401, 16)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_body_over_the_limit_is_refused_also_after_it_is_unpacked(
    small_client: httpx.AsyncClient, encoding: str
) -> None:
    body = as_json(request_for("x", make_span(chat(gen_ai__input__messages="x" * LIMIT))))
    sent = gzip.compress(body) if encoding == "gzip" else body

    response = await small_client.post("/v1/traces", content=sent, headers={"Content-Encoding": encoding})

    assert_refused(response, 413, 8)


async def test_a_body_may_be_larger_than_those_of_the_api(client: httpx.AsyncClient, project_id: str) -> None:
    prompt = "x" * 6 * 1024 * 1024
    body = as_protobuf(request_for(project_id, make_span(chat(gen_ai__input__messages=prompt))))

    for sent, encoding in ((body, "identity"), (gzip.compress(body), "gzip")):
        response = await client.post("/v1/traces", content=sent, headers={**PROTOBUF, "Content-Encoding": encoding})
        assert response.status_code == 200


async def test_past_the_rate_limit_exporters_are_asked_to_come_again(
    small_client: httpx.AsyncClient, small_database: Database, project_id: str
) -> None:
    bodies = [as_json(request_for(project_id, make_span(spanId=f"{number:016x}"))) for number in range(1, 5)]

    answers = [await small_client.post("/v1/traces", content=body) for body in bodies]

    assert [answer.status_code for answer in answers] == [200, 200, 503, 503]
    assert_refused(answers[2], 503, 14)
    assert answers[2].headers["retry-after"] in {"1", "2", "3"}
    assert len(await ids_of(small_database, project_id)) == 2


async def test_one_project_past_its_limit_keeps_all_of_a_request_out(
    small_client: httpx.AsyncClient, small_database: Database, project_id: str
) -> None:
    for number in (1, 2):
        sent = request_for(f"{project_id}-a", make_span(spanId=f"{number:016x}"))
        await small_client.post("/v1/traces", content=as_json(sent))

    both = joined(request_for(f"{project_id}-b"), request_for(f"{project_id}-a"))
    response = await small_client.post("/v1/traces", content=as_json(both))

    assert_refused(response, 503, 14)
    assert await ids_of(small_database, f"{project_id}-b") == []


async def test_a_request_without_calls_is_not_counted(small_client: httpx.AsyncClient, project_id: str) -> None:
    body = as_json(request_for(project_id, make_span({"http.request.method": "GET"})))

    answers = [await small_client.post("/v1/traces", content=body) for _ in range(5)]

    assert {answer.status_code for answer in answers} == {200}


async def test_too_many_wrong_keys_wait(small_server: Server) -> None:
    # Nobody else's address, as a proxy on this machine would report it.
    headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": "192.0.2.7", **PROTOBUF}
    async with client_of(small_server.url, headers) as client:
        answers = [await client.post("/v1/traces", content=b"") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [401, 401, 503, 503]
    assert answers[-1].headers["retry-after"] in {"1", "2", "3"}


async def post_to(client: quart_typing.TestClientProtocol, project_id: str) -> httpx.Response:
    headers = {**JSON, "Authorization": f"Bearer {INGEST_KEY}"}
    response = await client.post("/v1/traces", data=as_json(request_for(project_id)), headers=headers)
    return httpx.Response(response.status_code, headers=dict(response.headers), content=await response.get_data())


async def test_runs_that_cannot_be_stored_are_stored_when_sent_again(
    own_app: Quart, database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object) -> int:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "store", unavailable)
        response = await post_to(own_app.test_client(), project_id)
    assert_refused(response, 503, 14)
    assert response.headers["retry-after"] in {"1", "2", "3"}

    assert (await post_to(own_app.test_client(), project_id)).status_code == 200
    assert await ids_of(database, project_id) == [RUN]


async def test_a_bug_is_no_partial_success(own_app: Quart, project_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> int:
        raise RuntimeError("a canary")

    monkeypatch.setattr(Writer, "store", broken)
    response = await post_to(own_app.test_client(), project_id)

    assert_refused(response, 500, 13)
    assert "canary" not in response.text


async def test_content_is_no_reason_to_refuse_a_span(database_url: str, database: Database, project_id: str) -> None:
    app = create_app(
        settings_for(database_url, privacy_mode="reject", otlp_drop="user,service", otlp_attributes="tenant")
    )
    attributes = chat(gen_ai__prompt="p", user__id="u", tenant="t", runtally__metadata__prompt="a canary")
    async with app.test_app() as running:
        client = running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.
        response = await client.post(
            "/v1/traces",
            data=as_json(request_for(project_id, make_span(attributes))),
            headers={**JSON, "Authorization": f"Bearer {INGEST_KEY}"},
        )

    assert response.status_code == 200
    (run,) = await stored_runs(database, project_id)
    assert run["user_id"] is None
    assert run["metadata"] == {"instrumentation": "tests", "operation": "chat", "tenant": "t"}


@pytest.mark.parametrize(("kind", "encode"), [(JSON, as_json), (PROTOBUF, as_protobuf)], ids=["json", "protobuf"])
async def test_sums_of_an_agent_are_runs_where_the_project_asks_for_them(
    database_url: str, database: Database, project_id: str, kind: dict[str, str], encode: Callable[[Json], bytes]
) -> None:
    app = create_app(settings_for(database_url, otlp_metrics=f"{project_id}-asks"))
    models = ("gpt-4o-mini", "gpt-4o")
    attributes = [{"type": name, "model": model} for name in ("input", "output") for model in models]
    headers = {**kind, "Authorization": f"Bearer {INGEST_KEY}"}
    async with app.test_app() as running:
        client = running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.
        for number in (1, 1, 2, 2):
            points = [make_point(100 * number, one, time=START + number * SECOND) for one in attributes]
            for name in ("asks", "does-not"):
                resource = {"service.name": "continue-cli", "runtally.project": f"{project_id}-{name}"}
                body = encode(make_metrics(make_sum("continue_cli_token_usage", *points), resource=resource))
                response = await client.post("/v1/metrics", data=body, headers=headers)
                assert (response.status_code, await response.get_data()) == (200, b"{}" if kind is JSON else b"")

    runs = await stored_runs(database, f"{project_id}-asks")
    assert [(run["input_tokens"], run["output_tokens"], run["latency_ms"]) for run in runs] == [
        (100, 100, None)
    ] * 2 * len(models)
    assert runs[0]["metadata"] == {"agent": "continue-cli", "aggregated": True}
    assert await ids_of(database, f"{project_id}-does-not") == []


async def test_sums_that_two_workers_store_at_the_same_moment_are_counted_once(
    database_url: str, database: Database, project_id: str
) -> None:
    settings = settings_for(database_url, otlp_metrics=project_id)
    resource = {"service.name": "continue-cli", "runtally.project": project_id}
    headers = {**JSON, "Authorization": f"Bearer {INGEST_KEY}"}

    async def export(client: Any, tokens: int) -> int:  # noqa: ANN401  # Quart's test client.
        point = make_point(tokens, {"type": "input", "model": "gpt-4o"}, time=START + tokens * SECOND)
        body = as_json(make_metrics(make_sum("continue_cli_token_usage", point), resource=resource))
        return int((await client.post("/v1/metrics", data=body, headers=headers)).status_code)

    async with create_app(settings).test_app() as one, create_app(settings).test_app() as other:
        clients = [running.app.test_client() for running in (one, other)]  # type: ignore[attr-defined]
        async with database.transaction() as connection:
            # Reading is possible, storing is not: so both have read the same count before either is stored.
            await connection.execute("LOCK TABLE runs IN SHARE MODE")
            exports = [asyncio.create_task(export(*sent)) for sent in zip(clients, (100, 200), strict=True)]
            waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'runs'::regclass AND NOT granted"
            async with asyncio.timeout(30):
                while await connection.fetchval(waiting) < len(clients):
                    pass
        assert await asyncio.gather(*exports) == [200, 200]
        assert await export(clients[0], 250) == 200

    assert sum(run["input_tokens"] for run in await stored_runs(database, project_id)) == 250


async def test_many_exports_in_one_request_are_stored_at_once(
    database_url: str, database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    since_the_start, since_the_last = (
        [
            make_point(10 * number, {"type": "input", "model": model}, time=START + number * SECOND)
            for number in (1, 2, 3)
        ]
        for model in ("gpt-4o", "gpt-4o-mini")
    )
    sums = (
        make_sum("continue_cli_token_usage", *since_the_start),
        make_sum("continue_cli_token_usage", *since_the_last, delta=True),
    )
    body = as_json(make_metrics(*sums, resource={"service.name": "continue-cli", "runtally.project": project_id}))
    stored: list[int] = []
    store = Writer.store

    async def counted(writer: Writer, runs: Any, *rest: Any) -> Any:  # noqa: ANN401  # As the original.
        stored.append(len(runs))
        return await store(writer, runs, *rest)

    monkeypatch.setattr(Writer, "store", counted)
    async with create_app(settings_for(database_url, otlp_metrics=project_id)).test_app() as running:
        client = running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.
        headers = {**JSON, "Authorization": f"Bearer {INGEST_KEY}"}
        assert (await client.post("/v1/metrics", data=body, headers=headers)).status_code == 200

    assert stored == [4]
    runs = await stored_runs(database, project_id)
    assert sorted((run["model"], run["input_tokens"]) for run in runs) == [
        ("gpt-4o", 30),
        *(("gpt-4o-mini", tokens) for tokens in (10, 20, 30)),
    ]


async def test_metrics_of_a_project_that_does_not_ask_for_them_are_not_decoded(
    database_url: str, project_id: str
) -> None:
    app = create_app(settings_for(database_url, otlp_metrics=project_id))
    authorization = {"Authorization": f"Bearer {INGEST_KEY}"}
    async with app.test_app() as running:
        client = running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.
        statuses = [
            (await client.post(path, data=b"[null, null]", headers={**JSON, **authorization, **header})).status_code
            for path, header in (
                (f"/api/otlp/p/{project_id}/v1/metrics", {}),
                (f"/api/otlp/p/{project_id}-other/v1/metrics", {}),
                ("/v1/metrics", {"X-Runtally-Project": f"{project_id}-other"}),
            )
        ]

    assert statuses == [400, 200, 200]


async def test_a_point_without_its_times_is_rejected_and_an_empty_body_is_not(
    database_url: str, database: Database, project_id: str
) -> None:
    app = create_app(settings_for(database_url, otlp_metrics=project_id))
    point = make_point(100, {"type": "input", "model": "gpt-4o-mini"})
    faulty = [{**point, "timeUnixNano": "0"}, {**point, "startTimeUnixNano": "0"}]
    resource = {"service.name": "continue-cli", "runtally.project": project_id}
    body = as_json(make_metrics(make_sum("continue_cli_token_usage", *faulty, point), resource=resource))
    authorization = {"Authorization": f"Bearer {INGEST_KEY}"}
    async with app.test_app() as running:
        client = running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.
        answer = await client.post("/v1/metrics", data=body, headers={**JSON, **authorization})
        partial = (await answer.get_json())["partialSuccess"]
        empty = [
            await client.post("/v1/metrics", data=b"", headers={**kind, **authorization}) for kind in (JSON, PROTOBUF)
        ]

    assert partial["rejectedDataPoints"] == "2"
    assert "timeUnixNano" in partial["errorMessage"]
    assert [response.status_code for response in empty] == [200, 200]
    assert len(await ids_of(database, project_id)) == 1


async def test_requests_are_counted_by_client(own_app: Quart, database: Database, project_id: str) -> None:
    bad = make_span(chat(gen_ai__request__model="x" * 300), spanId="3" * 16)
    nested = make_span(spanId="2" * 16, parentSpanId=SPAN)
    spans = (make_span(), nested, bad, make_span({}, spanId="4" * 16), make_span(spanId="0" * 16))
    bodies = [
        ("traces", as_json(request_for(project_id, *spans))),
        ("logs", as_json(make_logs({"attributes": []}, resource={"service.name": project_id}))),
        ("logs", as_json(make_logs({}, resource={"service.name": "goose", "runtally.project": project_id}))),
    ]
    headers = {**JSON, "Authorization": f"Bearer {INGEST_KEY}", "User-Agent": "OTel-OTLP-Exporter-Python/1.45.0"}
    for signal, body in bodies:
        await own_app.test_client().post(f"/v1/{signal}", data=body, headers=headers)

    await own_app.extensions["runtally"].cells.main.clients.write(database)

    async with database.connection() as connection:
        clients = {
            (client.service, client.signal): client for client in await select_clients(connection, project_id, 9)
        }
    traces, logs = clients[project_id, "traces"], clients[project_id, "logs"]
    assert traces.exporter == "OTel-OTLP-Exporter-Python"
    assert (traces.requests, traces.records, traces.runs, traces.twins) == (1, 5, 1, 1)
    assert (traces.rejected, traces.no_calls) == (2, 1)
    assert (logs.records, logs.no_calls) == (1, 1)
    assert clients["goose", "logs"].told_elsewhere == 1


async def test_a_browser_may_send_from_another_site(client: httpx.AsyncClient, project_id: str) -> None:
    headers = {**JSON, "Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}

    response = await client.post("/v1/traces", content=as_json(request_for(project_id)), headers=headers)

    assert response.status_code == 200


async def test_prometheus_counts_records(postgres: Postgres, database_url: str, database: Database) -> None:
    with running_server(database_url, METRICS_TOKEN="m") as server:
        async with client_of(server.url, {"Authorization": f"Bearer {INGEST_KEY}", **JSON}) as client:
            bad = make_span(chat(gen_ai__request__model="x" * 300), spanId="3" * 16)
            nested = make_span(spanId="2" * 16, parentSpanId=SPAN)
            sent = request_for("counted", make_span(), nested, bad, make_span({}, spanId="4" * 16))
            await client.post("/v1/traces", content=as_json(sent))
            told = await client.get("/metrics", headers={"Authorization": "Bearer m"})

    for outcome, number in (("read", 4), ("run", 1), ("rejected", 1), ("twin", 1)):
        assert f'runtally_otlp_records_total{{outcome="{outcome}",signal="traces"}} {number}.0' in told.text
