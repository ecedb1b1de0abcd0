"""Log records of coding agents over OTLP."""

from collections.abc import Callable

import httpx
import pytest

from runtally.db.database import Database
from runtally.otlp.values import Value
from tests.otlp import JSON, PROTOBUF, assert_refused, ids_of
from tests.spans import Json, as_json, as_protobuf, make_attributes, make_logs, make_request, make_span
from tests.stored import stored_runs


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
