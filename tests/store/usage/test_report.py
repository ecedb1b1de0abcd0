"""Reports read from a real Postgres."""

from datetime import timedelta
from decimal import Decimal

import httpx
import pytest

from runtally.access.projects import erase
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.errors import NotFound
from runtally.ids import uuid7
from runtally.usage import read
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.memo import DayMemo
from runtally.usage.overview.projects import Listing, Projects, ProjectSummary
from runtally.usage.plan import LatencyDetail
from runtally.usage.read import is_comparable, overview
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.window import Range, Window
from tests.factories import make_run
from tests.store.usage.made import NOW, insert, made
from tests.summaries import new_memo, read_report, read_summary


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

    report = (await read_report(connection, Range.WEEK, now, project_id)).report

    metrics = await read_summary(connection, window, project_id)
    assert [point.totals for point in report.bars.points] == [point.totals for point in metrics.points]
    assert report.bars.latency == metrics.latency
    assert report.bars.total == report.lines.total
    assert report.bars.total.runs == 3
    assert report.previous is not None
    earlier = await read_summary(connection, window.previous(now), project_id)
    assert [point.totals for point in report.previous.points] == [point.totals for point in earlier.points]
    assert (report.previous.groups, report.previous.latency) == (earlier.groups, earlier.latency)
    fine = await read_summary(connection, report.lines.window, project_id)
    assert {point.bucket: point for point in report.lines.points if point.totals.runs} == {
        point.bucket: point for point in fine.points if point.totals.runs
    }
    assert (
        await read_summary(connection, window, project_id, latencies=LatencyDetail.NONE)
    ).groups == report.bars.groups


async def test_a_project_that_is_younger_than_the_period_before_is_not_compared_with_it(
    client: httpx.AsyncClient, connection: Connection, project_id: str
) -> None:
    await _post(client, project_id, 1, 9)
    now = system_clock()

    week = (await read_report(connection, Range.WEEK, now, project_id)).report
    day = (await read_report(connection, Range.DAY, now, project_id)).report

    assert week.previous is None
    assert day.previous is not None


async def test_a_project_that_never_was_is_not_found(connection: Connection, project_id: str) -> None:
    with pytest.raises(NotFound, match="first run"):
        await read_report(connection, Range.WEEK, system_clock(), project_id)


def _week() -> Window:
    return Window.of(Range.WEEK, system_clock(), Range.WEEK.chart_interval)


def _reader(connection: Connection, memo: DayMemo | None = None, of_project: str | None = None) -> UsageReader:
    return UsageReader.of_page(Snapshots.of(connection, memo or DayMemo(0)), _week(), of_project)


async def _listed(
    database: Database, memo: DayMemo | None = None, of_project: str | None = None, run_filter: RunFilter = ALL_RUNS
) -> tuple[Listing, dict[str, ProjectSummary]]:
    """All projects in a week, and each with all that is shown of it."""
    async with database.snapshot() as connection:
        projects = Projects(_reader(connection, memo, of_project), _week(), run_filter)
        listing = await projects.listing()
        every = await projects.drawn(await projects.compared(listing.projects))
    return listing, {one.project.id: one for one in every}


async def test_the_overview_adds_up(client: httpx.AsyncClient, database: Database, project_id: str) -> None:
    await _post(client, project_id, 1, 2, 20)
    await _post(client, f"{project_id}-dear", 1, model="acme-cached", inputTokens=10**6)

    listing, found = await _listed(database)
    async with database.snapshot() as connection:
        report = await overview(_reader(connection), _week())

    total = sum((one.total.cost_usd for one in listing.projects), listing.hidden.cost_usd)
    assert total == report.bars.total.cost_usd
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
    memo = new_memo()
    await _post(client, project_id, 1, 2, 9)
    await _listed(database, memo)

    known = (await _listed(database, memo))[1][project_id]
    await _post(client, project_id, 2, 9, status="error")
    late = (await _listed(database, memo))[1][project_id]
    anew = (await _listed(database))[1][project_id]
    async with database.session() as session:
        await erase(session, OPERATOR, project_id)
    erased = (await _listed(database, memo))[1].get(project_id)

    assert known.total.runs == 2
    assert (late.total.runs, late.total.failed) == (3, 1)
    assert (late.total, late.previous, late.month_usd) == (anew.total, anew.previous, anew.month_usd)
    assert erased is None or not erased.total.runs


async def test_what_experiments_came_to_follows_the_runs_of_past_days(own: Database) -> None:
    memo, one, other = new_memo(), "one", "other"

    async def store(experiment_id: str | None, *days_ago: int) -> None:
        sent = [made("p", str(uuid7()), timedelta(days=days, minutes=1)) for days in days_ago]
        for run in sent:
            run.experiment_id = experiment_id
        await insert(own, sent)

    async def runs(remembered: DayMemo) -> dict[str, int]:
        async with own.snapshot() as connection:
            found = await read_report(connection, Range.WEEK, NOW, "p", memo=remembered)
        return {name: totals.runs for name, totals in found.report.experiments.items()}

    await store(one, 0, 2, 3)
    await store(None, 0, 2, 9)
    first = [await runs(memo), await runs(memo)]
    await store(other, 2)
    await store(one, 0, 3)
    late = await runs(memo)
    async with own.connection() as connection:
        # What was dropped has sums, and no run.
        await connection.execute("DELETE FROM runs WHERE experiment_id = $1", other)
        await connection.execute("UPDATE projects SET dropped_before = '2026-01-02'")

    assert first == [{one: 3}, {one: 3}]
    assert late == await runs(new_memo()) | {other: 1} == {one: 5, other: 1}
    assert await runs(memo) == await runs(new_memo()) == {one: 5}


async def test_lines_have_longer_buckets_where_shorter_ones_would_have_few_runs(
    client: httpx.AsyncClient, connection: Connection, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _post(client, project_id, 0.1, 1, 2, 3, 5)

    for fewest, hours in ((read.FEWEST_RUNS, 6), (0.01, 1)):
        monkeypatch.setattr(read, "FEWEST_RUNS", fewest)
        found = await read.project_report(_reader(connection, of_project=project_id), _week())

        lines = found.report.lines
        assert lines.window.interval == timedelta(hours=hours)
        assert sum(one.totals.runs for one in lines.points) == found.report.bars.total.runs == 5
        assert sum(1 for one in lines.points if one.latency.p95_ms) == 5


async def test_of_one_model_the_overview_adds_up_as_well(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    await _post(client, project_id, 0, 1, 9)
    await _post(client, project_id, 0, 2, model="acme-cached", status="error")
    only = RunFilter(model="acme-cached", provider="acme")

    listing, found = await _listed(database, run_filter=only)
    async with database.snapshot() as connection:
        report = await overview(_reader(connection), _week(), only)

    assert sum(one.total.runs for one in listing.projects) + listing.hidden.runs == report.bars.total.runs
    mine = found[project_id]
    assert (mine.total.runs, mine.total.failed) == (2, 2)
    assert (mine.today_usd, mine.week_usd, mine.month_usd) == (Decimal("0.0105"), Decimal("0.021"), Decimal("0.021"))
    assert sum(mine.costs) == pytest.approx(0.021)
    assert report.bars.latency.p95_ms == 0


async def test_the_overview_of_one_project_holds_nothing_else(
    client: httpx.AsyncClient, database: Database, connection: Connection, project_id: str
) -> None:
    await _post(client, project_id, 1)
    await _post(client, f"{project_id}-other", 1)

    report = await overview(_reader(connection, of_project=project_id), _week())
    listing, _ = await _listed(database, of_project=project_id)

    assert [one.project.id for one in listing.projects] == [project_id]
    assert report.bars.total.runs == 1


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

    assert not await is_comparable(Snapshots.of(connection, DayMemo(0)), week, project_id)
    assert await is_comparable(Snapshots.of(connection, DayMemo(0)), day, project_id)
    assert await is_comparable(Snapshots.of(connection, DayMemo(0)), day, None)
