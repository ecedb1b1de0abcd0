"""The lines of many runs' costs, compared with the lines of each run."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.errors import DimensionNotTracked
from runtally.ingest.queries import insert_runs
from runtally.models.price import ProjectDiscount
from runtally.models.run import CostSource, Status, StoredRun
from runtally.pricing.book import PriceBook, load_book
from runtally.pricing.cost import resolve_cost
from runtally.pricing.queries import select_candidates, select_discounts
from runtally.runs import cost_lines
from runtally.runs.cost_lines import CHANGED, REMOVED, REPORTED, CostLines, GroupLines, read_cost_lines
from runtally.runs.read import explain
from runtally.units import COUNT_COLUMNS
from runtally.usage.dimensions import MODEL, OTHER, TAGS, USER
from runtally.usage.filter import RunFilter
from runtally.usage.memo import DayMemo
from runtally.usage.plan import Question
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan
from tests.factories import LONG_AGO, examples, make_price
from tests.serving import Postgres
from tests.summaries import new_memo

# A Friday.
NOW = datetime(2026, 3, 27, 13, 7, 5, 123456, tzinfo=UTC)
SPAN = TimeSpan(datetime(2026, 3, 24, 6, tzinfo=UTC), NOW)
PROJECT, OTHER_PROJECT = "lines", "lines-other"
PARTS = {"cacheWrite1h": 6, "imageInput": 4, "cachedAudioInput": 1, "webSearch": 10, "audioSeconds": Decimal("0.36")}
PRICES: list[dict[str, Any]] = [
    {"model": "plain", "per_thousand_requests": Decimal(5)},
    {
        "model": "parts",
        "cache_read_per_million": Decimal("0.3"),
        "cache_write_per_million": Decimal("3.75"),
        "reasoning_per_million": Decimal(20),
        "audio_input_per_million": Decimal(40),
        "unit_rates": ", ".join(f"{name} {usd}" for name, usd in PARTS.items()),
        "variants": "tier batch: x 0.5\nregion us: x 1.1\nabove 2000: x 2\nhours 01:00-04:30; weekdays 1-5: input 7",
    },
    {"model": "tiers", "variants": "tier batch flex: input 1, output 2\nregion !eu: x 1.1"},
]


@pytest.fixture(scope="module")
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    """Of the module's own: its prices and discounts are no other test's."""
    async with Database(postgres.create_seeded("cost_lines")) as database:
        async with database.session() as session:
            for columns in PRICES:
                session.add(make_price(provider="made", **columns))
            for percent, start, end in (
                (Decimal(10), None, NOW - timedelta(days=1)),
                (7, NOW - timedelta(days=1), None),
            ):
                session.add(
                    ProjectDiscount(
                        project_id=PROJECT,
                        percent=Decimal(percent),
                        effective_from=start,
                        effective_to=end,
                        author="me",
                        created_at=LONG_AGO,
                        updated_at=LONG_AGO,
                    )
                )
        yield database


def made_up(rng: Random) -> StoredRun:
    """A run without a cost; often with more parts than there are in the whole, or counts that have decimals."""
    names = rng.sample([*PARTS, "imageOutput", "neverHeardOf"], rng.choice([0, 0, 0, 1, 2]))
    found = {
        name: rng.choice([1, 2.5, 0.100003, 7.000005]) if name == "audioSeconds" else rng.randint(1, 900)
        for name in names
    }
    tokens: dict[str, Any] = {
        name: rng.choice([None, 0, rng.randint(1, 900), rng.randint(1, 5_000)]) for name in COUNT_COLUMNS
    }
    return StoredRun(
        project_id=rng.choice([PROJECT, PROJECT, OTHER_PROJECT]),
        id="",
        occurred_at=NOW - timedelta(minutes=rng.randint(1, 4 * 24 * 60)),
        provider="made",
        model=rng.choice(["plain", "parts", "parts", "tiers", "unheard-of"]),
        status=rng.choice([Status.SUCCESS, Status.SUCCESS, Status.ERROR]),
        units=found or None,
        service_tier=rng.choice([None, None, "batch", "flex", "unheard-of", "default"]),
        region=rng.choice([None, None, None, "US", "us", "eu"]),
        reported_cost_usd=rng.choice([None, Decimal("0.25")]),
        user_id=rng.choice([None, "ann", "bob", "cem"]),
        tags=rng.choice([None, ["a"], ["a", "b"]]),
        created_at=NOW,
        version=1,
        **tokens,
    )


def priced(run: StoredRun, number: int, book: PriceBook) -> StoredRun:
    cost = resolve_cost(
        run, book.price_of(run, run.project_id), direct=False, reported=run.reported_cost_usd, upstream_reported=None
    )
    run.id = f"run-{number}"
    run.cost_usd, run.cost_source, run.price_entry_id = cost.total_usd, cost.source, cost.entry_id
    return run


def question(by: tuple[Any, ...] = (), width: BucketWidth | None = BucketWidth.DAY, **filters: Any) -> Question:  # noqa: ANN401
    timeline = Timeline.in_buckets(SPAN, width, NOW) if width else Timeline.whole(SPAN, NOW)
    return Question(timeline, RunFilter(**filters), by)


def shown(found: GroupLines) -> dict[str, tuple[Decimal, Decimal]]:
    return {name: (one.amount_usd, Decimal(one.quantity)) for name, one in found.lines.items()}


async def read(database: Database, asked: Question) -> CostLines:
    async with database.snapshot() as connection:
        return await read_cost_lines(Snapshots.of(connection, DayMemo(0)), connection, asked)


@given(seed=st.integers(0, 10**6))
@examples(10)
async def test_the_lines_of_runs_are_those_of_each_run_added_up(database: Database, seed: int) -> None:
    rng = Random(seed)  # noqa: S311  # Made-up runs are no secret.
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        book = await load_book(connection)
        runs = [priced(made_up(rng), number, book) for number in range(200)]
        await insert_runs(connection, runs)
        snapshots = Snapshots.of(connection, DayMemo(0))
        by_model = await read_cost_lines(snapshots, connection, question((MODEL,), project_id=PROJECT))
        of_all = await read_cost_lines(snapshots, connection, question(status="success"))
        of_few = {
            dimension: await read_cost_lines(
                snapshots, connection, replace(question((dimension,), project_id=PROJECT), limit=1)
            )
            for dimension in (MODEL, USER)
        }
        entries = {one.price.id: one for one in await select_candidates(connection)}
        discounts = await select_discounts(connection)
        await transaction.rollback()

    def expected(runs: Sequence[StoredRun]) -> dict[str, tuple[Decimal, Decimal]]:
        sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
        for run in runs:
            of_project = [one for one in discounts if one.project_id == run.project_id]
            for line in explain(run, entries.get(run.price_entry_id or 0), of_project).lines:
                if line.name == "neverHeardOf":
                    continue
                sums[line.name][0] += line.amount_usd
                sums[line.name][1] += Decimal(line.quantity)
            if run.cost_source is CostSource.ESTIMATED:
                sums[REPORTED][0] += run.cost_usd or 0
        return {name: (amount, quantity) for name, (amount, quantity) in sums.items()}

    inside = [run for run in runs if run.occurred_at >= SPAN.since]
    assert set(expected(runs)) - {REPORTED} <= {*cost_lines.NAMES}
    for (model,), found in by_model.groups.items():
        assert shown(found) == expected([run for run in inside if (run.project_id, run.model) == (PROJECT, model)])
    for dimension, of_one in of_few.items():
        name = {MODEL: "model", USER: "user_id"}[dimension]
        [(dearest,), rest] = of_one.groups
        assert rest == (OTHER,)
        of_project = [run for run in inside if run.project_id == PROJECT]
        others = [run for run in of_project if getattr(run, name) != dearest]
        assert shown(of_one.groups[dearest,]) == expected([run for run in of_project if run not in others])
        assert shown(of_one.groups[rest]) == expected(others)
    assert by_model.total.cost_usd == sum(run.cost_usd or 0 for run in inside if run.project_id == PROJECT)
    for number in range(len(by_model.question.timeline.starts)):
        since, until = by_model.question.timeline.bucket(number)
        in_bucket = [run for run in inside if since <= run.occurred_at < until and run.status is Status.SUCCESS]
        assert shown(of_all.slices.get((number, ()), GroupLines())) == expected(in_bucket)
    assert of_all.total.unpriced == sum(run.cost_usd is None for run in inside if run.status is Status.SUCCESS)


def run_of(number: int, **fields: Any) -> StoredRun:  # noqa: ANN401  # Any field of a run.
    values: dict[str, Any] = {
        "project_id": PROJECT,
        "occurred_at": NOW - timedelta(hours=1),
        "provider": "made",
        "model": "plain",
        "status": Status.SUCCESS,
        "input_tokens": 1_000 * number,
        "created_at": NOW,
        "version": 1,
    }
    return StoredRun(id=f"run-{number}", **(values | fields))


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """A transaction that leaves nothing behind."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection
        await transaction.rollback()


async def store(connection: Connection, *runs: StoredRun) -> None:
    book = await load_book(connection)
    await insert_runs(connection, [priced(run, number, book) for number, run in enumerate(runs)])


async def lines(connection: Connection, asked: Question) -> CostLines:
    return await read_cost_lines(Snapshots.of(connection, DayMemo(0)), connection, asked)


async def test_what_a_changed_discount_makes_of_a_cost_is_a_line_of_its_own(connection: Connection) -> None:
    await store(connection, run_of(1), run_of(2))
    await connection.execute("UPDATE project_discounts SET percent = 50 WHERE percent = 7")

    found = await lines(connection, question(project_id=PROJECT))

    assert shown(found.total) == {
        "input": (Decimal("0.0045"), Decimal(3_000)),
        "request": (Decimal("0.005"), Decimal(2)),
        CHANGED: (Decimal("0.00817"), Decimal(0)),
    }
    assert found.total.cost_usd == Decimal("0.01767")


async def test_what_is_remembered_of_closed_days_is_forgotten_when_a_run_of_theirs_comes(database: Database) -> None:
    memo, project_id, day = new_memo(), "lines-remembered", NOW - timedelta(days=1)

    async def insert(number: int) -> None:
        # It stays, so it is none of the successful runs that other tests add up.
        run = run_of(number, project_id=project_id, occurred_at=day, status=Status.ERROR)
        async with database.connection() as connection:
            await insert_runs(connection, [priced(run, number, await load_book(connection))])

    async def read_input() -> Decimal:
        async with database.snapshot() as connection:
            found = await read_cost_lines(Snapshots.of(connection, memo), connection, question(project_id=project_id))
        return Decimal(found.total.lines["input"].quantity)

    await insert(1)
    assert [await read_input() for _ in range(2)] == [1_000, 1_000]
    assert memo.bytes > 0
    await insert(2)
    assert await read_input() == 3_000


async def test_groups_of_little_cost_are_one_and_still_add_up(connection: Connection) -> None:
    await store(connection, *(run_of(number, user_id=f"user-{number}") for number in range(1, 5)))

    found = await lines(connection, replace(question((USER,), project_id=PROJECT), limit=2))

    assert [group for (group,) in found.groups] == ["user-4", "user-3", OTHER]
    assert [one.runs for one in found.groups.values()] == [1, 1, 2]
    assert found.total.cost_usd == (await lines(connection, question(project_id=PROJECT))).total.cost_usd


async def test_a_run_is_in_the_group_of_each_of_its_tags(connection: Connection) -> None:
    await store(connection, run_of(1, tags=["a", "b"]), run_of(2, tags=["b"]), run_of(3))

    found = await lines(connection, question((TAGS,), project_id=PROJECT))

    assert found.question.is_overlapping
    assert {group: one.lines["input"].quantity for (group,), one in found.groups.items()} == {
        "a": 1_000,
        "b": 3_000,
        None: 3_000,
    }


async def test_the_cost_of_runs_that_are_not_kept_is_a_line_of_its_own(connection: Connection) -> None:
    dropped = NOW - timedelta(days=1)
    await store(connection, run_of(1, occurred_at=NOW - timedelta(days=2)), run_of(2, model="unheard-of"), run_of(3))
    await connection.execute("DELETE FROM runs WHERE occurred_at < $1", dropped)
    await connection.execute("UPDATE projects SET dropped_before = $2 WHERE id = $1", PROJECT, dropped)

    found = await lines(connection, question((MODEL,), project_id=PROJECT))

    by_model = {group: shown(one) for (group,), one in found.groups.items()}
    assert by_model["plain"][REMOVED] == (Decimal("0.0072"), Decimal(0))
    assert by_model["unheard-of"] == {}
    assert (found.total.runs, found.total.unpriced) == (3, 1)
    with pytest.raises(DimensionNotTracked, match="in the database no more"):
        await lines(connection, question((USER,), project_id=PROJECT))
    later = replace(question((USER,), project_id=PROJECT), timeline=Timeline.whole(TimeSpan(dropped, NOW), NOW))
    assert REMOVED not in (await lines(connection, later)).total.lines


@pytest.mark.parametrize("limit", ["MAX_RUNS_READ", "MAX_ROWS"])
async def test_more_than_may_be_read_is_refused_with_what_to_do(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    await store(connection, run_of(1, user_id="ann"), run_of(2, user_id="bob"))
    monkeypatch.setattr(cost_lines, limit, 1)

    with pytest.raises(DimensionNotTracked, match="ask for a shorter time"):
        await lines(connection, question((USER,), project_id=PROJECT))
