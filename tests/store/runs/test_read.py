"""Looking runs up: every filter against a plain recount, every page of a walk, and what it says when it stops."""

import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.errors import NotFound
from runtally.runs import read, sorting, totals
from runtally.runs.archived import RunSource
from runtally.runs.read import RunPage
from runtally.runs.sorting import Order, SortKey, read_sorted
from runtally.runs.totals import read_totals
from runtally.runs.values import Direction, ListedRun, Position, Totals
from runtally.usage.filter import Period, RunFilter
from tests.factories import make_run
from tests.serving import Server, client_of

RUNS = 130


@pytest.fixture(scope="module")
def now() -> datetime:
    """The service that takes the runs sums recent ones in shorter buckets, so they have to be recent."""
    return system_clock()


def _sent(now: datetime) -> list[dict[str, Any]]:
    """Runs of two weeks, some of them at the same moment, each field with a few values."""
    rng = Random(7)  # noqa: S311  # Made-up runs are no secret.
    return [
        make_run(
            runId=f"run-{number:03}",
            provider=rng.choice(["acme", "zeta"]),
            model=rng.choice(["acme-large", "acme-cached", "other"]),
            status=rng.choice(["success", "success", "error", "timeout"]),
            costUSD=rng.choice([None, 0.5]),
            latencyMs=rng.choice([None, 100, 2_000]),
            inputTokens=rng.choice([10, 100_000]),
            experimentId=rng.choice([None, "experiment"]),
            traceId=rng.choice([None, "trace-a", "trace-b"]),
            metadata=rng.choice([None, {"user": "ann", "team": {"id": 7}}, {"user": "bob", "a.b": "c"}]),
            timestamp=(now - timedelta(hours=number // 4 * 8)).isoformat(),
        )
        for number in range(RUNS)
    ]


@pytest.fixture(scope="module")
async def project(server: Server, now: datetime) -> str:
    """A project with these runs, and another one with the same, so that no filter may mix them up. No test writes."""
    project_id = f"project-{uuid.uuid4().hex[:12]}"
    async with client_of(server.url, {"Authorization": f"Bearer {server.ingest_key}"}) as client:
        for id_ in (project_id, f"{project_id}-other"):
            response = await client.post("/api/ingest", json={"projectId": id_, "runs": _sent(now)})
            assert response.status_code == 200, response.text
    return project_id


@pytest.fixture
async def reading(database: Database) -> AsyncIterator[Connection]:
    """Of one moment, since the jobs of other tests' servers go on."""
    async with database.snapshot() as connection:
        yield connection


async def _pages(
    connection: Connection, run_filter: RunFilter, direction: Direction, now: datetime
) -> list[RunPage[ListedRun]]:
    """All pages from the newest to the oldest, or back again."""
    pages = [await read.read_page([RunSource(connection)], run_filter, now, Position())]
    while pages[-1].older:
        pages.append(
            await read.read_page([RunSource(connection)], run_filter, now, Position(Direction.OLDER, pages[-1].older))
        )
    if direction is Direction.OLDER:
        return pages
    back = [pages[-1]]
    while back[-1].newer:
        back.append(
            await read.read_page([RunSource(connection)], run_filter, now, Position(Direction.NEWER, back[-1].newer))
        )
    return back


def filters(now: datetime) -> dict[str, tuple[RunFilter, Callable[[dict[str, Any]], bool]]]:
    """Filters, and which of the sent runs match them."""
    return {
        "none": (RunFilter(), lambda _: True),
        "provider": (RunFilter(provider="zeta"), lambda run: run["provider"] == "zeta"),
        "model": (RunFilter(model="other"), lambda run: run["model"] == "other"),
        "unknown model": (RunFilter(model="none such"), lambda _: False),
        "status": (RunFilter.parse({"status": "success"}), lambda run: run["status"] == "success"),
        "failed": (RunFilter.parse({"status": "failed"}), lambda run: run["status"] != "success"),
        "timeout": (RunFilter.parse({"status": "timeout"}), lambda run: run["status"] == "timeout"),
        "experiment": (RunFilter(experiment_id="experiment"), lambda run: run.get("experimentId") == "experiment"),
        "trace": (RunFilter(trace_id="trace-a"), lambda run: run.get("traceId") == "trace-a"),
        "run id": (RunFilter(search="run-007"), lambda run: run["runId"] == "run-007"),
        "trace id": (RunFilter(search="trace-b"), lambda run: run.get("traceId") == "trace-b"),
        "latency": (
            RunFilter(min_latency_ms=101, max_latency_ms=2_000),
            lambda run: run.get("latencyMs") == 2_000,
        ),
        "metadata": (
            RunFilter(metadata_key="user", metadata_value="ann"),
            lambda run: (run.get("metadata") or {}).get("user") == "ann",
        ),
        "metadata key": (RunFilter(metadata_key="a.b"), lambda run: "a.b" in (run.get("metadata") or {})),
        "metadata key with a dot": (
            RunFilter(metadata_key="a.b", metadata_value="c"),
            lambda run: "a.b" in (run.get("metadata") or {}),
        ),
        "metadata below a key": (
            RunFilter(metadata_key="team.id", metadata_value="7"),
            lambda run: "team" in (run.get("metadata") or {}),
        ),
        "time": (
            RunFilter(since=now - timedelta(days=5), until=now - timedelta(days=2)),
            lambda run: now - timedelta(days=5) <= datetime.fromisoformat(run["timestamp"]) < now - timedelta(days=2),
        ),
        "several": (
            RunFilter.parse({"provider": "acme", "status": "failed", "experiment": "experiment", "maxLatency": "100"}),
            lambda run: (
                run["provider"] == "acme"
                and run["status"] != "success"
                and run.get("experimentId") == "experiment"
                and run.get("latencyMs") == 100
            ),
        ),
    }


FILTERS = tuple(filters(datetime(2026, 6, 15, tzinfo=UTC)))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("direction", Direction)
async def test_pages_hold_every_run_that_matches_once_and_in_order(
    reading: Connection, project: str, name: str, direction: Direction, now: datetime
) -> None:
    run_filter, matches = filters(now)[name]
    run_filter = run_filter.replace(project_id=project, range=Period.ALL)

    pages = await _pages(reading, run_filter, direction, now)

    found = [run for page in (pages if direction is Direction.OLDER else pages[::-1]) for run in page.runs]
    # Coming back, the newest page is a full one, so that it may repeat runs of the one before.
    ids = list(dict.fromkeys(run.id for run in found)) if direction is Direction.NEWER else [run.id for run in found]
    assert sorted(ids) == sorted(run["runId"] for run in _sent(now) if matches(run))
    assert (
        found == sorted(found, key=lambda run: (run.occurred_at, run.id), reverse=True) or direction is Direction.NEWER
    )
    assert {run.project_id for run in found} <= {project}
    assert all(page.stopped_at is None for page in pages)


@pytest.mark.parametrize("name", FILTERS)
async def test_totals_are_those_of_the_runs(reading: Connection, project: str, name: str, now: datetime) -> None:
    run_filter = filters(now)[name][0].replace(project_id=project, range=Period.ALL)
    runs = [run for page in await _pages(reading, run_filter, Direction.OLDER, now) for run in page.runs]

    totals = await read_totals([RunSource(reading)], run_filter, now)

    assert totals is not None
    assert totals.runs == len(runs)
    if totals.cost_usd is not None:
        assert totals.cost_usd == sum((run.cost_usd or Decimal(0) for run in runs), Decimal(0))
        assert totals.unpriced == sum(run.cost_usd is None for run in runs)


async def test_a_filter_by_cost_leaves_out_runs_without_a_price(
    reading: Connection, project: str, now: datetime
) -> None:
    run_filter = RunFilter(
        project_id=project, range=Period.ALL, min_cost_usd=Decimal("0.01"), max_cost_usd=Decimal("0.4")
    )

    runs = [run for page in await _pages(reading, run_filter, Direction.OLDER, now) for run in page.runs]

    assert runs
    assert all(run.cost_usd is not None and Decimal("0.01") <= run.cost_usd <= Decimal("0.4") for run in runs)


@pytest.mark.parametrize("narrower", [{}, {"model": "other"}, {"status": "failed"}, {"metadataKey": "user"}], ids=str)
async def test_all_projects_together_are_paged_like_one(
    reading: Connection, project: str, narrower: dict[str, str], now: datetime
) -> None:
    run_filter = RunFilter.parse(narrower).replace(range=Period.ALL)
    alone = [
        run
        for id_ in (project, f"{project}-other")
        for page in await _pages(reading, run_filter.replace(project_id=id_), Direction.OLDER, now)
        for run in page.runs
    ]

    everywhere = [run for page in await _pages(reading, run_filter, Direction.OLDER, now) for run in page.runs]

    assert [run for run in everywhere if run.project_id.startswith(project)] == _newest_first(alone)
    assert everywhere == _newest_first(everywhere)


@pytest.mark.parametrize("few", [1, 100])
async def test_the_newest_runs_are_the_first_of_all(
    reading: Connection, project: str, monkeypatch: pytest.MonkeyPatch, few: int, now: datetime
) -> None:
    """Of all projects, this one and whatever else there is."""
    assert project
    monkeypatch.setattr(read, "FEW_STEPS", few)
    run_filter = RunFilter(range=Period.ALL)

    newest = await read.read_newest([RunSource(reading)], run_filter, now, 20)

    assert len(newest) == 20
    assert newest == (await read.read_page([RunSource(reading)], run_filter, now, Position())).runs[:20]


async def test_a_scan_that_finds_little_stops_and_goes_on_where_it_stopped(
    reading: Connection, project: str, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    monkeypatch.setattr(read, "WALK_STEPS", 20)
    monkeypatch.setattr(read, "WALKS", 1)
    run_filter = RunFilter(project_id=project, range=Period.ALL, metadata_key="a.b")

    pages = await _pages(reading, run_filter, Direction.OLDER, now)

    assert pages[0].stopped_at is not None
    assert pages[-1].stopped_at is None
    runs = [run for page in pages for run in page.runs]
    assert sorted(run.id for run in runs) == sorted(
        run["runId"] for run in _sent(now) if "a.b" in (run.get("metadata") or {})
    )


async def test_a_page_is_filled_by_several_walks(
    reading: Connection, project: str, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    run_filter = RunFilter(project_id=project, range=Period.ALL, metadata_key="a.b")
    whole = await read.read_page([RunSource(reading)], run_filter, now, Position())
    monkeypatch.setattr(read, "WALK_STEPS", 8)

    page = await read.read_page([RunSource(reading)], run_filter, now, Position())

    assert page == whole
    assert len(page.runs) > 8


@pytest.mark.parametrize("of_project", [True, False])
async def test_too_many_runs_are_not_counted_in_part(
    reading: Connection, project: str, monkeypatch: pytest.MonkeyPatch, now: datetime, *, of_project: bool
) -> None:
    run_filter = RunFilter(project_id=project if of_project else None, range=Period.ALL, min_latency_ms=0)
    assert await read_totals([RunSource(reading)], run_filter, now) is not None
    monkeypatch.setattr(totals, "COUNTED_RUNS", 40)

    assert await read_totals([RunSource(reading)], run_filter, now) is None


async def test_the_runs_of_a_hardly_used_model_are_counted_among_many(
    reading: Connection, project: str, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    monkeypatch.setattr(totals, "COUNTED_RUNS", 60)
    run_filter = RunFilter(project_id=project, range=Period.ALL, min_latency_ms=0)

    assert await read_totals([RunSource(reading)], run_filter, now) is None
    assert await read_totals([RunSource(reading)], run_filter.replace(model="other"), now) is not None


@pytest.mark.parametrize("of_project", [True, False])
@pytest.mark.parametrize(
    ("since", "until"),
    [
        (timedelta(days=5, minutes=7), timedelta(days=2, minutes=3)),
        (timedelta(hours=17), timedelta(hours=-1)),
        (timedelta(days=30), timedelta(days=3, seconds=1)),
        (timedelta(minutes=50), timedelta(minutes=40)),
        (timedelta(hours=8), timedelta(hours=8, microseconds=-1)),
    ],
    ids=str,
)
async def test_any_time_is_added_up_exactly_from_whole_buckets_and_single_runs(  # noqa: PLR0913  # Fixtures and what is tried.
    reading: Connection, project: str, since: timedelta, until: timedelta, now: datetime, *, of_project: bool
) -> None:
    # Over all projects only the provider of these runs: other tests leave sums whose runs they drop or never had.
    whose = RunFilter(project_id=project) if of_project else RunFilter(provider="zeta")
    run_filter = whose.replace(since=now - since, until=now - until)
    runs = [run for page in await _pages(reading, run_filter, Direction.OLDER, now) for run in page.runs]

    assert await read_totals([RunSource(reading)], run_filter, now) == Totals(
        len(runs),
        sum((run.cost_usd for run in runs if run.cost_usd is not None), Decimal(0)),
        sum(run.cost_usd is None for run in runs),
    )


@pytest.mark.parametrize("of_project", [True, False])
@pytest.mark.parametrize("is_ascending", [True, False])
@pytest.mark.parametrize("key", SortKey)
async def test_sorted_pages_hold_each_run_once_in_order_with_unknown_values_last(  # noqa: PLR0913  # Fixtures and what is tried.
    reading: Connection,
    project: str,
    key: SortKey,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_ascending: bool,
    of_project: bool,
) -> None:
    """Of all projects the first pages, because other tests have runs too, be they ever so many."""
    monkeypatch.setattr(sorting, "SORTED_RUNS", 1_000_000)
    run_filter = RunFilter(project_id=project if of_project else None, range=Period.ALL, provider="zeta")
    every = [run for page in await _pages(reading, run_filter, Direction.OLDER, now) for run in page.runs]

    pages = [
        await read_sorted([RunSource(reading)], run_filter, now, Order(key, is_ascending=is_ascending), number)
        for number in range(1, 4)
    ]

    found = [run for page in pages for run in page.runs]
    known = sorted((value for run in every if (value := getattr(run, key)) is not None), reverse=not is_ascending)
    expected = [*known, *[None] * (len(every) - len(known))]
    assert [getattr(run, key) for run in found] == expected[: 3 * sorting.PAGE_RUNS]
    assert len({(run.project_id, run.id) for run in found}) == len(found)
    assert [page.has_more for page in pages] == [len(every) > number * sorting.PAGE_RUNS for number in range(1, 4)]
    assert all(page.since is None for page in pages)


@pytest.mark.parametrize("of_project", [True, False])
async def test_of_too_many_runs_the_newest_are_sorted_and_the_page_says_since_when(
    reading: Connection, project: str, monkeypatch: pytest.MonkeyPatch, now: datetime, *, of_project: bool
) -> None:
    monkeypatch.setattr(sorting, "SORTED_RUNS", 40)
    run_filter = RunFilter(project_id=project if of_project else None, range=Period.ALL)

    page = await read_sorted([RunSource(reading)], run_filter, now, Order(SortKey.LATENCY), 1)

    assert page.since is not None
    assert page.runs
    assert all(run.occurred_at >= page.since for run in page.runs)


async def test_a_page_that_has_all_needs_no_count(reading: Connection, project: str, now: datetime) -> None:
    run_filter = RunFilter(project_id=project, range=Period.ALL, experiment_id="experiment", model="other")
    page = await read.read_page([RunSource(reading)], run_filter, now, Position())

    assert read.totals_of(page) == await read_totals([RunSource(reading)], run_filter, now)
    assert (
        read.totals_of(await read.read_page([RunSource(reading)], RunFilter(project_id=project), now, Position()))
        is None
    )


async def test_an_unknown_run_is_not_found(reading: Connection, project_id: str) -> None:
    with pytest.raises(NotFound):
        await read.read_run(reading, reading, project_id, "none")
    with pytest.raises(NotFound):
        await read.read_trace(reading, project_id, "none")


def _newest_first(runs: list[ListedRun]) -> list[ListedRun]:
    return sorted(runs, key=lambda run: (run.occurred_at, run.id, run.project_id), reverse=True)
