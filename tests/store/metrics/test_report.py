"""Reports read from a real Postgres."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

import httpx
import pytest

from runtally.access.projects import erase
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.errors import NotFound
from runtally.metrics import cost_queries
from runtally.metrics.cost_queries import CostsByScope, select_costs_before
from runtally.metrics.looking import Looking
from runtally.metrics.only import EVERY_RUN, Only
from runtally.metrics.past import Past
from runtally.metrics.past_costs import PastCosts
from runtally.metrics.projects import Listing, Projects, ProjectSummary
from runtally.metrics.read import is_comparable, overview, project_report, read_metrics, read_sums
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
    assert report.previous is not None
    earlier = await read_metrics(connection, window.previous(now), project_id)
    assert [point.tally for point in report.previous.points] == [point.tally for point in earlier.points]
    assert (report.previous.models, report.previous.latency) == (earlier.models, earlier.latency)
    fine = await read_metrics(connection, Window.of(Range.WEEK, now).in_buckets_of(Range.WEEK.interval), project_id)
    assert {point.bucket: point for point in report.fine.points if point.tally.runs} == {
        point.bucket: point for point in fine.points if point.tally.runs
    }
    assert (await read_sums(connection, window, project_id)).models == report.metrics.models


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


def _week(connection: Connection, past: Past | None = None) -> Looking:
    return Looking(connection, Window.of(Range.WEEK, system_clock(), Range.WEEK.chart_interval), past or Past())


async def _listed(
    database: Database, past: Past | None = None, of_project: str | None = None, only: Only = EVERY_RUN
) -> tuple[Listing, dict[str, ProjectSummary]]:
    """All projects in a week, and each with all that is shown of it."""
    async with database.snapshot() as connection:
        projects = Projects(_week(connection, past), of_project, only)
        listing = await projects.listing()
        every = await projects.drawn(await projects.compared(listing.projects))
    return listing, {one.project.id: one for one in every}


async def test_the_overview_adds_up(client: httpx.AsyncClient, database: Database, project_id: str) -> None:
    await _post(client, project_id, 1, 2, 20)
    await _post(client, f"{project_id}-dear", 1, model="acme-cached", inputTokens=10**6)

    listing, found = await _listed(database)
    async with database.snapshot() as connection:
        report = await overview(_week(connection), None)

    total = sum((one.total.cost_usd for one in listing.projects), listing.archived.cost_usd)
    assert total == report.metrics.total.cost_usd
    mine = [one.project.id for one in listing.projects if one.project.id.startswith(project_id)]
    assert mine == [f"{project_id}-dear", project_id]
    one = found[project_id]
    assert one.total.runs == 2
    assert one.previous is not None
    assert found[f"{project_id}-dear"].previous is None
    assert one.total.cost_usd == Decimal("0.021")
    assert sum(one.costs) == pytest.approx(0.021)
    assert (one.today_usd, one.week_usd, one.month_usd) == (Decimal(0), Decimal("0.021"), Decimal("0.0315"))


async def test_what_is_remembered_of_past_days_follows_their_runs(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    past = Past()
    await _post(client, project_id, 1, 2, 9)
    await _listed(database, past)

    known = (await _listed(database, past))[1][project_id]
    await _post(client, project_id, 2, 9, status="error")
    late = (await _listed(database, past))[1][project_id]
    anew = (await _listed(database))[1][project_id]
    async with database.session() as session:
        await erase(session, OPERATOR, project_id)
    erased = (await _listed(database, past))[1].get(project_id)

    assert known.total.runs == 2
    assert (late.total.runs, late.total.failed) == (3, 1)
    assert (late.total, late.previous, late.month_usd) == (anew.total, anew.previous, anew.month_usd)
    assert erased is None or not erased.total.runs


async def test_what_experiments_came_to_follows_the_runs_of_past_days(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    past, one, other = Past(), f"{project_id}-one", f"{project_id}-other"

    async def runs(remembered: Past) -> dict[str, int]:
        async with database.snapshot() as connection:
            found = await project_report(connection, Range.WEEK, system_clock(), project_id, past=remembered)
        return {name: tally.runs for name, tally in found.report.experiments.items()}

    await _post(client, project_id, 0, 2, 3, experimentId=one)
    await _post(client, project_id, 0, 2, 9)
    first = [await runs(past), await runs(past)]
    await _post(client, project_id, 2, experimentId=other)
    await _post(client, project_id, 0, 3, experimentId=one)
    late = await runs(past)
    async with database.connection() as connection:
        # What was dropped has sums, and no run.
        await connection.execute("DELETE FROM runs WHERE project_id = $1 AND experiment_id = $2", project_id, other)
        await connection.execute("UPDATE projects SET dropped_before = '2026-01-02' WHERE id = $1", project_id)

    assert first == [{one: 3}, {one: 3}]
    assert late == await runs(Past()) | {other: 1} == {one: 5, other: 1}
    assert await runs(past) == await runs(Past()) == {one: 5}


async def test_the_costs_of_all_time_follow_the_runs_of_past_days(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    past = PastCosts()

    async def costs(remembered: PastCosts) -> dict[str, Decimal]:
        async with database.snapshot() as connection:
            found = await remembered.read(connection, project_id, system_clock())
        assert all(one.everywhere_usd >= one.here_usd for one in found)
        return {one.model: one.here_usd for one in found if one.here_usd}

    await _post(client, project_id, 0, 400)
    first = await costs(past)
    await _post(client, project_id, 0, 2, model="acme-cached")
    late = await costs(past)

    assert list(first.values()) == [Decimal("0.021")]
    assert late == await costs(PastCosts())
    assert late["acme-cached"] == Decimal("0.021")


async def test_the_costs_of_past_days_are_read_again_only_when_a_run_of_theirs_comes(
    client: httpx.AsyncClient, database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    async def counted(connection: Connection, scopes: Sequence[str], before: datetime) -> CostsByScope:
        read.append(len(scopes))
        return await select_costs_before(connection, scopes, before)

    monkeypatch.setattr(cost_queries, "select_costs_before", counted)
    past, now = PastCosts(), system_clock()
    for days_ago in (400, 0, 400):
        await _post(client, project_id, days_ago)
        async with database.snapshot() as connection:
            await past.read(connection, project_id, now)

    assert read == [2, 2]


async def test_of_one_model_the_overview_adds_up_as_well(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    await _post(client, project_id, 0, 1, 9)
    await _post(client, project_id, 0, 2, model="acme-cached", status="error")
    only = Only(model="acme-cached", provider="acme")

    listing, found = await _listed(database, only=only)
    async with database.snapshot() as connection:
        report = await overview(_week(connection), None, only)

    assert sum(one.total.runs for one in listing.projects) + listing.archived.runs == report.metrics.total.runs
    mine = found[project_id]
    assert (mine.total.runs, mine.total.failed) == (2, 2)
    assert (mine.today_usd, mine.week_usd, mine.month_usd) == (Decimal("0.0105"), Decimal("0.021"), Decimal("0.021"))
    assert sum(mine.costs) == pytest.approx(0.021)
    assert report.metrics.latency.p95_ms == 0


async def test_the_overview_of_one_project_holds_nothing_else(
    client: httpx.AsyncClient, database: Database, connection: Connection, project_id: str
) -> None:
    await _post(client, project_id, 1)
    await _post(client, f"{project_id}-other", 1)

    report = await overview(_week(connection), project_id)
    listing, _ = await _listed(database, of_project=project_id)

    assert [one.project.id for one in listing.projects] == [project_id]
    assert report.metrics.total.runs == 1


async def test_a_clock_that_is_ahead_counts_in_the_windows_that_reach_so_far(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    await _post(client, project_id, 0, -0.9)

    _, found = await _listed(database)

    now = system_clock()
    ahead = now + timedelta(days=0.9)
    week = Window.of(Range.WEEK, now, Range.WEEK.chart_interval)
    assert found[project_id].total.runs == 1 + (ahead < week.until)
    assert found[project_id].today_usd == Decimal("0.0105") * (1 + (ahead.date() == now.date()))


async def test_all_projects_are_compared_where_one_of_them_is_as_old(
    client: httpx.AsyncClient, connection: Connection, project_id: str
) -> None:
    await _post(client, project_id, 2)
    now = system_clock()
    week, day = (Window.of(one, now, one.chart_interval).previous(now) for one in (Range.WEEK, Range.DAY))

    assert not await is_comparable(connection, week, project_id)
    assert await is_comparable(connection, day, project_id)
    assert await is_comparable(connection, day, None)
