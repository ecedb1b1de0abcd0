"""Several prices change at once: exact amounts, all or none, and what cannot change says why."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import col, select

from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import InvalidPrice
from runtally.models.audit import AuditEntry
from runtally.models.price import PriceEntry
from runtally.money import PRICE_DECIMALS
from runtally.pricing import bulk, entries
from runtally.pricing.bulk import BulkChange, How, read_change
from runtally.pricing.draft import Draft

NOW = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SENT = {"how": "percent", "component": "all", "value": "-20", "effective_from": "2026-11-02"}


async def added(database: Database, **fields: Any) -> int:  # noqa: ANN401  # Any field of a draft.
    values: dict[str, Any] = {"provider": "globex", "input_per_million": Decimal(3), "output_per_million": Decimal(15)}
    async with database.session() as session:
        entry = await entries.add(session, OPERATOR, Draft(**values | fields), NOW)
    assert entry.id is not None
    return entry.id


async def scheduled(database: Database, *ids: int, **sent: str) -> list[PriceEntry]:
    async with database.session() as session:
        saved = await bulk.schedule(session, OPERATOR, ids, read_change(SENT | sent), NOW)
        await session.flush()
        session.expunge_all()
    return list(saved)


async def all_of(database: Database) -> list[PriceEntry]:
    query = select(PriceEntry).where(PriceEntry.provider == "globex").order_by(col(PriceEntry.id))
    async with database.session() as session:
        found = list(await session.exec(query))
        session.expunge_all()
    return found


async def test_all_amounts_change_by_percent_from_a_day_on_and_the_old_prices_stay(own: Database) -> None:
    first = await added(own, model="large", cache_read_per_million=Decimal("0.3"))
    second = await added(own, model="small", input_per_million=Decimal("0.15"), per_thousand_requests=Decimal(10))

    saved = await scheduled(own, first, second)

    assert [(one.model, one.input_per_million, one.output_per_million) for one in saved] == [
        ("large", Decimal("2.4"), Decimal(12)),
        ("small", Decimal("0.12"), Decimal(12)),
    ]
    assert (saved[0].cache_read_per_million, saved[0].cache_write_per_million) == (Decimal("0.24"), None)
    assert saved[1].per_thousand_requests == Decimal(8)
    before = [one for one in await all_of(own) if one.id in {first, second}]
    assert [(one.input_per_million, one.effective_to) for one in before] == [
        (Decimal(3), NOW + DAY),
        (Decimal("0.15"), NOW + DAY),
    ]
    async with own.session() as session:
        log = [one.action for one in await session.exec(select(AuditEntry))]
    assert log.count("price.changed") == 2


async def test_all_amounts_are_also_those_of_further_units_and_variants_whose_factors_stay(own: Database) -> None:
    entry = await added(
        own,
        model="large",
        unit_rates="cacheWrite1h 6, webSearch 10",
        variants="tier batch: input 1.5\nregion us: x 1.1",
    )

    [less] = await scheduled(own, entry)
    assert less.id is not None
    [set_] = await scheduled(own, less.id, how="set", component="webSearch", value="14", effective_from="2026-11-03")

    assert (less.unit_rates, less.variants) == (
        "cacheWrite1h 4.8, webSearch 8",
        "tier batch: input 1.2\nregion us: x 1.1",
    )
    assert (set_.unit_rates, set_.variants, set_.input_per_million) == (
        "cacheWrite1h 4.8, webSearch 14",
        less.variants,
        Decimal("2.4"),
    )


async def test_one_amount_is_set_and_the_others_stay(own: Database) -> None:
    entry = await added(own, model="large", aliases=("big",), note="by mail")

    [saved] = await scheduled(own, entry, how="set", component="cache_read_per_million", value="0.075")

    assert (saved.cache_read_per_million, saved.input_per_million) == (Decimal("0.075"), Decimal(3))
    assert (saved.aliases, saved.note) == (["big"], "by mail")


async def test_prices_that_stay_the_same_are_not_written_again(own: Database) -> None:
    cached = await added(own, model="large", cache_read_per_million=Decimal(1))
    plain = await added(own, model="small")

    saved = await scheduled(own, cached, plain, component="cache_read_per_million")

    assert [one.model for one in saved] == ["large"]
    with pytest.raises(InvalidPrice, match="None of these prices would change"):
        await scheduled(own, plain, component="cache_read_per_million")


async def test_a_price_that_is_scheduled_already_stays(own: Database) -> None:
    now = await added(own, model="large", effective_to=NOW + 9 * DAY)
    await added(own, model="large", effective_from=NOW + 9 * DAY, input_per_million=Decimal(1))

    [saved] = await scheduled(own, now)

    assert (saved.effective_from, saved.effective_to) == (NOW + DAY, NOW + 9 * DAY)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"effective_from": NOW + DAY}, "It starts on 2026-11-02. Choose a later day."),
        ({"effective_to": NOW + DAY}, "It ends on 2026-11-02. Choose an earlier day."),
        ({"output_per_million": Decimal(99_999_999)}, "The new amount is too high."),
    ],
)
async def test_nothing_is_saved_if_one_price_cannot_change(own: Database, fields: dict[str, Any], said: str) -> None:
    fine, other = await added(own, model="large"), await added(own, model="small", **fields)
    before = [(one.id, one.effective_to) for one in await all_of(own)]

    with pytest.raises(InvalidPrice, match="1 price cannot change as asked; nothing was saved"):
        await scheduled(own, fine, other, value="20")

    assert [(one.id, one.effective_to) for one in await all_of(own)] == before
    async with own.session() as session:
        planned = bulk.plan(await bulk.find(session, [fine, other]), read_change(SENT | {"value": "20"}))
    assert [one.problem for one in planned] == [None, said]


async def test_what_another_admin_changed_since_the_page_read_the_prices_is_kept(own: Database) -> None:
    ended, withdrawn = await added(own, model="large"), await added(own, model="small")
    async with own.session() as session:
        read = await bulk.find(session, [ended, withdrawn])
        async with own.session() as other:
            await entries.end(other, OPERATOR, await entries.get(other, ended), NOW + 5 * DAY, NOW)
            await entries.withdraw(other, OPERATOR, await entries.get(other, withdrawn), NOW)

        with pytest.raises(InvalidPrice, match="1 price cannot change as asked; nothing was saved"):
            await bulk.schedule(session, OPERATOR, [ended, withdrawn], read_change(SENT), NOW)
        [saved] = await bulk.schedule(session, OPERATOR, [ended], read_change(SENT), NOW)

    assert (saved.effective_from, saved.effective_to) == (NOW + DAY, NOW + 5 * DAY)
    assert [one.id for one in read] == [ended, withdrawn]


async def test_a_withdrawn_price_cannot_change(own: Database) -> None:
    entry = await added(own, model="large")
    async with own.session() as session:
        await entries.withdraw(session, OPERATOR, await entries.get(session, entry), NOW)

    with pytest.raises(InvalidPrice):
        await scheduled(own, entry)


@pytest.mark.parametrize(
    ("ids", "said"), [([], "Select the prices"), ([10**9], "no price"), ([*range(101)], "Select at most 100 prices.")]
)
async def test_prices_that_there_are_and_not_too_many_are_selected(own: Database, ids: list[int], said: str) -> None:
    with pytest.raises(InvalidPrice, match=said) as caught:
        await scheduled(own, *ids)
    assert [one.path for one in caught.value.details] == ["entry"]


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({"value": ""}, {"value"}),
        ({"value": "0"}, {"value"}),
        ({"value": "-100.5"}, {"value"}),
        ({"value": "1001"}, {"value"}),
        ({"value": "NaN"}, {"value"}),
        ({"value": "1e-7"}, {"value"}),
        ({"value": "1E+400"}, {"value"}),
        ({"value": "1e99999999"}, {"value"}),
        ({"value": "-1e99999999"}, {"value"}),
        ({"value": "1e-99999999"}, {"value"}),
        ({"value": "0e99999999"}, {"value"}),
        ({"value": f"1.{'0' * 40}1"}, {"value"}),
        ({"how": "set", "component": "input_per_million", "value": "1e99999999"}, {"value"}),
        ({"component": "model"}, {"component"}),
        ({"how": "set", "value": "3"}, {"component"}),
        ({"how": "set", "component": "input_per_million", "value": "-1"}, {"value"}),
        ({"how": "set", "component": "input_per_million", "value": "100000000"}, {"value"}),
        ({"effective_from": ""}, {"effective_from"}),
        ({"effective_from": "soon"}, {"effective_from"}),
        ({"effective_from": "9999-12-31T23:59:59-23:00"}, {"effective_from"}),
        ({"value": "x", "effective_from": "x"}, {"value", "effective_from"}),
    ],
)
def test_every_wrong_field_is_named(sent: dict[str, str], wrong: set[str]) -> None:
    with pytest.raises(InvalidPrice) as caught:
        read_change(SENT | sent)
    assert {one.path for one in caught.value.details} == wrong


@pytest.mark.parametrize("text", ["-20", "-20 %", " \u221220%", "-20.000"])
def test_a_percentage_is_read_as_people_write_it(text: str) -> None:
    assert read_change(SENT | {"value": text}).value == Decimal(-20)


AMOUNTS = st.decimals(0, 10**8 - 1, places=PRICE_DECIMALS)


@given(amount=AMOUNTS, percent=st.decimals(-100, 1000, places=PRICE_DECIMALS))
def test_a_percentage_of_an_amount_is_exact_to_its_last_decimal(amount: Decimal, percent: Decimal) -> None:
    change = BulkChange(How.PERCENT, ("input_per_million",), percent, NOW)

    found = change.amount(amount)

    assert found is not None
    scale = 10**PRICE_DECIMALS
    exact, rest = divmod(int(amount * scale) * int((100 + percent) * scale), 100 * scale)
    half = 50 * scale
    expected = exact + (rest > half or (rest == half and exact % 2 == 1))
    assert int(found * scale) == expected
