"""The catalogue in a real registry."""

import asyncio
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import AsyncMock

import pytest

from runtally.db.database import Connection, Database
from runtally.errors import CatalogueUnreadable
from runtally.models.price import Match
from runtally.pricing import catalogue
from runtally.pricing.book import load_book
from runtally.pricing.catalogue import Comparison, SyncReport, read_catalogue, seed_if_empty, store, sync
from runtally.pricing.draft import CatalogueEntry
from runtally.units import INPUT
from tests.factories import make_price

NOW = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ENTRY = CatalogueEntry(
    provider="globex",
    model="large",
    aliases=("big",),
    match=Match.EXACT,
    input_per_million=Decimal(3),
    output_per_million=Decimal(15),
    catalogue_key="globex/large",
)
TIER = replace(ENTRY, above_input_tokens=1000, input_per_million=Decimal(6), catalogue_key="globex/large>1000")
PATTERN = replace(
    ENTRY, model="small", aliases=(), match=Match.REGEX, pattern=r"small-\d+", catalogue_key="globex/small"
)
CATALOGUE = (ENTRY, TIER, PATTERN)
DEARER = replace(ENTRY, input_per_million=Decimal(4))


async def stored_rows(connection: Connection) -> list[dict[str, Any]]:
    rows = await connection.fetch("SELECT * FROM price_entries WHERE provider = 'globex' ORDER BY id")
    return [dict(row) for row in rows]


async def price_id(connection: Connection, at: datetime, input_tokens: int = 10) -> int | None:
    price = (await load_book(connection)).price_for("globex", "big", at, input_tokens)
    return price.id if price else None


async def test_the_catalogue_becomes_entries_that_price_runs(own_connection: Connection) -> None:
    report = await store(own_connection, CATALOGUE, NOW)

    book = await load_book(own_connection)
    small, large, tier = (
        book.price_for("globex", name, NOW, tokens) for name, tokens in (("small-7", 10), ("big", 1000), ("big", 1001))
    )
    assert report == SyncReport(added=3, changed=0, unchanged=0, vanished=0, kept=0)
    assert small is not None
    assert small.rates[INPUT] == 3_000_000
    assert large is not None
    assert large.rates[INPUT] == 3_000_000
    assert tier is not None
    assert tier.rates[INPUT] == 6_000_000


async def test_a_second_sync_changes_nothing(own_connection: Connection) -> None:
    await store(own_connection, CATALOGUE, NOW)
    before = await stored_rows(own_connection)

    report = await store(own_connection, CATALOGUE, NOW + DAY)

    assert report == SyncReport(added=0, changed=0, unchanged=3, vanished=0, kept=0)
    assert await stored_rows(own_connection) == before


async def test_a_price_that_changed_keeps_its_row_for_the_runs_it_priced(own_connection: Connection) -> None:
    await store(own_connection, CATALOGUE, NOW)
    old = await price_id(own_connection, NOW)

    report = await store(own_connection, (DEARER, TIER, PATTERN), NOW + DAY)

    [row] = [row for row in await stored_rows(own_connection) if row["id"] == old]
    assert report == SyncReport(added=0, changed=1, unchanged=2, vanished=0, kept=0)
    assert (row["input_per_million"], row["effective_to"]) == (Decimal(3), NOW + DAY)
    assert await price_id(own_connection, NOW) == old
    assert await price_id(own_connection, NOW + DAY) not in {old, None}


async def test_prices_may_change_again_and_again(own_connection: Connection) -> None:
    for day, amount in enumerate((3, 4, 3, 5)):
        await store(own_connection, [replace(ENTRY, input_per_million=Decimal(amount))], NOW + day * DAY)

    rows = await stored_rows(own_connection)
    assert [(int(row["input_per_million"]), row["effective_from"], row["effective_to"]) for row in rows] == [
        (3, None, NOW + DAY),
        (4, NOW + DAY, NOW + 2 * DAY),
        (3, NOW + 2 * DAY, NOW + 3 * DAY),
        (5, NOW + 3 * DAY, None),
    ]


async def test_an_announced_price_ends_the_present_one_in_time(own_connection: Connection) -> None:
    await store(own_connection, [ENTRY], NOW)
    before = await price_id(own_connection, NOW)
    announced = replace(DEARER, effective_from=NOW + DAY, catalogue_key="globex/large@2026-11-02")

    report = await store(own_connection, [replace(ENTRY, effective_to=NOW + DAY), announced], NOW)

    assert report == SyncReport(added=1, changed=1, unchanged=0, vanished=0, kept=0)
    assert await price_id(own_connection, NOW + DAY - timedelta(seconds=1)) == before
    assert await price_id(own_connection, NOW + DAY) not in {before, None}


async def test_entries_of_admins_are_never_changed_by_a_sync(own_connection: Connection) -> None:
    await store(own_connection, CATALOGUE, NOW)
    await own_connection.execute(
        """
        UPDATE price_entries
           SET source = 'admin', input_per_million = 1, updated_at = $1
         WHERE catalogue_key = 'globex/large'
        """,
        NOW,
    )
    before = await stored_rows(own_connection)

    report = await store(own_connection, (DEARER, TIER, PATTERN), NOW + DAY)

    assert report == SyncReport(added=0, changed=0, unchanged=2, vanished=0, kept=1)
    assert await stored_rows(own_connection) == before


async def test_an_entry_that_the_catalogue_dropped_stays_in_force(own_connection: Connection) -> None:
    await store(own_connection, CATALOGUE, NOW)

    report = await store(own_connection, [PATTERN], NOW + DAY)

    assert report == SyncReport(added=0, changed=0, unchanged=1, vanished=2, kept=0)
    assert await price_id(own_connection, NOW + 2 * DAY) is not None


async def test_an_admins_own_entry_is_no_part_of_the_catalogue(own: Database) -> None:
    async with own.session() as session:
        session.add(make_price(provider="globex", model="mine"))

    async with own.connection() as connection:
        report = await store(connection, CATALOGUE, NOW)
        models = [row["model"] for row in await stored_rows(connection)]

    assert report == SyncReport(added=3, changed=0, unchanged=0, vanished=0, kept=0)
    assert models == ["mine", "large", "large", "small"]


async def test_two_syncs_at_once_add_each_entry_once(own: Database) -> None:
    async def one() -> SyncReport:
        async with own.connection() as connection:
            return await store(connection, CATALOGUE, NOW)

    reports = await asyncio.gather(*(one() for _ in range(4)))

    async with own.connection() as connection:
        assert len(await stored_rows(connection)) == len(CATALOGUE)
    assert sorted(report.added for report in reports) == [0, 0, 0, 3]


async def test_a_first_start_seeds_the_whole_catalogue_once(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Reading it takes a process; one is enough.
    entries = await read_catalogue()
    monkeypatch.setattr(catalogue, "read_catalogue", AsyncMock(return_value=entries))

    seeded = await asyncio.to_thread(seed_if_empty, empty_database_url)
    again = await asyncio.to_thread(seed_if_empty, empty_database_url)

    async with Database(empty_database_url) as database, database.connection() as connection:
        book = await load_book(connection)
        report = await sync(connection, NOW)
    price = book.price_for("openai", "gpt-4o-mini", NOW, 10)
    assert (seeded > 2000, again) == (True, 0)
    assert price is not None
    assert report == SyncReport(added=0, changed=0, unchanged=seeded, vanished=0, kept=0)


async def test_an_unreadable_catalogue_is_an_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "EXPORT", (sys.executable, "-c", "raise SystemExit(3)"))

    with pytest.raises(CatalogueUnreadable, match="make setup"):
        await read_catalogue()


async def test_the_catalogue_is_read_again_only_once_the_registry_is_another(
    own_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = AsyncMock(return_value=())
    monkeypatch.setattr(catalogue, "compare", compare)
    comparison = Comparison()

    await comparison.read(own_connection)
    await comparison.read(own_connection)
    assert compare.await_count == 1

    await store(own_connection, CATALOGUE, NOW)
    await comparison.read(own_connection)
    assert compare.await_count == 2
