"""GET /api/metrics, sentence by sentence of the contract."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import httpx
import pytest

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.files import CHECKOUT
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY, Server, client_of, settings_for
from webapp.app import create_app


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def read(client: httpx.AsyncClient, key: str, **parameters: str) -> dict[str, Any]:
    """The answer, with its numbers as exact decimals."""
    response = await client.get("/api/metrics", params=parameters, headers=bearer(key))
    assert response.status_code == 200, response.text
    body: dict[str, Any] = json.loads(response.text, parse_float=Decimal)
    return body


async def test_the_answer_has_the_documents_fields(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, status="error"))

    body = await read(client, metrics_key)

    assert set(body) == {"ok", "points", "costByProvider", "costByModel", "series"}
    point = body["points"][-1]
    assert point == {
        "t": point["t"],
        "costUSD": Decimal("0.0105"),
        "errorRate": Decimal("1.0"),
        "p95LatencyMs": 800,
        "runs": 1,
        "tokensIn": 1000,
        "tokensOut": 500,
    }
    assert body["series"][-1] == {name: point[name] for name in ("t", "costUSD", "errorRate", "p95LatencyMs")}
    assert body["costByProvider"] == {"acme": Decimal("0.0105")}
    assert body["costByModel"] == {"acme-large": Decimal("0.0105")}


@pytest.mark.parametrize("project_id", ["\0", "a\0b", " ", "x" * 129])
async def test_an_invalid_project_id_is_refused(client: httpx.AsyncClient, admin_key: str, project_id: str) -> None:
    response = await client.get("/api/metrics", params={"projectId": project_id}, headers=bearer(admin_key))

    assert_error(response, 422, "invalid_payload", paths={"projectId"})


@pytest.mark.parametrize(
    ("parameters", "buckets", "step"),
    [
        ({"range": "24h"}, 96, timedelta(minutes=15)),
        ({"range": "7d"}, 168, timedelta(hours=1)),
        ({"range": "30d"}, 120, timedelta(hours=6)),
        ({}, 168, timedelta(hours=1)),
        ({"range": "7d", "interval": "1d"}, 7, timedelta(days=1)),
        ({"range": "30d", "interval": "1h"}, 720, timedelta(hours=1)),
        ({"range": "24h", "interval": "6h"}, 4, timedelta(hours=6)),
        ({"range": "7d", "interval": "15m"}, 672, timedelta(minutes=15)),
    ],
)
async def test_every_bucket_is_there_and_the_last_one_holds_now(
    client: httpx.AsyncClient, metrics_key: str, parameters: dict[str, str], buckets: int, step: timedelta
) -> None:
    before = system_clock()
    points = (await read(client, metrics_key, **parameters))["points"]
    after = system_clock()

    times = [datetime.fromisoformat(point["t"]) for point in points]
    assert len(times) == buckets
    assert all(later - earlier == step for earlier, later in pairwise(times))
    # Another bucket may begin meanwhile.
    assert times[-1] <= after
    assert before < times[-1] + step
    assert all(point["t"].endswith("Z") for point in points)
    assert all(
        point | {"t": ""}
        == {"t": "", "costUSD": 0, "errorRate": 0, "p95LatencyMs": 0, "runs": 0, "tokensIn": 0, "tokensOut": 0}
        for point in points
    )


async def test_a_run_counts_as_soon_as_it_is_acknowledged_in_the_bucket_of_its_time(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    when = datetime.now(UTC) - timedelta(hours=30)

    await client.post("/api/ingest", json=make_run(projectId=project_id, timestamp=when.isoformat()))

    points = (await read(client, metrics_key))["points"]
    [hit] = [point for point in points if point["runs"]]
    assert datetime.fromisoformat(hit["t"]) <= when < datetime.fromisoformat(hit["t"]) + timedelta(hours=1)


async def test_sums_over_points_providers_and_models_agree_to_the_last_digit(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    runs = [
        make_run(
            provider=f"provider-{number % 3}",
            model=f"model-{number % 7}",
            costUSD=number / 7,
            timestamp=(datetime.now(UTC) - timedelta(hours=number)).isoformat(),
        )
        for number in range(100)
    ]
    await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    body = await read(client, metrics_key)

    total = sum(Decimal(point["costUSD"]) for point in body["points"])
    assert (
        total == sum(map(Decimal, body["costByProvider"].values())) == sum(map(Decimal, body["costByModel"].values()))
    )
    assert total > 0


async def test_errors_and_timeouts_are_failures(client: httpx.AsyncClient, project_id: str, metrics_key: str) -> None:
    runs = [make_run(status=status) for status in ("success", "error", "timeout", "success")]
    await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    points = (await read(client, metrics_key, range="30d"))["points"]

    assert sum(point["errorRate"] * point["runs"] for point in points) == 2


async def test_an_unpriced_run_counts_without_cost(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, model="unheard-of"))

    body = await read(client, metrics_key)

    assert sum(point["runs"] for point in body["points"]) == 1
    assert body["costByModel"] == {"unheard-of": 0}


async def test_a_tiny_cost_is_written_without_an_exponent(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, model="unheard-of", costUSD=1e-12))

    response = await client.get("/api/metrics", headers=bearer(metrics_key))

    assert '"unheard-of":0.000000000001' in response.text


@pytest.mark.parametrize("text", ["", "1h", "90d", "7D"])
async def test_another_range_is_refused(client: httpx.AsyncClient, metrics_key: str, text: str) -> None:
    response = await client.get("/api/metrics", params={"range": text}, headers=bearer(metrics_key))

    assert_error(response, 400, "invalid_range")


async def test_another_interval_is_refused(client: httpx.AsyncClient, metrics_key: str) -> None:
    response = await client.get("/api/metrics", params={"interval": "5m"}, headers=bearer(metrics_key))

    assert_error(response, 400, "invalid_interval")


async def test_a_project_key_infers_its_project_and_may_name_it(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id))

    inferred = await read(client, metrics_key)
    named = await read(client, metrics_key, projectId=project_id)

    assert inferred == named
    assert inferred["costByModel"]


async def test_a_key_never_reads_another_project(client: httpx.AsyncClient, project_id: str, metrics_key: str) -> None:
    response = await client.get(
        "/api/metrics", params={"projectId": f"{project_id}-other"}, headers=bearer(metrics_key)
    )

    assert_error(response, 403, "forbidden")


@pytest.mark.parametrize("value", ["1", "true"])
async def test_aggregate_needs_an_admin_key(client: httpx.AsyncClient, metrics_key: str, value: str) -> None:
    response = await client.get("/api/metrics", params={"aggregate": value}, headers=bearer(metrics_key))

    assert_error(response, 403, "forbidden")


async def test_an_admin_key_must_say_which_project(client: httpx.AsyncClient, admin_key: str) -> None:
    response = await client.get("/api/metrics", headers=bearer(admin_key))

    assert_error(response, 400, "project_not_inferred")


async def test_a_project_that_no_database_could_hold_is_refused(client: httpx.AsyncClient, admin_key: str) -> None:
    response = await client.get("/api/metrics", params={"projectId": "a\0b"}, headers=bearer(admin_key))

    assert_error(response, 422, "invalid_payload", paths=["projectId"])


async def test_an_admin_key_reads_any_project(client: httpx.AsyncClient, project_id: str, admin_key: str) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id))

    body = await read(client, admin_key, projectId=project_id)

    assert body["costByProvider"] == {"acme": Decimal("0.0105")}


async def test_aggregate_adds_all_projects_up(empty_database_url: str) -> None:
    async with Database(empty_database_url) as own, own.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=None, scopes=[Scope.ADMIN]).secret
    app = create_app(settings_for(empty_database_url))
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]  # Quart is more exact about what it is told.
    async with app.test_app(), httpx.AsyncClient(transport=transport, base_url="http://runtally") as client:
        for project in ("one", "two", "two"):
            run = make_run(projectId=project, model="unheard-of", costUSD=0.1)
            await client.post("/api/ingest", json=run, headers=bearer(INGEST_KEY))

        body = await read(client, key, aggregate="1")

    assert body["costByModel"] == {"unheard-of": Decimal("0.3")}
    assert sum(point["runs"] for point in body["points"]) == 3


async def test_a_key_without_the_scope_is_forbidden(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.RUNS_READ]).secret

    response = await client.get("/api/metrics", headers=bearer(key))

    assert_error(response, 403, "forbidden")


async def test_no_key_a_wrong_key_and_the_ingest_key_are_refused(
    client: httpx.AsyncClient, stranger: httpx.AsyncClient, project_id: str
) -> None:
    without = await stranger.get("/api/metrics", params={"projectId": project_id})
    wrong = await stranger.get("/api/metrics", headers=bearer("rt_wrong"))
    ingest = await client.get("/api/metrics", params={"projectId": project_id})

    assert_error(without, 401, "missing_key")
    assert_error(wrong, 401, "invalid_key", never=["rt_wrong"])
    assert_error(ingest, 401, "invalid_key")


async def test_in_dev_mode_everybody_is_admin_but_must_say_which_project(dev_server: Server) -> None:
    async with client_of(dev_server.url) as client:
        unsaid = await client.get("/api/metrics")
        project = await client.get("/api/metrics", params={"projectId": "any"})
        everything = await client.get("/api/metrics", params={"aggregate": "true"})

    assert_error(unsaid, 400, "project_not_inferred")
    assert (project.status_code, everything.status_code) == (200, 200)


async def test_the_readme_reads_metrics_as_pasted_in_dev_mode_too(dev_server: Server) -> None:
    [path] = re.findall(r'curl "http://127.0.0.1:8000(/api/metrics[^"]*)"', (CHECKOUT / "README.md").read_text())

    async with client_of(dev_server.url) as client:
        assert (await client.get(path)).status_code == 200
