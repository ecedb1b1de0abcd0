"""Reports read from a real Postgres."""

from datetime import timedelta
from decimal import Decimal

import httpx
import pytest

from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.errors import NotFound
from runtally.metrics.only import Only
from runtally.metrics.read import overview, project_report, read_metrics, read_span, read_sums
from runtally.metrics.report import Spending
from runtally.metrics.window import Range, Window
from tests.factories import make_run


async def _post(client: httpx.AsyncClient, project_id: str, *days_ago: float, **fields: object) -> None:
    now = system_clock()
    runs = [make_run(timestamp=(now - timedelta(days=days)).isoformat(), **fields) for days in days_ago]
    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})
    assert response.is_success, response.text


async def test_a_report_agrees_with_the_metrics_of_its_window(
    client: httpx.AsyncClient, connection: Connection, project_id: str
) -> None:
    await _post(client, project_id, 0.01, 1, 3, 9, 20)
    now = system_clock()
    window = Window.of(Range.WEEK, now, Range.WEEK.chart_interval)

    report = (await project_report(connection, Range.WEEK, now, project_id)).report

    metrics = await read_metrics(connection, window, project_id)
    assert [point.tally for point in report.metrics.points] == [point.tally for point in metrics.points]
    assert report.metrics.latency == metrics.latency
    assert report.metrics.total == report.fine.total
    assert report.metrics.total.runs == 3
    assert report.previous == await read_metrics(connection, window.previous(now), project_id)
    assert (await read_sums(connection, window, project_id)).cells == metrics.cells


async def test_a_project_that_is_younger_than_the_period_before_is_not_compared_with_it(
    client: httpx.AsyncClient, connection: Connection, project_id: str
) -> None:
    await _post(client, project_id, 1, 9)
    now = system_clock()

    week = (await project_report(connection, Range.WEEK, now, project_id)).report
    day = (await project_report(connection, Range.DAY, now, project_id)).report

    assert week.previous is None
    assert day.previous is not None


async def test_a_project_that_never_was_is_not_found(connection: Connection, project_id: str) -> None:
    with pytest.raises(NotFound, match="first run"):
        await project_report(connection, Range.WEEK, system_clock(), project_id)


async def test_the_overview_adds_up(client: httpx.AsyncClient, database: Database, project_id: str) -> None:
    await _post(client, project_id, 1, 2, 20)
    await _post(client, f"{project_id}-dear", 1, model="acme-cached", inputTokens=10**6)

    async with database.connection() as connection, connection.transaction(isolation="repeatable_read"):
        found = await overview(connection, Range.WEEK, system_clock(), None)

    total = sum((one.total.cost_usd for one in found.projects), found.archived.cost_usd)
    assert total == found.report.metrics.total.cost_usd
    mine = [one for one in found.projects if one.project.id.startswith(project_id)]
    assert [one.project.id for one in mine] == [f"{project_id}-dear", project_id]
    assert mine[1].total.runs == 2
    assert mine[1].previous is not None
    assert mine[0].previous is None
    assert mine[1].total.cost_usd == Decimal("0.021")
    assert sum(mine[1].costs) == pytest.approx(0.021)
    assert mine[1].spending == Spending(Decimal(0), Decimal("0.021"), Decimal("0.0315"))


async def test_of_one_model_the_overview_adds_up_as_well(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    await _post(client, project_id, 0, 1, 9)
    await _post(client, project_id, 0, 2, model="acme-cached", status="error")
    only = Only(model="acme-cached", provider="acme")

    async with database.connection() as connection, connection.transaction(isolation="repeatable_read"):
        found = await overview(connection, Range.WEEK, system_clock(), None, only)

    assert sum(one.total.runs for one in found.projects) + found.archived.runs == found.report.metrics.total.runs
    [mine] = [one for one in found.projects if one.project.id == project_id]
    assert (mine.total.runs, mine.total.failed) == (2, 2)
    assert mine.spending == Spending(Decimal("0.0105"), Decimal("0.021"), Decimal("0.021"))
    assert found.report.metrics.latency.p95_ms == 0


async def test_the_overview_of_one_project_holds_nothing_else(
    client: httpx.AsyncClient, connection: Connection, project_id: str
) -> None:
    await _post(client, project_id, 1)
    await _post(client, f"{project_id}-other", 1)

    found = await overview(connection, Range.WEEK, system_clock(), project_id)

    assert [one.project.id for one in found.projects] == [project_id]
    assert found.report.metrics.total.runs == 1


async def test_a_span_is_from_the_first_to_the_last_run(
    client: httpx.AsyncClient, connection: Connection, project_id: str
) -> None:
    nothing = await read_span(connection, project_id)
    await _post(client, project_id, 2, 1, 5)

    span = await read_span(connection, project_id)

    assert (nothing.first_run_at, nothing.last_run_at) == (None, None)
    assert span.first_run_at is not None
    assert span.last_run_at is not None
    assert span.last_run_at - span.first_run_at == timedelta(days=4)
