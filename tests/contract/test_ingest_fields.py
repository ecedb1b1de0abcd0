"""POST /api/ingest: how what is sent becomes what is stored."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from tests.stored import stored_runs
from webapp.app import create_app


async def test_legacy_fields_fill_the_new_ones_where_these_are_missing(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    legacy = {"tokens": {"input": 10, "output": 20.0}, "cost": 0.25, "latency": 12.5}
    bare = {"projectId": project_id, "provider": "unknown", "model": "m"}
    new = {"inputTokens": 1, "outputTokens": 0, "costUSD": 0, "latencyMs": 0}

    await client.post("/api/ingest", json=bare | legacy | {"runId": "a"})
    await client.post("/api/ingest", json=bare | legacy | new | {"runId": "b"})

    old_run, new_run = await stored_runs(database, project_id)
    assert (old_run["input_tokens"], old_run["output_tokens"], old_run["latency_ms"]) == (10, 20, 13)
    assert str(old_run["cost_usd"]) == "0.250000000000"
    assert (new_run["input_tokens"], new_run["output_tokens"], new_run["latency_ms"]) == (1, 0, 0)
    assert new_run["reported_cost_usd"] == 0


async def test_a_whole_number_may_be_written_as_json_schema_knows_it(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    run = make_run(provider="unknown", inputTokens=12.0, outputTokens=350)
    refused = make_run(provider="unknown", inputTokens=1.5, outputTokens=1e300, latencyMs=-1.0)

    await client.post("/api/ingest", json=run | {"projectId": project_id, "runId": "a"})
    body = json.dumps({"projectId": project_id, "runs": [run | {"runId": "b"}]}).replace("350", "3.5e2")
    await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})
    answer = await client.post("/api/ingest", json=refused | {"projectId": project_id})

    kept = await stored_runs(database, project_id)
    assert [(run["id"], run["input_tokens"], run["output_tokens"]) for run in kept] == [("a", 12, 350), ("b", 12, 350)]
    assert_error(answer, 422, "invalid_payload", paths=["inputTokens", "outputTokens", "latencyMs"])


async def test_units_tier_and_region_are_kept_with_names_that_are_not_known_yet(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    sent = {
        "units": {"cacheWrite1h": 504, "audioSeconds": 12.5, "neverHeardOf": 3, "webSearch": 0},
        "serviceTier": " Flex ",
        "region": "us",
    }
    wrong = {"units": {"webSearch": -1, "images": 1.5, "secret name": "x"}, "serviceTier": 3, "region": []}

    await client.post("/api/ingest", json=make_run(projectId=project_id, runId="a", **sent))
    await client.post("/api/ingest", json=make_run(projectId=project_id, runId="b"))
    refused = await client.post("/api/ingest", json=make_run(projectId=project_id, **wrong))

    kept, plain = await stored_runs(database, project_id)
    assert kept["units"] == {"cacheWrite1h": 504, "audioSeconds": 12.5, "neverHeardOf": 3}
    assert (kept["service_tier"], kept["region"]) == ("flex", "us")
    assert (plain["units"], plain["service_tier"], plain["region"]) == (None, None, None)
    assert_error(
        refused, 422, "invalid_payload", paths=["units.webSearch", "units.images", "units", "serviceTier", "region"]
    )


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"status": None}, "success"),
        ({"status": None, "errorCode": "429"}, "error"),
        ({"status": None, "errorCode": ""}, "success"),
        ({"status": "success", "errorCode": "429"}, "success"),
        ({"status": "timeout"}, "timeout"),
    ],
)
async def test_a_missing_status_follows_the_error_code(
    client: httpx.AsyncClient, database: Database, project_id: str, sent: dict[str, Any], kept: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, **sent))

    [run] = await stored_runs(database, project_id)
    assert run["status"] == kept


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-05-01T12:00:00Z", "2026-05-01T12:00:00+00:00"),
        ("2026-05-01T12:00:00.123456789Z", "2026-05-01T12:00:00.123456+00:00"),
        ("2026-05-01T12:00:00+02:00", "2026-05-01T10:00:00+00:00"),
        ("2026-05-01T12:00:00", "2026-05-01T12:00:00+00:00"),
        ("2026-05-01 12:00:00", "2026-05-01T12:00:00+00:00"),
        ("1777636800", "2026-05-01T12:00:00+00:00"),
        ("1777636800.25", "2026-05-01T12:00:00.250000+00:00"),
        ("1777636800123", "2026-05-01T12:00:00.123000+00:00"),
    ],
)
async def test_a_timestamp_is_kept_in_utc(
    client: httpx.AsyncClient, database: Database, project_id: str, sent: str, kept: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, timestamp=sent))

    [run] = await stored_runs(database, project_id)
    assert run["occurred_at"] == datetime.fromisoformat(kept)


async def test_a_missing_timestamp_is_the_receipt_time(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    before = datetime.now(UTC)

    await client.post("/api/ingest", json=make_run(projectId=project_id))

    [run] = await stored_runs(database, project_id)
    assert before <= run["occurred_at"] <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"traceId": "field", "metadata": {"traceId": "inside"}}, "field"),
        ({"metadata": {"traceId": "inside"}}, "inside"),
        ({"metadata": {"traceId": 7}}, None),
        ({"traceId": "field"}, "field"),
    ],
)
async def test_the_trace_id_of_the_field_wins_and_the_other_stays(
    client: httpx.AsyncClient, database: Database, project_id: str, sent: dict[str, Any], kept: str | None
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, **sent))

    [run] = await stored_runs(database, project_id)
    assert run["trace_id"] == kept
    assert run["metadata"] == sent.get("metadata")


async def test_user_session_tags_and_timing_of_a_run_are_stored(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    run = make_run(
        userId=" ann ", sessionId="s-1", timeToFirstTokenMs=210, finishReason="stop", tags=["beta", " eu ", "beta", ""]
    )

    await client.post("/api/ingest", json={"projectId": project_id, "runs": [run]})

    [kept] = await stored_runs(database, project_id)
    assert (kept["user_id"], kept["session_id"]) == ("ann", "s-1")
    assert (kept["time_to_first_token_ms"], kept["finish_reason"], kept["tags"]) == (210, "stop", ["beta", "eu"])


async def test_they_are_taken_from_metadata_where_their_fields_are_missing(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    metadata = {
        "user": 4711, "session_id": "s-2", "tags": ["beta"], "finishReason": "length", "timeToFirstTokenMs": 210.5,
    }  # fmt: skip
    runs = [make_run(runId="a", metadata=metadata), make_run(runId="b", metadata=metadata, userId="ann", tags=["eu"])]

    await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    whole, partly = await stored_runs(database, project_id)
    assert (whole["user_id"], whole["session_id"], whole["tags"]) == ("4711", "s-2", ["beta"])
    assert (whole["finish_reason"], whole["time_to_first_token_ms"]) == ("length", 211)
    assert (partly["user_id"], partly["session_id"], partly["tags"]) == ("ann", "s-2", ["eu"])
    assert whole["metadata"]["user"] == 4711


async def test_metadata_that_a_field_cannot_hold_leaves_it_empty_and_is_no_error(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    metadata = {"user": "x" * 257, "userId": {"id": 1}, "session": " ", "tags": ["x" * 65], "finishReason": 3}

    response = await client.post("/api/ingest", json=make_run(projectId=project_id, metadata=metadata))

    assert response.status_code == 200
    [kept] = await stored_runs(database, project_id)
    assert {kept[name] for name in ("user_id", "session_id", "tags", "finish_reason")} == {None}


async def test_metadata_that_the_operator_drops_does_not_fill_a_column(
    database_url: str, database: Database, project_id: str
) -> None:
    app = create_app(settings_for(database_url, content_keys="user"))
    async with app.test_app():
        await app.test_client().post(
            "/api/ingest",
            json=make_run(projectId=project_id, metadata={"user": "ann", "session": "s-1"}),
            headers={"Authorization": f"Bearer {INGEST_KEY}"},
        )

    [kept] = await stored_runs(database, project_id)
    assert (kept["user_id"], kept["session_id"], kept["metadata"]) == (None, "s-1", {"session": "s-1"})


async def test_unknown_fields_are_ignored_and_nulls_are_missing_fields(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    run = make_run(projectId=project_id) | {"novelty": {"a": 1}, "latencyMs": None, "metadata": None, "traceId": None}

    response = await client.post("/api/ingest", json=run)

    assert response.status_code == 200
    [kept] = await stored_runs(database, project_id)
    assert kept["latency_ms"] is None


async def test_numbers_in_metadata_keep_every_digit(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    body = (
        json.dumps(make_run(projectId=project_id)).removesuffix("}") + ', "metadata": {"n": 0.1000000000000000055511}}'
    )

    await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    async with database.connection() as connection:
        text = await connection.fetchval("SELECT metadata ->> 'n' FROM runs WHERE project_id = $1", project_id)
    assert text == "0.1000000000000000055511"


async def test_an_unknown_project_is_created_on_first_ingest(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id))

    async with database.connection() as connection:
        name = await connection.fetchval("SELECT name FROM projects WHERE id = $1", project_id)
    assert name == project_id


@pytest.mark.parametrize("number", ["0e-20000", "0e20000", "1e-301", "1e400"])
async def test_a_number_that_the_database_cannot_keep_is_refused(
    client: httpx.AsyncClient, project_id: str, number: str
) -> None:
    body = f'{{"projectId": "{project_id}", "provider": "acme", "model": "m", "metadata": {{"x": {number}}}}}'

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 422, "invalid_payload", paths={"metadata"})
