"""Metrics of coding agents over OTLP, in projects that ask for them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from runtally.db.database import Database
from runtally.ingest.writer import Writer
from tests.otlp import JSON, PROTOBUF, ids_of
from tests.serving import INGEST_KEY, settings_for
from tests.spans import SECOND, START, Json, as_json, as_protobuf, make_metrics, make_point, make_sum
from tests.stored import stored_runs
from webapp.app import create_app


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
    put = Writer.put

    def counted(writer: Writer, runs: Any, *rest: Any) -> None:  # noqa: ANN401  # As the original.
        stored.append(len(runs))
        put(writer, runs, *rest)

    monkeypatch.setattr(Writer, "put", counted)
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
