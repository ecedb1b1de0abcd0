"""GET /api/runs: single runs by the explorer's filters, page by page, for keys that may read them."""

from datetime import datetime, timedelta

import httpx
import pytest
from quart import Quart

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.runs import run_groups
from tests.assertions import assert_error
from tests.factories import make_run

RUNS = 60


@pytest.fixture
def begin() -> datetime:
    return system_clock().replace(microsecond=0) - timedelta(hours=1)


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


async def test_each_session_is_on_one_page_with_the_figures_of_the_runs_that_match(
    client: httpx.AsyncClient, project_id: str, reader: dict[str, str], begin: datetime
) -> None:
    runs = [
        make_run(
            projectId=project_id,
            sessionId=f"session-{number // 2:02}",
            model=f"model-{number % 2}",
            costUSD=0.25,
            latencyMs=900,
            userId="ada",
            status="error" if number == 1 else "success",
            timestamp=(begin + timedelta(seconds=number)).isoformat(),
        )
        for number in range(2 * RUNS)
    ]
    assert (await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})).status_code == 200

    first = (await client.get("/api/sessions", headers=reader)).json()
    last = (await client.get(f"/api/sessions?before={first['nextBefore']}", headers=reader)).json()
    narrowed = (await client.get("/api/sessions?model=model-0&session=session-00", headers=reader)).json()

    found = [one["id"] for one in first["sessions"] + last["sessions"]]
    assert found == [f"session-{number:02}" for number in reversed(range(RUNS))]
    assert (len(first["sessions"]), last["nextBefore"], last["leftOut"]) == (50, None, None)
    at = [(begin + timedelta(seconds=number)).isoformat().replace("+00:00", "Z") for number in range(2)]
    figures = {"projectId": project_id, "id": "session-00", "unpriced": 0, "users": {"count": 1, "first": ["ada"]}}
    assert last["sessions"][-1] == figures | {
        "runs": 2, "failed": 1, "costUSD": 0.5, "firstAt": at[0], "lastAt": at[1], "durationMs": 1900,
        "models": {"count": 2, "first": ["model-0", "model-1"]},
    }  # fmt: skip
    assert narrowed["sessions"] == [figures | {
        "runs": 1, "failed": 0, "costUSD": 0.25, "firstAt": at[0], "lastAt": at[0], "durationMs": 900,
        "models": {"count": 1, "first": ["model-0"]},
    }]  # fmt: skip


async def test_what_a_list_of_sessions_leaves_out_is_said(
    app: Quart, client: httpx.AsyncClient, project_id: str, begin: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_groups, "MAX_RUNS", 10)
    at = [(begin + timedelta(seconds=number)).isoformat() for number in range(30)]
    runs = [
        make_run(projectId=project_id, sessionId=f"session-{number:02}", timestamp=one) for number, one in enumerate(at)
    ]
    assert (await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})).status_code == 200

    found = await (await app.test_client().get(f"/api/sessions?projectId={project_id}")).get_json()

    ids = [one["id"] for one in found["sessions"]]
    assert ids == [f"session-{number:02}" for number in reversed(range(30 - len(ids), 30))]
    assert 10 <= len(ids) < 30
    since = found["sessions"][-1]["firstAt"]
    assert found["leftOut"] == f"These are of runs since {since}: more than 50,000 match."


async def test_sessions_are_of_one_project_and_need_the_scope_for_runs(
    client: httpx.AsyncClient, admin_key: str, metrics_key: str, reader: dict[str, str]
) -> None:
    def of(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    assert_error(await client.get("/api/sessions", headers=of(metrics_key)), 403, "forbidden")
    assert_error(await client.get("/api/sessions", headers=of(admin_key)), 400, "invalid_filter", paths=["projectId"])
    assert_error(await client.get("/api/sessions?hue=1", headers=reader), 400, "invalid_filter", paths=["hue"])
    assert_error(await client.get("/api/sessions?before=x", headers=reader), 400, "invalid_filter", paths=["before"])


async def test_a_run_is_read_with_every_field_that_an_export_has_of_it(
    client: httpx.AsyncClient, project_id: str, reader: dict[str, str]
) -> None:
    sent = make_run(
        projectId=project_id, runId="whole", provider="openai", model="priced-by-the-client", costUSD=0.00000125,
        inputTokens=1_019, outputTokens=704, cachedInputTokens=111, cacheWriteTokens=812, reasoningTokens=97,
        units={"cacheWrite1h": 504, "webSearch": 2}, serviceTier="flex", region="eu", metadata={"release": "v2"},
    )  # fmt: skip
    assert (await client.post("/api/ingest", json=sent)).status_code == 200

    [run] = (await client.get("/api/runs?q=whole", headers=reader)).json()["runs"]

    fields = {"inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteTokens", "reasoningTokens", "units"}
    fields |= {"serviceTier", "region", "metadata", "costUSD"}
    assert {name: run[name] for name in fields} == {name: sent[name] for name in fields}
    assert (run["reportedCostUSD"], run["version"]) == (0.00000125, 1)
    assert "audioInputTokens" not in run
