"""The price book follows the registry."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.models.price import Match
from runtally.pricing.book import LivePrices
from runtally.units import INPUT
from tests.factories import LONG_AGO, make_price

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
async def prices(own: Database) -> LivePrices:
    await _add(own)
    prices = LivePrices(own)
    await prices.refresh()
    return prices


async def _add(database: Database, **columns: object) -> None:
    async with database.session() as session:
        session.add(make_price(**columns))


async def _execute(database: Database, sql: str) -> None:
    async with database.connection() as connection:
        await connection.execute(sql)


async def _delete(database: Database) -> None:
    await _execute(database, "DELETE FROM price_entries")


async def _replace(database: Database) -> None:
    await _execute(database, "DELETE FROM price_entries")
    await _add(database, input_per_million=Decimal(9))


async def _change(database: Database) -> None:
    await _execute(database, "UPDATE price_entries SET input_per_million = 9, updated_at = now()")


def _input_pico(prices: LivePrices) -> int | None:
    price = prices.book.price_for("acme", "acme-large", NOW, 10)
    return price.rates[INPUT] if price else None


async def test_before_the_first_refresh_nothing_has_a_price(own: Database) -> None:
    assert _input_pico(LivePrices(own)) is None


async def test_the_registry_is_loaded(prices: LivePrices) -> None:
    assert _input_pico(prices) == 3_000_000
    assert prices.book.knows("acme", "acme-large")
    assert not prices.book.knows("acme", "acme-small")


async def test_an_unchanged_registry_keeps_the_book(prices: LivePrices) -> None:
    book = prices.book

    await prices.refresh()

    assert prices.book is book


@pytest.mark.parametrize(("change", "expected"), [(_delete, None), (_replace, 9_000_000), (_change, 9_000_000)])
async def test_a_changed_registry_swaps_the_book(
    own: Database, prices: LivePrices, change: Callable[[Database], Awaitable[None]], expected: int | None
) -> None:
    before = prices.book

    await change(own)
    await prices.refresh()

    assert _input_pico(prices) == expected
    assert before.price_for("acme", "acme-large", NOW, 10) is not None


async def test_a_change_that_commits_late_is_seen(own: Database, prices: LivePrices) -> None:
    await _add(own, model="acme-small", updated_at=datetime(2030, 1, 1, tzinfo=UTC))
    await prices.refresh()

    await _execute(own, "UPDATE price_entries SET input_per_million = 9, updated_at = '2026-01-01Z' WHERE id = 1")
    await prices.refresh()

    assert _input_pico(prices) == 9_000_000


async def test_an_outage_leaves_the_last_good_book(prices: LivePrices) -> None:
    async with Database("postgresql://127.0.0.1:1/nowhere") as nowhere:
        away = LivePrices(nowhere)
        away.book = prices.book

        with pytest.raises(StoreUnavailable):
            await away.refresh()

        assert _input_pico(away) == 3_000_000


async def test_a_price_since_for_ever_is_one_without_a_start(own: Database, prices: LivePrices) -> None:
    await _execute(own, "UPDATE price_entries SET effective_from = '-infinity', updated_at = now()")

    await prices.refresh()

    assert _input_pico(prices) == 3_000_000


async def test_a_broken_pattern_leaves_the_other_prices_alone(own: Database, prices: LivePrices) -> None:
    await _add(own, model="bad", match=Match.REGEX, pattern="(", created_at=LONG_AGO)

    await prices.refresh()

    assert len(prices.book.invalid) == 1
    assert _input_pico(prices) == 3_000_000
