"""Blanks at the ends of an id, which nobody sees, are dropped on every way in: an id that was sent with them is found without."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.project import ApiKey
from tests.factories import make_run
from tests.pages.looking import html_of, text_of
from tests.serving import INGEST_KEY

IDS = ("run_id", "experiment_id", "trace_id", "session_id", "user_id")
HEADERS = {"Authorization": f"Bearer {INGEST_KEY}"}


def blank(id_: str) -> str:
    return f" \t{id_}\u00a0\ufeff "


def in_address(id_: str) -> str:
    return quote(blank(id_), safe="")


async def stored(database: Database, project_id: str) -> dict[str, Any]:
    async with database.connection() as connection:
        [row] = await connection.fetch("SELECT *, id AS run_id FROM runs WHERE project_id = $1", project_id)
    return dict(row)


async def test_ids_of_a_run(app: Quart, database: Database, project_id: str) -> None:
    run = make_run(**{name: blank(name) for name in ("runId", "experimentId", "traceId", "sessionId", "userId")})
    client = app.test_client()
    single = {**run, "projectId": blank(project_id)}
    batch = {"projectId": project_id, "runs": [{**run, "runId": "runId"}, run]}

    first = await client.post("/api/ingest", json=single, headers=HEADERS)
    again = await client.post("/api/ingest", json=batch, headers=HEADERS)

    assert (await first.get_json())["id"] == "runId"
    assert (await again.get_json())["ids"] == ["runId", "runId"]
    assert (await again.get_json())["duplicates"] == 2
    row = await stored(database, project_id)
    assert [row[name] for name in IDS] == ["runId", "experimentId", "traceId", "sessionId", "userId"]


async def test_ids_in_metadata(app: Quart, database: Database, project_id: str) -> None:
    metadata = {"traceId": blank("t"), "session": blank("s"), "user": blank("u")}
    body = make_run(projectId=project_id, metadata=metadata)

    await app.test_client().post("/api/ingest", json=body, headers=HEADERS)

    row = await stored(database, project_id)
    assert (row["trace_id"], row["session_id"], row["user_id"]) == ("t", "s", "u")


async def test_an_id_of_only_blanks_counts_as_missing(app: Quart, database: Database, project_id: str) -> None:
    run = make_run(**dict.fromkeys(("runId", "experimentId", "traceId", "sessionId", "userId"), " \t"))

    answer = await app.test_client().post("/api/ingest", json={**run, "projectId": project_id}, headers=HEADERS)
    without = await app.test_client().post("/api/ingest", json={**run, "projectId": blank("")}, headers=HEADERS)

    assert answer.status_code == 200
    row = await stored(database, project_id)
    assert [row[name] for name in IDS[1:]] == [None] * 4
    assert len(row["id"]) == 36
    assert (await without.get_json())["error"]["code"] == "missing_project_id"


async def test_ids_in_queries(
    app: Quart, database: Database, reader: Browser, post: Callable[..., Any], project_id: str
) -> None:
    await post(make_run(runId="race", experimentId="e", traceId="t"))
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ]).secret
    query = f"project={in_address(project_id)}&experiment={in_address('e')}"

    metrics = await app.test_client().get(
        f"/api/metrics?projectId={in_address(project_id)}", headers={"Authorization": f"Bearer {key}"}
    )
    file = await reader.get(f"/runs/export.jsonl?{query}&trace={in_address('t')}&q={in_address('race')}")

    assert sum(point["runs"] for point in (await metrics.get_json())["points"]) == 1
    assert json.loads(await file.get_data(as_text=True))["id"] == "race"
    assert "race" in await html_of(reader, f"/runs?{query}")
    assert (await reader.get(f"/charts/cost.json?{query}")).status_code == 200
    assert (await reader.get(f"/experiments?project={in_address(project_id)}")).status_code == 200


async def test_ids_in_paths(app: Quart, reader: Browser, post: Callable[..., Any], project_id: str) -> None:
    experiment_id = f"e-{project_id}"
    await post(make_run(runId="race", experimentId=experiment_id, traceId="t"))
    project = in_address(project_id)

    for path in (
        f"/projects/{project}",
        f"/projects/{project}/settings",
        f"/projects/{project}/runs/{in_address('race')}",
        f"/projects/{project}/traces/{in_address('t')}",
        f"/experiments/{project}/{in_address(experiment_id)}",
    ):
        assert (await reader.get(path)).status_code == 200, path
    badge = await app.test_client().get(f"/api/badge/experiment/{in_address(experiment_id)}.json?project={project}")
    assert await badge.get_json() == {"status": "pass"}
    assert (await reader.get("/experiments/%20/x")).status_code == 404


async def test_an_id_of_any_length_has_its_page(reader: Browser, post: Callable[..., Any], project_id: str) -> None:
    await post(make_run(runId="r" * 256, traceId="t" * 256))

    assert (await reader.get(f"/projects/{project_id}/runs/{'r' * 256}")).status_code == 200
    assert (await reader.get(f"/projects/{project_id}/traces/{'t' * 256}")).status_code == 200
    assert (await reader.get(f"/projects/{project_id}/runs/{'r' * 257}")).status_code == 404


async def test_ids_in_forms(reader: Browser, post: Callable[..., Any], project_id: str, provider: str) -> None:
    await post()
    price = {"provider": provider, "model": "m", "match": "exact", "input_per_million": "1", "output_per_million": "1"}

    answer = await reader.post("/admin/prices/new", form={**price, "project_id": blank(project_id)})

    assert answer.status_code == 303
    assert project_id in text_of(await html_of(reader, f"/admin/prices?q={provider}"))


@pytest.mark.parametrize("id_", ["p", blank("p")])
async def test_ids_of_keys(database: Database, id_: str) -> None:
    async with database.session() as session:
        issued = issue(session, system_clock(), OPERATOR, project_id=id_, scopes=[Scope.METRICS_READ])
    async with database.session() as session:
        key = await session.get(ApiKey, issued.row.id)

    assert key is not None
    assert key.project_id == "p"
