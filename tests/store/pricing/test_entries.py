"""People change the registry: what is refused, what becomes of the entry before, what the log says."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import OPERATOR
from runtally.db.database import Connection, Database
from runtally.errors import InvalidPrice, OverlappingPrice
from runtally.ingest.queries import insert_runs
from runtally.models.audit import AuditEntry
from runtally.models.price import Match, PriceEntry, PriceSource
from runtally.pricing import discounts, entries
from runtally.pricing.book import load_book
from runtally.pricing.draft import Draft
from runtally.runs.read import read_run
from runtally.units import INPUT
from tests.factories import make_price
from tests.store.pricing.repricing.test_unpriced import stored_run

NOW = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DRAFT = Draft(provider="globex", model="large", input_per_million=Decimal(3), output_per_million=Decimal(15))


def draft_with(**changes: Any) -> Draft:  # noqa: ANN401  # Any field of a draft.
    return Draft(**{name: getattr(DRAFT, name) for name in Draft.__dataclass_fields__} | changes)


async def added(database: Database, draft: Draft = DRAFT) -> int:
    async with database.session() as session:
        entry = await entries.add(session, OPERATOR, draft, NOW)
    assert entry.id is not None
    return entry.id


async def price_id(
    database: Database, at: datetime = NOW, model: str = "large", project_id: str | None = None
) -> int | None:
    async with database.connection() as connection:
        price = (await load_book(connection)).price_for("globex", model, at, 10, project_id)
    return price.id if price else None


@pytest.mark.parametrize(
    "draft",
    [
        draft_with(),
        draft_with(model="LARGE"),
        draft_with(provider="Globex"),
        draft_with(model="other", aliases=("big", "large")),
        draft_with(model="big"),
        draft_with(effective_from=NOW, effective_to=NOW + DAY),
    ],
)
async def test_two_prices_for_one_name_at_one_time_are_refused(own: Database, draft: Draft) -> None:
    first = await added(own, draft_with(aliases=("big",)))

    async with own.session() as session:
        with pytest.raises(OverlappingPrice, match=f"Entry {first}, globex large") as refused:
            await entries.add(session, OPERATOR, draft, NOW)

    assert refused.value.entry_id == first


@pytest.mark.parametrize(
    "draft",
    [
        draft_with(model="small"),
        draft_with(above_input_tokens=1000),
        draft_with(project_id="acme"),
        draft_with(match=Match.PREFIX, pattern="large"),
        draft_with(effective_from=NOW + DAY),
    ],
)
async def test_prices_for_different_names_tiers_projects_or_times_stand_side_by_side(
    own: Database, draft: Draft
) -> None:
    await added(own, draft_with(effective_to=NOW + DAY))

    assert await added(own, draft)


async def test_the_database_itself_refuses_an_overlap(own: Database) -> None:
    await added(own)

    with pytest.raises(IntegrityError, match="ex_price_entries_overlap"):
        async with own.session() as session:
            session.add(make_price(provider="globex", model="Large", effective_from=NOW))


async def test_one_of_two_equal_prices_added_at_once_is_refused(own: Database) -> None:
    results = await asyncio.gather(
        *(added(own, draft_with(model=f"m{n}", aliases=("shared",))) for n in range(4)), return_exceptions=True
    )

    assert sum(isinstance(result, int) for result in results) == 1
    assert sum(isinstance(result, OverlappingPrice) for result in results) == 3


async def test_a_price_that_follows_closes_the_one_before(own: Database) -> None:
    first = await added(own, draft_with(effective_to=NOW + 30 * DAY))
    async with own.session() as session:
        entry = await entries.get(session, first)
        draft = draft_with(effective_from=NOW + DAY, input_per_million=Decimal(2))
        second = await entries.follow(session, OPERATOR, entry, draft, NOW)

    assert await price_id(own, NOW + DAY - timedelta(microseconds=1)) == first
    assert await price_id(own, NOW + DAY) == second.id
    async with own.session() as session:
        [log] = [row for row in await session.exec(select(AuditEntry)) if row.action == "price.changed"]
    assert (log.target, log.actor_label) == ("globex large", "command line")
    assert (log.before, log.after) == (
        {"input_per_million": "3.000000", "effective_to": "2026-12-01T00:00:00+00:00"},
        {"input_per_million": "2", "effective_from": "2026-11-02T00:00:00+00:00"},
    )


@pytest.mark.parametrize("start", [None, NOW, NOW - DAY])
async def test_a_price_follows_only_from_a_later_time_on(own: Database, start: datetime | None) -> None:
    first = await added(own, draft_with(effective_from=NOW))

    async with own.session() as session:
        entry = await entries.get(session, first)
        with pytest.raises(InvalidPrice) as refused:
            await entries.follow(session, OPERATOR, entry, draft_with(effective_from=start), NOW)

    assert [detail.path for detail in refused.value.details] == ["effective_from"]
    assert await price_id(own, NOW + DAY) == first


async def test_a_corrected_amount_makes_another_entry_and_keeps_the_old_for_its_runs(own: Database) -> None:
    first = await added(own)
    async with own.session() as session:
        entry = await entries.get(session, first)
        after = await entries.change(session, OPERATOR, entry, draft_with(input_per_million=Decimal(4)), NOW)

    assert after.id != first
    assert await price_id(own) == after.id
    async with own.session() as session:
        withdrawn = await entries.get(session, first)
        history = await entries.list_history(session, after)
    assert (withdrawn.input_per_million, withdrawn.withdrawn_at) == (Decimal(3), NOW)
    assert [entry.id for entry in history] == [after.id, first]


async def test_a_corrected_note_changes_the_entry_itself(own: Database) -> None:
    first = await added(own)
    async with own.session() as session:
        entry = await entries.get(session, first)
        after = await entries.change(session, OPERATOR, entry, draft_with(note="Our contract.", aliases=("big",)), NOW)

    assert after.id == first
    assert await price_id(own, model="big") == first


async def test_a_catalogue_entry_that_is_changed_by_hand_becomes_an_admins(own: Database) -> None:
    async with own.session() as session:
        session.add(make_price(provider="globex", model="large", source=PriceSource.CATALOGUE, catalogue_key="g/large"))
    async with own.session() as session:
        [entry] = (await session.exec(select(PriceEntry))).all()
        await entries.end(session, OPERATOR, entry, NOW + DAY, NOW)

    assert (entry.source, entry.catalogue_key) == (PriceSource.ADMIN, "g/large")
    assert await price_id(own, NOW + DAY) is None


async def test_a_withdrawn_price_prices_nothing_and_leaves_its_time_free(own: Database) -> None:
    first = await added(own)
    async with own.session() as session:
        await entries.withdraw(session, OPERATOR, await entries.get(session, first), NOW)

    assert await price_id(own) is None
    assert await added(own) != first


async def test_a_project_pays_its_own_price_or_the_list_price_less_its_discount(own: Database) -> None:
    general, small = await added(own), await added(own, draft_with(model="small"))
    negotiated = await added(own, draft_with(project_id="acme", effective_from=NOW, input_per_million=Decimal(1)))
    async with own.session() as session:
        for sent in ({"percent": "10", "provider": "other"}, {"percent": "12.5", "effective_from": "2026-11-01"}):
            await discounts.add(session, OPERATOR, "acme", sent, NOW)

    assert await price_id(own, project_id="acme") == negotiated
    assert await price_id(own, NOW - DAY, project_id="acme") == general
    assert await price_id(own, project_id="else") == general
    async with own.connection() as connection:
        book = await load_book(connection)
    less = book.price_for("globex", "small", NOW, 10, "acme")
    before = book.price_for("globex", "small", NOW - DAY, 10, "acme")
    assert less is not None
    assert before is not None
    assert (less.id, less.rates[INPUT], less.percent_off) == (small, 2_625_000, Decimal("12.5"))
    assert (before.rates[INPUT], before.percent_off) == (3_000_000, None)


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"percent": "0"}, "percent"),
        ({"percent": "101"}, "percent"),
        ({"percent": "1.234"}, "percent"),
        ({"percent": "five"}, "percent"),
        ({"percent": "5", "effective_from": "soon"}, "effective_from"),
        ({"percent": "5", "effective_from": "2026-02-01", "effective_to": "2026-01-01"}, "effective_to"),
        ({"percent": "5", "effective_from": "2026-12-01"}, "effective_from"),
    ],
)
async def test_a_wrong_discount_is_refused_at_its_field(own: Database, sent: dict[str, str], field: str) -> None:
    async with own.session() as session:
        await discounts.add(session, OPERATOR, "acme", {"percent": "5", "effective_from": "2026-06-01"}, NOW)

    async with own.session() as session:
        with pytest.raises(InvalidPrice) as refused:
            await discounts.add(session, OPERATOR, "acme", sent, NOW)

    assert [detail.path for detail in refused.value.details] == [field]


async def test_a_discount_changes_the_book_and_explains_the_cost(own: Database, own_connection: Connection) -> None:
    number = await added(own)
    before = (await load_book(own_connection)).version
    async with own.session() as session:
        discount = await discounts.add(session, OPERATOR, "acme", {"percent": "50"}, NOW)
    run = stored_run("acme", "a", cost_usd=Decimal("0.00225"), cost_source="catalog", price_entry_id=number)
    await insert_runs(own_connection, [run])

    explained = await read_run(own_connection, own_connection, "acme", "a")

    assert (await load_book(own_connection)).version != before
    assert explained.explanation.accounts_for(explained.run)
    assert [str(line.rate_usd) for line in explained.explanation.lines] == ["1.500000", "7.500000"]
    async with own.session() as session:
        await discounts.end(session, OPERATOR, discount.id or 0, NOW)
    book = await load_book(own_connection)
    before_end, at_end = (book.price_for("globex", "large", at, 1, "acme") for at in (NOW - timedelta(seconds=1), NOW))
    assert before_end
    assert at_end
    assert (before_end.percent_off, at_end.percent_off) == (Decimal(50), None)


@pytest.mark.parametrize(
    "act",
    [
        lambda session, entry: entries.change(session, OPERATOR, entry, draft_with(note="by mail"), NOW),
        lambda session, entry: entries.follow(session, OPERATOR, entry, draft_with(effective_from=NOW + DAY), NOW),
        lambda session, entry: entries.end(session, OPERATOR, entry, NOW + DAY, NOW),
        lambda session, entry: entries.withdraw(session, OPERATOR, entry, NOW),
    ],
    ids=["change", "follow", "end", "withdraw"],
)
async def test_a_price_that_another_admin_withdrew_meanwhile_does_not_change(
    own: Database, act: Callable[[AsyncSession, PriceEntry], Awaitable[object]]
) -> None:
    entry_id = await added(own)
    async with own.session() as session:
        entry = await entries.get(session, entry_id)
        async with own.session() as other:
            await entries.withdraw(other, OPERATOR, await entries.get(other, entry_id), NOW)

        with pytest.raises(InvalidPrice, match="was withdrawn"):
            await act(session, entry)
