"""Runs that waited for a price."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from runtally.db.database import Connection, Database
from runtally.errors import StoreUnavailable
from runtally.ingest.queries import insert_runs
from runtally.models.run import CostSource, Status, StoredRun
from runtally.pricing.book import LivePrices, PriceBook
from runtally.pricing.cost import Rates
from runtally.pricing.repricing import recost
from runtally.pricing.repricing.recost import (
    AGAIN_SECONDS,
    RunCursor,
    UnpricedRuns,
    price_unpriced,
    recosts_of,
    select_computed,
)
from tests.unit.pricing.candidates import make_candidate

NOW = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
BOOK = PriceBook(
    [
        make_candidate("globex", "large", number=5, effective_from=NOW - DAY, estimated=True),
        make_candidate(
            "globex",
            "large",
            number=6,
            effective_from=NOW - DAY,
            above_input_tokens=1000,
            rates=Rates.of(input=5_000_000, output=2_000_000),
        ),
    ]
)


def stored_run(project_id: str, run_id: str, **fields: Any) -> StoredRun:  # noqa: ANN401  # Any field of a run.
    values: dict[str, Any] = {
        "occurred_at": NOW,
        "provider": "globex",
        "model": "large",
        "status": Status.SUCCESS,
        "input_tokens": 1000,
        "output_tokens": 100,
        "created_at": NOW,
        "version": 1,
    }
    return StoredRun(project_id=project_id, id=run_id, **(values | fields))


async def rows_of(connection: Connection, project_id: str) -> list[tuple[Any, ...]]:
    rows = await connection.fetch(
        """
          SELECT id,
                 cost_usd,
                 cost_source,
                 cost_estimated,
                 price_entry_id,
                 version
            FROM runs
           WHERE project_id = $1
        ORDER BY id
        """,
        project_id,
    )
    return [tuple(row) for row in rows]


async def test_a_run_is_priced_as_soon_as_there_is_a_price(connection: Connection, project_id: str) -> None:
    await insert_runs(connection, [stored_run(project_id, "a"), stored_run(project_id, "b", input_tokens=2000)])

    priced = await price_unpriced(connection, BOOK, NOW)

    assert priced == 2
    assert await rows_of(connection, project_id) == [
        ("a", Decimal("0.0012"), "catalog", True, 5, 2),
        ("b", Decimal("0.0102"), "catalog", False, 6, 2),
    ]


async def test_all_other_runs_stay_as_they_are(connection: Connection, project_id: str) -> None:
    priced = {"cost_usd": Decimal(7), "cost_source": CostSource.PROVIDER, "cost_estimated": False}
    runs = [
        stored_run(project_id, "has-a-cost", **priced),
        stored_run(project_id, "no-price", model="small"),
        stored_run(project_id, "stored-later", created_at=NOW + DAY),
        stored_run(project_id, "too-early", occurred_at=NOW - 2 * DAY),
    ]
    await insert_runs(connection, runs)

    await price_unpriced(connection, BOOK, NOW)

    assert await rows_of(connection, project_id) == [
        ("has-a-cost", Decimal(7), "provider", False, None, 1),
        ("no-price", None, None, None, None, 1),
        ("stored-later", None, None, None, None, 1),
        ("too-early", None, None, None, None, 1),
    ]


async def test_a_run_that_a_worker_with_a_clock_ahead_stored_is_priced_too(
    connection: Connection, project_id: str
) -> None:
    await insert_runs(connection, [stored_run(project_id, "a", created_at=NOW + timedelta(minutes=10))])

    assert await price_unpriced(connection, BOOK, NOW) == 1


async def test_a_model_without_a_price_is_priced_by_the_model_that_answered(
    connection: Connection, project_id: str
) -> None:
    answered: dict[str, dict[str, Any]] = {
        "a": {"responseModel": "large"}, "b": {"responseModel": ["large"]}, "c": {"responseModel": "small"},
    }  # fmt: skip
    await insert_runs(
        connection, [stored_run(project_id, id_, model="router", metadata=each) for id_, each in answered.items()]
    )

    assert await price_unpriced(connection, BOOK, NOW) == 1
    walk = RunCursor(project_id, NOW - DAY, "", None, None, None)
    computed = await select_computed(connection, walk, 10)

    assert [row[:2] for row in await rows_of(connection, project_id)] == [
        ("a", Decimal("0.0012")),
        ("b", None),
        ("c", None),
    ]
    assert [run.answered_by for run in computed] == ["large", None, "small"]
    # Pricing it again comes to the same.
    assert recosts_of(computed, BOOK, project_id) == []


async def test_a_second_pass_finds_nothing_to_do(connection: Connection, project_id: str) -> None:
    await insert_runs(connection, [stored_run(project_id, "a")])
    await price_unpriced(connection, BOOK, NOW)

    assert await price_unpriced(connection, BOOK, NOW) == 0
    assert (await rows_of(connection, project_id))[0][-1] == 2


async def test_many_runs_are_priced_chunk_by_chunk(
    connection: Connection, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recost, "CHUNK", 3)
    names = ("large", "small")
    runs = [stored_run(project_id, f"{number:03}", model=names[number % 3 == 0]) for number in range(20)]
    await insert_runs(connection, runs)

    await price_unpriced(connection, BOOK, NOW)

    costs = [row[1] for row in await rows_of(connection, project_id)]
    assert costs == [None if number % 3 == 0 else Decimal("0.0012") for number in range(20)]


async def test_a_changed_registry_prices_waiting_runs_and_later_those_stored_with_the_old_one(
    own: Database, project_id: str
) -> None:
    seconds = 0.0
    prices = LivePrices(own)
    waiting = UnpricedRuns(own, prices, lambda: NOW, queued=False, seconds=lambda: seconds)

    async def store(run_id: str) -> None:
        async with own.connection() as connection:
            await insert_runs(connection, [stored_run(project_id, run_id)])

    await store("before")
    assert await waiting.work() == 0

    prices.book = PriceBook([make_candidate("globex", "large")], version="1")
    assert await waiting.work() == 1
    await store("meanwhile")
    assert await waiting.work() == 0
    seconds = AGAIN_SECONDS
    assert await waiting.work() == 1
    await store("later")
    assert await waiting.work() == 0


async def test_pricing_that_failed_is_due_again() -> None:
    async with Database("postgresql://127.0.0.1:1/nowhere") as nowhere:
        prices = LivePrices(nowhere)
        prices.book = PriceBook([make_candidate("globex", "large")], version="1")
        waiting = UnpricedRuns(nowhere, prices, lambda: NOW, queued=False, seconds=lambda: 0.0)

        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await waiting.work()
