"""POST /api/ingest, sentence by sentence of the contract: who may, what for, once and all or nothing."""

import asyncio
import uuid
from typing import Any

import httpx
import pytest

from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_run
from tests.stored import stored_runs


async def test_a_single_run_is_stored_before_the_answer(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    response = await client.post("/api/ingest", json=make_run(projectId=project_id))

    assert response.status_code == 200
    [run] = await stored_runs(database, project_id)
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
    assert await stored_runs(database, project_id) == []


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
    assert {run["id"] for run in await stored_runs(database, project_id)} == {"good", "better"}


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
    [run] = await stored_runs(database, project_id)
    assert run["latency_ms"] == 1


async def test_two_of_the_same_in_one_batch_are_one_run(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    runs = [make_run(runId="twin", latencyMs=1), make_run(runId="twin", latencyMs=2), make_run(runId="single")]

    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    assert response.json() == {"ok": True, "processed": 3, "ids": ["twin", "twin", "single"], "duplicates": 1}
    assert len(await stored_runs(database, project_id)) == 2


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
    assert len(await stored_runs(database, project_id)) == 40


async def test_the_same_run_id_in_two_projects_is_two_runs(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    first = await client.post("/api/ingest", json=make_run(projectId=project_id, runId="shared"))
    second = await client.post("/api/ingest", json=make_run(projectId=f"{project_id}-b", runId="shared"))

    for response in (first, second):
        assert response.status_code == 200
        assert "duplicates" not in response.json()
    assert len(await stored_runs(database, project_id)) == 1
    assert len(await stored_runs(database, f"{project_id}-b")) == 1


async def test_an_idempotency_key_is_accepted_and_not_enforced(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    for _ in range(2):
        await client.post("/api/ingest", json=make_run(projectId=project_id, idempotencyKey="same", id="mine"))

    runs = await stored_runs(database, project_id)
    assert [(run["idempotency_key"], run["client_id"]) for run in runs] == [("same", "mine")] * 2
