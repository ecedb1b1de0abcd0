"""Content that clients send by mistake is nowhere afterwards: in no table, log file, WAL, answer, metric or temporary file.

All files of a database of the test's own are searched, after everything was written out.
"""

import asyncio
import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from runtally.db.database import Database
from runtally.embedded.server import database_url
from runtally.otlp.values import Value
from runtally.reporting.document import SIGNATURE_HEADER, batch_of, sign
from runtally.settings import Settings
from tests.documents import SYNC_PATH, SYNC_SECRET, make_document
from tests.factories import make_run
from tests.ops.processes import server_pid
from tests.serving import INGEST_KEY, Server, running_server
from tests.spans import Json, as_json, as_protobuf, chat, make_attributes, make_logs, make_request, make_span

CANARY = "canary-5e0b91c7"
# What may be stored, and so must be found: the search would find a canary as well.
KEPT = "kept-by-right-5e0b91c7"
CONTENT_KEYS = ("prompt", "completion", "messages", "input", "output", "content", "response", "system_prompt")
LIMIT = 100_000
EXPECTED = {200, 400, 413, 415, 422}
IS_IN = "SELECT EXISTS (SELECT FROM {table} AS t WHERE strpos(t::text, $1) > 0)"
TABLES = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public'"


def metadata() -> dict[str, Any]:
    """Content below every key, as text, list and object, at every depth that is allowed."""
    content: dict[str, Any] = {key: [CANARY, {"role": "user", CANARY: CANARY}] for key in CONTENT_KEYS}
    content |= {f"gen_ai.{key}.0.content": CANARY for key in CONTENT_KEYS}
    return {**content, "note": KEPT, "deep": {**content, "deeper": {**content, "note": KEPT}}}


def run_with_content(**fields: object) -> dict[str, Any]:
    spoken = {"role": "user", "content": CANARY}
    unknown = {"messages": [spoken], "choices": [spoken], "text": CANARY, "tool": {"deep": [{"er": CANARY}]}}
    known = {"prompt": [spoken], "completion": CANARY, "promptPreview": CANARY, "metadata": metadata()}
    return make_run(**{**unknown, **known, **fields})


def bodies() -> Iterator[tuple[str, bytes]]:
    """Queries and bodies: good, bad, repeated, too large, broken."""
    good = {"projectId": "p", **run_with_content(runId="r1")}
    bad = run_with_content(inputTokens=-1, errorCode=[CANARY], status=CANARY)
    yield "", json.dumps(good).encode()
    yield "?onError=refuse", json.dumps(good).encode()
    yield f"?prompt={CANARY}", json.dumps(good).encode()
    for query in ("", "?onError=skip"):
        yield query, json.dumps({"projectId": "p", "runs": [run_with_content(runId="r2"), bad]}).encode()
        yield query, json.dumps({"projectId": "p", **bad}).encode()
        yield query, json.dumps(good | {"metadata": {"prompt": CANARY * 2_000}}).encode()
        yield query, json.dumps(good | {"prompt": CANARY * LIMIT}).encode()
        yield query, json.dumps(good).encode()[:-9]
        yield query, json.dumps({"projectId": CANARY * 40, "prompt": CANARY}).encode()
        yield query, json.dumps([CANARY]).encode()


def span_with_content() -> Json:
    """A canary in each text of a span that is not allowed to pass, below names of all generations."""
    names = (
        "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.prompt.0.content",
        "gen_ai.completion.0.content", "gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.prompt.variable.name",
        "llm.input_messages.0.message.content", "llm.prompts", "input.value", "output.value", "embedding.embeddings.0.embedding.text",
        "traceloop.entity.input", "traceloop.association.properties.prompt", "ai.prompt", "ai.prompt.messages", "ai.response.text",
        "ai.telemetry.metadata.messages", "langfuse.observation.input", "langfuse.observation.output", "langfuse.trace.input",
        "langfuse.observation.status_message", "langfuse.observation.metadata.prompt", "runtally.metadata.content",
        "metadata.requester_metadata", "error.message", "http.request.header.authorization", "server.address", "db.query.text",
    )  # fmt: skip
    attributes: dict[str, Value | None] = {
        **dict.fromkeys(names, CANARY),
        **chat(runtally__metadata__note=KEPT),
        "llm.invocation_parameters": json.dumps({"model": "m", "tools": [CANARY], CANARY: CANARY}),
        "hidden_params": json.dumps({"response_cost": 1, "additional_headers": {"x": CANARY}}),
        "metadata.usage_object": f"{{'cached_tokens': 5, 'x': '{CANARY}'}}",
        "ai.response.providerMetadata": json.dumps({"anthropic": {"text": CANARY}}),
        "error.type": f"{CANARY}.BadRequestError",
        "gen_ai.tool.call.result": [CANARY, CANARY],
        "langfuse.observation.metadata.tools": json.dumps([{"description": CANARY}]),
        "traceloop.association.properties.settings": str({"messages": [CANARY]}),
    }
    exception = {"exception.type": "Error", "exception.message": CANARY, "exception.stacktrace": CANARY}
    return make_span(
        attributes,
        name=CANARY,
        traceState=CANARY,
        events=[
            {"name": "exception", "attributes": make_attributes(exception)},
            {"name": CANARY, "attributes": make_attributes({"gen_ai.prompt": CANARY})},
        ],
        links=[{"traceId": "a" * 32, "spanId": "b" * 16, "attributes": make_attributes({"x": CANARY})}],
        status={"code": 2, "message": CANARY},
    )


def otlp_bodies() -> Iterator[tuple[dict[str, str], bytes]]:
    """Headers and bodies: good, partly bad, broken, and too large."""
    host = {"service.name": "p", "host.name": CANARY, "process.command_args": CANARY, "process.owner": CANARY}
    good = make_request(span_with_content(), make_span(chat(gen_ai__request__model=CANARY * 30)), resource=host)
    for media_type, body in (("application/json", as_json(good)), ("application/x-protobuf", as_protobuf(good))):
        headers = {"Content-Type": media_type}
        yield headers, body
        yield headers | {"Content-Encoding": "gzip"}, gzip.compress(body)
        yield headers, body[:-9]
        yield headers | {"X-Runtally-Project": CANARY * 20}, body[:-9]
        yield headers, CANARY.encode() * LIMIT
    for service in ("claude-code", "codex_exec", "gemini-cli", "qwen-code", "cline", "github-copilot", "shop"):
        yield {"Content-Type": "application/json"}, as_json(records_with_content(service))
    yield {"Content-Type": CANARY}, b""


def records_with_content(service: str) -> Json:
    """Events of a coding agent, with a canary in each text that is not allowed to pass."""
    names = (
        "prompt", "error", "error.message", "error_message", "arguments", "output", "tool_input", "tool_parameters", "request_text",
        "response_text", "function_args", "response_body", "gen_ai.system_instructions", "gen_ai.input.messages", "user.email",
        "command", "mcp_servers", "auth.env_provider_key_name",
    )  # fmt: skip
    known: dict[str, Value] = {
        "session.id": "s", "conversation.id": "c", "model": "m", "input_tokens": 5, "input_token_count": 5, "output_token_count": 5,
        "event.kind": "response.completed", "status_code": 500, "endpoint": "/responses", "http.response.status_code": 500,
    }  # fmt: skip
    events = (
        "api_request", "api_error", "user_prompt", "codex.sse_event", "codex.api_request", "codex.tool_result",
        "gemini_cli.api_response", "gemini_cli.api_error", "qwen-code.api_response", "qwen-code.api_error",
        "gen_ai.client.inference.operation.details",
    )  # fmt: skip
    records = [
        {
            "attributes": make_attributes({**dict.fromkeys(names, CANARY), **known, "event.name": event}),
            "body": {"stringValue": CANARY},
            "eventName": CANARY,
        }
        for event in events
    ]
    resource = {
        "service.name": service,
        "process.command_args": CANARY,
        "process.owner": CANARY,
        "runtally.project": "p",
    }
    return make_logs(*records, resource=resource, scope=CANARY)


def send_everything(server: Server, log: Path) -> str:
    """All that was answered, headers included."""
    headers = {"Authorization": f"Bearer {INGEST_KEY}", "Content-Type": "application/json"}
    answers = []
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        for query, body in bodies():
            answers.append(client.post(f"/api/ingest{query}", content=body))
            packed = {"Content-Encoding": "gzip"}
            answers.append(client.post(f"/api/ingest{query}", content=gzip.compress(body), headers=packed))
        for kind, body in otlp_bodies():
            answers += [
                client.post(f"/v1/{signal}", content=body, headers=kind) for signal in ("traces", "logs", "metrics")
            ]
        document = json.dumps(make_document("p", prompt=CANARY, completion=CANARY, metadata=metadata())).encode()
        for sent in (document, batch_of([document, document, json.dumps({"id": [CANARY], "prompt": CANARY}).encode()])):
            signed = {SIGNATURE_HEADER: sign(sent, SYNC_SECRET)}
            answers.append(client.post(SYNC_PATH, content=sent, headers=signed))
        hang_up_midway(server)
        answers += [client.get("/metrics", headers={"Authorization": "Bearer m"}), client.get("/api/health")]
    unexpected = [answer for answer in answers if answer.status_code not in EXPECTED]
    assert not unexpected, [(str(one.request.url), one.text, log.read_text()[-20_000:]) for one in unexpected]
    assert {answer.status_code for answer in answers} == EXPECTED
    return "".join(f"{answer.headers} {answer.text}" for answer in answers)


def hang_up_midway(server: Server) -> None:
    """Plain and packed, which are read in different places."""
    body = json.dumps({"projectId": "p", **run_with_content()}).encode()
    for encoding, sent in (("identity", body), ("gzip", gzip.compress(body))):
        head = (
            f"POST /api/ingest HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {INGEST_KEY}\r\nContent-Length: "
            f"{len(sent)}\r\nContent-Type: application/json\r\nContent-Encoding: {encoding}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
            connection.sendall(head.encode() + sent[: len(sent) // 2])


async def tables_with(url: str, text: str) -> list[str]:
    """Asked row by row, because values in files may be packed."""
    async with Database(url) as database, database.connection() as connection:
        tables = [row[0] for row in await connection.fetch(TABLES)]
        await connection.execute("CHECKPOINT")
        return [table for table in tables if await connection.fetchval(IS_IN.format(table=table), text)]


def files_with(folder: Path, text: str) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [str(file.relative_to(folder)) for file in files if text.encode() in file.read_bytes()]


def test_no_canary_is_left_anywhere_by_any_request(data_dir: Path) -> None:
    temporary = data_dir / "tmp"
    temporary.mkdir()
    with database_url(Settings(data_dir=data_dir, database_url=None)) as url:
        with running_server(
            url,
            log=data_dir / "service.log",
            LOG_LEVEL="DEBUG",
            PRIVACY_MODE="strict",
            METRICS_TOKEN="m",
            SERVICE_SYNC_SIGN=SYNC_SECRET,
            MAX_BODY_BYTES=str(LIMIT),
            OTLP_MAX_BODY_BYTES=str(LIMIT),
            TMPDIR=str(temporary),
        ) as server:
            answered = send_everything(server, data_dir / "service.log")
        with_canary = asyncio.run(tables_with(url, CANARY))
        with_kept = asyncio.run(tables_with(url, KEPT))
    assert server_pid(data_dir) is None

    assert CANARY not in answered
    assert (with_canary, with_kept) == ([], ["public.runs", "public.reporting_runs"])
    assert files_with(data_dir, CANARY) == []
    assert any("pg_wal" in file for file in files_with(data_dir, KEPT))


PEOPLE = "person-5e0b91c7"
NAME_RULES = """
INSERT INTO name_rules (project_id, key, storage, updated_at)
     SELECT 'p', key, storage, now()
       FROM (VALUES ('user', 'hashed'), ('session', 'dropped'), ('tags', 'hashed'), ('customer', 'hashed')) AS rules (key, storage)
"""


def send_names(server: Server) -> None:
    """Names in each field and key that is read, by each way in."""
    names = dict.fromkeys(("user", "userId", "user_id", "session", "sessionId", "session_id", "customer"), PEOPLE)
    people = {"userId": PEOPLE, "sessionId": PEOPLE, "tags": [PEOPLE, "b"], "metadata": {**names, "tags": [PEOPLE]}}
    spans = make_span(
        chat(user__id=PEOPLE, enduser__id=PEOPLE, session__id=PEOPLE, runtally__metadata__customer=PEOPLE, note=KEPT)
        | {"langfuse.user.id": PEOPLE, "langfuse.session.id": PEOPLE, "langfuse.trace.tags": [PEOPLE]}
    )
    known: dict[str, Value] = {
        "event.name": "api_request", "session.id": PEOPLE, "conversation.id": PEOPLE, "model": "m", "input_tokens": 5,
        "user.account_uuid": PEOPLE, "user.id": PEOPLE, "user.name": PEOPLE, "enduser.id": PEOPLE, "user.email": PEOPLE,
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {INGEST_KEY}", "Content-Type": "application/json"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        run = make_run(**people | {"metadata": {**people["metadata"], "note": KEPT}})  # type: ignore[dict-item]  # A mapping.
        assert client.post("/api/ingest", json={"projectId": "p", "runs": [run, make_run(**people)]}).is_success
        assert client.post("/api/ingest", json={"projectId": "p", **make_run(**people)}).is_success
        resource: dict[str, Value] = {"service.name": "p", "runtally.project": "p", "user.id": PEOPLE}
        assert client.post("/v1/traces", content=as_json(make_request(spans, resource=resource))).is_success
        for service in ("claude-code", "codex_exec", "gemini-cli", "qwen-code"):
            logs = make_logs({"attributes": make_attributes(known)}, resource={**resource, "service.name": service})
            assert client.post("/v1/logs", content=as_json(logs)).is_success


def test_names_that_are_hashed_or_dropped_are_left_nowhere(data_dir: Path) -> None:
    log = data_dir / "service.log"

    async def forbid_names(url: str) -> None:
        async with Database(url) as database, database.connection() as connection:
            await connection.execute(NAME_RULES)

    with database_url(Settings(data_dir=data_dir, database_url=None)) as url:
        with running_server(url):
            # It makes the tables.
            asyncio.run(forbid_names(url))
        with running_server(
            url, log=log, LOG_LEVEL="DEBUG", NAMES_SECRET="n" * 32, SERVICE_SYNC_SIGN=SYNC_SECRET
        ) as server:
            send_names(server)
        with_names = asyncio.run(tables_with(url, PEOPLE))
        with_hash = asyncio.run(tables_with(url, "customer "))
        with_kept = asyncio.run(tables_with(url, KEPT))

    assert with_names == []
    assert "public.runs" in with_hash
    assert "public.runs" in with_kept
    assert files_with(data_dir, PEOPLE) == []
