"""Spans sent by OTLP: under which paths and encodings they are runs, and which of them are one run."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from urllib.parse import quote

import httpx
import pytest
from quart import Quart

from runtally.audit import Actor
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.ingest.accept import Ingest, Stored
from runtally.ingest.normalize import NormalRun
from runtally.otlp.calls import Call
from runtally.otlp.recent import Claim, Recent
from runtally.otlp.values import Value
from tests.otlp import JSON, PATHS, PROTOBUF, RUN, ids_of, request_for, spans_of
from tests.serving import INGEST_KEY, settings_for
from tests.spans import SECOND, START, TRACE, Json, as_json, as_protobuf, chat, joined, make_request, make_span
from tests.stored import stored_runs
from webapp.app import create_app

# Of 1,000 tokens in and 500 out.
COST = Decimal("0.0105")


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


async def test_an_embedding_in_a_tool_of_a_chat_leaves_the_chat_a_run_though_it_comes_first(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    chat_span = make_span(spanId=f"{1:016x}")
    embedding = make_span(
        chat(gen_ai__operation__name="embeddings", gen_ai__request__model="acme-embed", gen_ai__usage__input_tokens=7),
        spanId=f"{3:016x}",
        parentSpanId=f"{2:016x}",
    )
    tool = make_span({"gen_ai.operation.name": "execute_tool"}, spanId=f"{2:016x}", parentSpanId=f"{1:016x}")

    for sent in (embedding, tool, chat_span):
        response = await client.post(PATHS[0], content=as_json(request_for(project_id, sent)), headers=JSON)
        assert response.status_code == 200

    runs = await stored_runs(database, project_id)
    assert sorted((run["model"], run["input_tokens"]) for run in runs) == [("acme-embed", 7), ("acme-large", 1000)]


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
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:50]) + gzip.compress(body[50:])),
        ("deflate", zlib.compress),
        ("zlib", zlib.compress),
    ],
)
async def test_a_body_may_be_packed(
    client: httpx.AsyncClient, database: Database, project_id: str, encoding: str, packed: Callable[[bytes], bytes]
) -> None:
    body = packed(as_protobuf(request_for(project_id)))

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


@pytest.mark.parametrize(
    ("body", "headers"),
    [(b"", PROTOBUF), (b"", JSON), (b"{}", JSON), (b"", {**PROTOBUF, "Content-Encoding": "gzip"})],
)
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


@pytest.mark.parametrize("fails", [False, True])
async def test_twin_records_in_two_requests_at_once_are_one_run_though_the_first_request_fails(
    own_app: Quart, database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    held, both_came = asyncio.Event(), asyncio.Event()
    store, claim = Ingest.store, Recent.claim

    async def store_late(self: Ingest, accepted: Sequence[NormalRun], *, by: Actor) -> Stored:
        if not held.is_set():
            held.set()
            await both_came.wait()
            if fails:
                raise StoreUnavailable
        return await store(self, accepted, by=by)

    def claim_seen(self: Recent, calls: Sequence[Call]) -> Claim:
        if held.is_set():
            both_came.set()
        return claim(self, calls)

    async def post(span: Json, scope: str) -> int:
        body = as_json(make_request(span, resource={"service.name": project_id}, scope=scope))
        headers = {**JSON, "Authorization": f"Bearer {INGEST_KEY}"}
        return (await own_app.test_client().post("/v1/traces", data=body, headers=headers)).status_code

    monkeypatch.setattr(Ingest, "store", store_late)
    monkeypatch.setattr(Recent, "claim", claim_seen)
    first = asyncio.create_task(post(make_span(spanId="1" * 16), "inner"))
    await held.wait()
    second = await post(make_span(spanId="2" * 16, traceId="b" * 32), "outer")

    assert (await first, second) == (503 if fails else 200, 200)
    assert await ids_of(database, project_id) == [f"{'b' * 32}-{'2' * 16}" if fails else f"{TRACE}-{'1' * 16}"]


async def test_the_response_model_prices_a_run_whose_own_has_no_price(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    span = make_span(chat(gen_ai__request__model="acme-router", gen_ai__response__model="acme-large"))

    await client.post("/v1/traces", content=as_json(request_for(project_id, span)), headers=JSON)

    (run,) = await stored_runs(database, project_id)
    assert (run["model"], run["cost_source"]) == ("acme-router", "catalog")
    assert run["cost_usd"] == COST


@pytest.mark.parametrize(
    "sent",
    [
        {"gen_ai.operation.name": "stt", "metrics.audio_seconds": 12.5},
        {"llm.request.type": "transcription", "metadata.usage_object": "{'type': 'duration', 'seconds': 12.5}"},
    ],
)
async def test_seconds_of_audio_may_be_a_fraction(
    client: httpx.AsyncClient, database: Database, project_id: str, sent: dict[str, Value]
) -> None:
    span = make_span({"gen_ai.provider.name": "openai", "gen_ai.request.model": "whisper-1", **sent})

    told = await client.post("/v1/traces", content=as_json(request_for(project_id, span)), headers=JSON)

    (run,) = await stored_runs(database, project_id)
    assert (told.json(), run["units"]) == ({}, {"audioSeconds": 12.5})


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


async def test_a_browser_may_send_from_another_site(client: httpx.AsyncClient, project_id: str) -> None:
    headers = {**JSON, "Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}

    response = await client.post("/v1/traces", content=as_json(request_for(project_id)), headers=headers)

    assert response.status_code == 200


async def test_copilots_subagent_has_its_name_from_the_span_above(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    def of(number: int, above: int, **attributes: str) -> Json:
        sent = {name.replace("__", "."): value for name, value in attributes.items()}
        return make_span(sent, spanId=f"{number:016x}", parentSpanId=f"{above:016x}" if above else None)

    agents, calls = (
        {"gen_ai__operation__name": "invoke_agent"},
        {"gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-5.1"},
    )
    spans = (
        of(1, 0, **agents),
        of(2, 1, **calls, github__copilot__initiator="user"),
        of(3, 1, **agents, gen_ai__agent__name="explore"),
        of(4, 3, **calls, github__copilot__initiator="sub-agent"),
    )
    resource = {"service.name": "github-copilot", "runtally.project": project_id}
    await client.post("/v1/traces", content=as_json(make_request(*spans, resource=resource)), headers=JSON)

    runs = await stored_runs(database, project_id)
    assert {(run["metadata"]["querySource"], run["metadata"].get("agentName")) for run in runs} == {
        ("user", None),
        ("sub-agent", "explore"),
    }


async def test_a_service_that_is_named_by_the_path_of_its_program_is_a_project_of_its_last_part(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    request = request_for(f"/usr/bin/{project_id}")
    await client.post("/v1/traces", content=as_json(request), headers=JSON)

    (run,) = await stored_runs(database, project_id)
    assert run["metadata"]["service"] == project_id
