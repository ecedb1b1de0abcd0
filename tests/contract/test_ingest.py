"""POST /api/ingest, sentence by sentence of the contract."""

import asyncio
import gzip
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_run


async def stored(database: Database, project_id: str) -> list[dict[str, Any]]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM runs WHERE project_id = $1 ORDER BY id", project_id)
    return [dict(row) for row in rows]


async def test_a_single_run_is_stored_before_the_answer(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    response = await client.post("/api/ingest", json=make_run(projectId=project_id))

    assert response.status_code == 200
    [run] = await stored(database, project_id)
    assert response.json() == {"ok": True, "id": run["id"]}
    assert uuid.UUID(run["id"]).version == 7


async def test_a_batch_answers_its_ids_in_the_order_sent(client: httpx.AsyncClient, project_id: str) -> None:
    run_ids = [f"run-{number}" for number in (3, 1, 2)]

    response = await client.post(
        "/api/ingest", json={"projectId": project_id, "runs": [make_run(runId=run_id) for run_id in run_ids]}
    )

    assert response.json() == {"ok": True, "processed": 3, "ids": run_ids}


async def test_the_shared_key_is_taken_from_x_api_key_too(
    stranger: httpx.AsyncClient, client: httpx.AsyncClient, project_id: str
) -> None:
    key = client.headers["Authorization"].removeprefix("Bearer ")

    response = await stranger.post("/api/ingest", json=make_run(projectId=project_id), headers={"x-api-key": key})

    assert response.status_code == 200


async def test_a_request_without_a_key_is_refused(stranger: httpx.AsyncClient, project_id: str) -> None:
    response = await stranger.post("/api/ingest", json=make_run(projectId=project_id))

    assert_error(response, 401, "missing_key")
    assert response.headers["www-authenticate"] == 'Bearer realm="runtally"'


@pytest.mark.parametrize("header", [{"Authorization": "Bearer wrong-key"}, {"x-api-key": "wrong-key"}])
async def test_a_wrong_key_is_refused_and_not_echoed(
    stranger: httpx.AsyncClient, project_id: str, header: dict[str, str]
) -> None:
    response = await stranger.post("/api/ingest", json=make_run(projectId=project_id), headers=header)

    assert_error(response, 401, "invalid_key", never=["wrong-key"])
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_the_key_is_asked_for_before_the_body_is_read(stranger: httpx.AsyncClient) -> None:
    response = await stranger.post("/api/ingest", content=b"not json")

    assert_error(response, 401, "missing_key")


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[1, 2]", b'"text"', b'{"projectId": "p", ', b"null", b"\xff\xfe"])
async def test_a_body_that_is_no_json_object_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 400, "invalid_json")


async def test_json_nested_without_end_is_refused(client: httpx.AsyncClient, project_id: str) -> None:
    body = b'{"projectId": "%s", "metadata": %s1%s}' % (project_id.encode(), b"[" * 100_000, b"]" * 100_000)

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 400, "invalid_json")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_another_content_type_is_refused(client: httpx.AsyncClient, content_type: str) -> None:
    response = await client.post("/api/ingest", content=b"{}", headers={"Content-Type": content_type})

    assert_error(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/vnd.acme+json"])
async def test_any_json_content_type_is_accepted(client: httpx.AsyncClient, project_id: str, content_type: str) -> None:
    body = json.dumps(make_run(projectId=project_id))

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": content_type})

    assert response.status_code == 200


async def test_a_gzip_body_is_accepted(client: httpx.AsyncClient, project_id: str) -> None:
    body = gzip.compress(json.dumps(make_run(projectId=project_id, runId="packed")).encode())

    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert response.json() == {"ok": True, "id": "packed"}


async def test_a_gzip_body_of_several_members_is_read_whole(client: httpx.AsyncClient, project_id: str) -> None:
    plain = json.dumps(make_run(projectId=project_id, runId="in-parts")).encode()
    body = b"".join(gzip.compress(part) for part in (plain[:9], plain[9:], b"", b"\n"))

    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert response.json() == {"ok": True, "id": "in-parts"}


async def test_several_gzip_members_share_the_size_limit(client: httpx.AsyncClient) -> None:
    body = gzip.compress(b" " * (3 * 1024 * 1024)) * 2

    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert_error(response, 413, "body_too_large")


_PACKED = gzip.compress(b'{"projectId": "p", "provider": "acme", "model": "m"}', mtime=0)


@pytest.mark.parametrize(
    "body",
    [b"not gzip", _PACKED[:-6], b"", _PACKED * 2, _PACKED + b"more", _PACKED + gzip.compress(b"", mtime=0) * 200],
    ids=["other bytes", "cut off", "nothing", "two documents", "more after the end", "hundreds of members"],
)
async def test_a_broken_gzip_body_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert_error(response, 400, "invalid_json")


@pytest.mark.parametrize("field", ["errorCode", "prompt", "unheardOf", "metadata", "projectId"])
async def test_bytes_that_are_not_utf_8_are_no_json_in_whatever_field(client: httpx.AsyncClient, field: str) -> None:
    body = json.dumps(make_run(projectId="p")).encode()[:-1] + f', "{field}": "'.encode() + b'\xff"}'

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 400, "invalid_json")


async def test_an_unknown_content_encoding_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post(
        "/api/ingest", content=b"{}", headers={"Content-Type": "application/json", "Content-Encoding": "br"}
    )

    assert_error(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("project", [{}, {"projectId": None}, {"projectId": ""}, {"projectId": "  "}])
@pytest.mark.parametrize("rest", [make_run(), {"runs": [make_run()]}])
async def test_a_missing_or_blank_project_is_refused_single_and_batch(
    client: httpx.AsyncClient, project: dict[str, Any], rest: dict[str, Any]
) -> None:
    response = await client.post("/api/ingest", json=project | rest)

    assert_error(response, 400, "missing_project_id")


async def test_every_bad_field_of_every_bad_run_is_listed_at_once(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    runs = [
        make_run(inputTokens=-1, costUSD=-1, timestamp="never"),
        make_run(),
        "not a run",
        make_run(provider=None, status="odd"),
    ]

    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    assert_error(
        response,
        422,
        "invalid_payload",
        paths=[
            "runs[0].inputTokens",
            "runs[0].costUSD",
            "runs[0].timestamp",
            "runs[2]",
            "runs[3].provider",
            "runs[3].status",
        ],
        never=["never", "not a run", "odd"],
    )
    assert await stored(database, project_id) == []


async def test_skip_stores_the_good_runs_and_reports_the_others(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    runs = [make_run(runId="good"), make_run(latencyMs=-1), make_run(runId="better")]

    response = await client.post(
        "/api/ingest", params={"onError": "skip"}, json={"projectId": project_id, "runs": runs}
    )

    body = response.json()
    assert body["ids"] == ["good", "better"]
    assert body["processed"] == 2
    assert [rejected["index"] for rejected in body["rejected"]] == [1]
    assert body["rejected"][0]["details"][0]["path"] == "latencyMs"
    assert {run["id"] for run in await stored(database, project_id)} == {"good", "better"}


async def test_skip_without_a_bad_run_reports_none(client: httpx.AsyncClient, project_id: str) -> None:
    body = {"projectId": project_id, "runs": [make_run()]}

    response = await client.post("/api/ingest", params={"onError": "skip"}, json=body)

    assert response.json()["rejected"] == []
    assert "rejected" not in (await client.post("/api/ingest", json=body)).json()


async def test_an_unknown_on_error_is_refused(client: httpx.AsyncClient, project_id: str) -> None:
    response = await client.post(
        "/api/ingest", params={"onError": "ignore"}, json={"projectId": project_id, "runs": [make_run()]}
    )

    assert_error(response, 422, "invalid_payload", paths=["onError"])


@pytest.mark.parametrize("runs", [None, "many", {}, 7])
async def test_runs_that_are_no_array_are_refused(client: httpx.AsyncClient, project_id: str, runs: object) -> None:
    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    assert_error(response, 422, "invalid_payload", paths=["runs"])


async def test_an_empty_batch_is_refused(client: httpx.AsyncClient, project_id: str) -> None:
    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": []})

    assert_error(response, 422, "invalid_payload", paths=["runs"])


async def test_a_replayed_run_changes_nothing(client: httpx.AsyncClient, database: Database, project_id: str) -> None:
    first = await client.post("/api/ingest", json=make_run(projectId=project_id, runId="once", latencyMs=1))
    again = await client.post("/api/ingest", json=make_run(projectId=project_id, runId="once", latencyMs=2))

    assert first.json() == {"ok": True, "id": "once"}
    assert again.json() == {"ok": True, "id": "once", "duplicates": 1}
    [run] = await stored(database, project_id)
    assert run["latency_ms"] == 1


async def test_two_of_the_same_in_one_batch_are_one_run(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    runs = [make_run(runId="twin", latencyMs=1), make_run(runId="twin", latencyMs=2), make_run(runId="single")]

    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    assert response.json() == {"ok": True, "processed": 3, "ids": ["twin", "twin", "single"], "duplicates": 1}
    assert len(await stored(database, project_id)) == 2


async def test_the_same_runs_at_once_from_many_clients_are_stored_once(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    run_ids = [f"run-{number:02}" for number in range(40)]
    batches = [run_ids, run_ids[::-1]] * 8

    responses = await asyncio.gather(
        *(
            client.post("/api/ingest", json={"projectId": project_id, "runs": [make_run(runId=one) for one in batch]})
            for batch in batches
        )
    )

    assert {response.status_code for response in responses} == {200}
    assert sum(response.json().get("duplicates", 0) for response in responses) == 15 * 40
    assert len(await stored(database, project_id)) == 40


async def test_the_same_run_id_in_two_projects_is_two_runs(client: httpx.AsyncClient, project_id: str) -> None:
    first = await client.post("/api/ingest", json=make_run(projectId=project_id, runId="shared"))
    second = await client.post("/api/ingest", json=make_run(projectId=f"{project_id}-b", runId="shared"))

    assert "duplicates" not in first.json()
    assert "duplicates" not in second.json()


async def test_an_idempotency_key_is_accepted_and_not_enforced(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    for _ in range(2):
        await client.post("/api/ingest", json=make_run(projectId=project_id, idempotencyKey="same", id="mine"))

    runs = await stored(database, project_id)
    assert [(run["idempotency_key"], run["client_id"]) for run in runs] == [("same", "mine")] * 2


async def test_legacy_fields_fill_the_new_ones_where_these_are_missing(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    legacy = {"tokens": {"input": 10, "output": 20.0}, "cost": 0.25, "latency": 12.5}
    bare = {"projectId": project_id, "provider": "unknown", "model": "m"}
    new = {"inputTokens": 1, "outputTokens": 0, "costUSD": 0, "latencyMs": 0}

    await client.post("/api/ingest", json=bare | legacy | {"runId": "a"})
    await client.post("/api/ingest", json=bare | legacy | new | {"runId": "b"})

    old_run, new_run = await stored(database, project_id)
    assert (old_run["input_tokens"], old_run["output_tokens"], old_run["latency_ms"]) == (10, 20, 13)
    assert str(old_run["cost_usd"]) == "0.250000000000"
    assert (new_run["input_tokens"], new_run["output_tokens"], new_run["latency_ms"]) == (1, 0, 0)
    assert new_run["reported_cost_usd"] == 0


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

    [run] = await stored(database, project_id)
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

    [run] = await stored(database, project_id)
    assert run["occurred_at"] == datetime.fromisoformat(kept)


async def test_a_missing_timestamp_is_the_receipt_time(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    before = datetime.now(UTC)

    await client.post("/api/ingest", json=make_run(projectId=project_id))

    [run] = await stored(database, project_id)
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

    [run] = await stored(database, project_id)
    assert run["trace_id"] == kept
    assert run["metadata"] == sent.get("metadata")


async def test_unknown_fields_are_ignored_and_nulls_are_missing_fields(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    run = make_run(projectId=project_id) | {"novelty": {"a": 1}, "latencyMs": None, "metadata": None, "traceId": None}

    response = await client.post("/api/ingest", json=run)

    assert response.status_code == 200
    [kept] = await stored(database, project_id)
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
