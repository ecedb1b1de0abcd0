"""GET /api/runs: single runs by the explorer's filters, page by page, for keys that may read them."""

import httpx
import pytest

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_run

RUNS = 60


@pytest.fixture
async def reader(client: httpx.AsyncClient, database: Database, project_id: str) -> dict[str, str]:
    """The reader of a project with more runs than a page has, of two models."""
    runs = [
        make_run(projectId=project_id, runId=f"run-{number:02}", model=f"model-{number % 2}", costUSD=0.125)
        for number in range(RUNS)
    ]
    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})
    assert response.status_code == 200, response.text
    async with database.session() as session:
        secret = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.RUNS_READ]).secret
    return {"Authorization": f"Bearer {secret}"}


async def test_each_run_is_on_one_page(client: httpx.AsyncClient, project_id: str, reader: dict[str, str]) -> None:
    first = (await client.get("/api/runs", headers=reader)).json()
    last = (await client.get(f"/api/runs?before={first['nextBefore']}", headers=reader)).json()

    assert (len(first["runs"]), len(last["runs"]), last["nextBefore"], last["leftOut"]) == (50, 10, None, None)
    assert {run["id"] for run in first["runs"] + last["runs"]} == {f"run-{number:02}" for number in range(RUNS)}
    assert {run["projectId"] for run in first["runs"]} == {project_id}
    assert {run["costUSD"] for run in first["runs"]} == {0.125}


async def test_filters_are_those_of_the_explorer(client: httpx.AsyncClient, reader: dict[str, str]) -> None:
    found = (await client.get("/api/runs?model=model-1", headers=reader)).json()

    assert len(found["runs"]) == RUNS // 2
    assert {run["model"] for run in found["runs"]} == {"model-1"}
    assert_error(await client.get("/api/runs?hue=model-1", headers=reader), 400, "invalid_filter", paths=["hue"])
    assert_error(await client.get("/api/runs?before=x", headers=reader), 400, "invalid_filter", paths=["before"])


async def test_runs_need_the_scope_for_them(
    client: httpx.AsyncClient, project_id: str, reader: dict[str, str], metrics_key: str
) -> None:
    metrics = {"Authorization": f"Bearer {metrics_key}"}
    assert_error(await client.get("/api/runs", headers=metrics), 403, "forbidden")
    assert_error(await client.get(f"/api/runs?projectId={project_id}-x", headers=reader), 403, "forbidden")
