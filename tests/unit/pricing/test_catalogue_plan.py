"""What a sync writes: from a catalogue and what the registry has of it."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from runtally.models.price import Match, PriceSource
from runtally.pricing.catalogue import Plan, SyncReport, plan_of
from runtally.pricing.catalogue_queries import KnownEntry
from runtally.pricing.draft import CatalogueEntry
from tests.unit.pricing.candidates import NOW

DAY = timedelta(days=1)
ENTRY = CatalogueEntry(
    provider="acme",
    model="large",
    match=Match.EXACT,
    input_per_million=Decimal(3),
    output_per_million=Decimal(15),
    catalogue_key="acme/large",
)
DEARER = replace(ENTRY, input_per_million=Decimal(4))


def planned(
    entry: CatalogueEntry | None, row: CatalogueEntry | None, source: PriceSource = PriceSource.CATALOGUE
) -> Plan:
    return plan_of([entry] if entry else [], [KnownEntry(1, row, source)] if row else [], NOW)


def test_an_entry_that_the_registry_lacks_is_added() -> None:
    plan = planned(ENTRY, None)

    assert plan.insert == [ENTRY]
    assert plan.report == SyncReport(added=1, changed=0, unchanged=0, vanished=0, kept=0)


def test_an_entry_that_it_has_is_left() -> None:
    assert planned(ENTRY, ENTRY) == Plan(unchanged=1)


def test_an_entry_that_replaced_another_is_left() -> None:
    assert planned(ENTRY, replace(ENTRY, effective_from=NOW - DAY)) == Plan(unchanged=1)


def test_an_entry_that_the_catalogue_dropped_stays() -> None:
    assert planned(None, ENTRY) == Plan(vanished=1)


@pytest.mark.parametrize("entry", [ENTRY, DEARER])
def test_an_admins_entry_is_left(entry: CatalogueEntry) -> None:
    assert planned(entry, ENTRY, PriceSource.ADMIN) == Plan(kept=1)
    assert planned(None, ENTRY, PriceSource.ADMIN) == Plan()


@pytest.mark.parametrize(
    "change", [{"aliases": ("big",)}, {"note": "New."}, {"estimated": True}, {"effective_to": NOW}]
)
def test_fields_that_are_no_amount_change_in_place(change: dict[str, Any]) -> None:
    changed = replace(ENTRY, **change)

    plan = planned(changed, ENTRY)

    assert plan == Plan(update=[(1, changed)])
    assert plan.report == SyncReport(added=0, changed=1, unchanged=0, vanished=0, kept=0)


def test_further_units_and_variants_are_added_in_place_to_an_entry_from_before_there_were_any() -> None:
    more = replace(ENTRY, unit_rates="webSearch 10", variants="tier batch: x 0.5")

    plan = planned(more, ENTRY)
    other = planned(replace(more, unit_rates="webSearch 14"), more)

    assert ([number for number, _ in plan.update], plan.retire, plan.insert) == ([1], [], [])
    assert (other.update, [number for number, _ in other.retire], len(other.insert)) == ([], [1], 1)


def test_a_change_in_place_keeps_the_start() -> None:
    started = replace(ENTRY, effective_from=NOW - DAY)

    assert planned(replace(ENTRY, note="New."), started) == Plan(update=[(1, replace(started, note="New."))])


@pytest.mark.parametrize("column", ["input", "output", "cache_read", "cache_write", "reasoning"])
def test_a_price_that_changed_ends_now_and_its_successor_starts(column: str) -> None:
    amount: dict[str, Any] = {f"{column}_per_million": Decimal(7)}
    changed = replace(ENTRY, **amount)

    plan = planned(changed, ENTRY)

    assert plan == Plan(retire=[(1, NOW)], insert=[replace(changed, effective_from=NOW)])
    assert plan.report == SyncReport(added=0, changed=1, unchanged=0, vanished=0, kept=0)


@pytest.mark.parametrize(
    ("start", "end"),
    [(NOW - 2 * DAY, NOW - DAY), (NOW + DAY, None)],
    ids=["over", "still to come"],
)
def test_outside_its_period_a_price_is_withdrawn_and_another_takes_its_place(
    start: datetime, end: datetime | None
) -> None:
    row = replace(ENTRY, effective_from=start, effective_to=end)
    changed = replace(row, input_per_million=Decimal(4))

    plan = planned(changed, row)

    assert plan == Plan(withdraw=[1], insert=[changed], corrected=1)
    assert plan.report == SyncReport(added=0, changed=1, unchanged=0, vanished=0, kept=0)


def test_a_new_entry_is_left_out_where_an_admins_price_has_its_name() -> None:
    mine = KnownEntry(7, replace(ENTRY, model="big", catalogue_key=""), PriceSource.ADMIN)

    assert plan_of([replace(ENTRY, aliases=("BIG",))], [mine], NOW) == Plan(kept=1)


def test_entries_that_an_admin_withdrew_are_not_added_again() -> None:
    withdrawn = KnownEntry(7, ENTRY, PriceSource.ADMIN, is_withdrawn=True)

    assert plan_of([ENTRY], [withdrawn], NOW) == Plan(kept=1)
    assert plan_of([replace(ENTRY, catalogue_key="acme/again")], [withdrawn], NOW).insert != []


def test_an_earlier_catalogue_entry_for_a_time_is_withdrawn() -> None:
    closed = KnownEntry(1, replace(ENTRY, effective_to=NOW - DAY, catalogue_key=""), PriceSource.CATALOGUE)
    current = KnownEntry(2, replace(DEARER, effective_from=NOW - DAY), PriceSource.CATALOGUE)
    announced = replace(ENTRY, input_per_million=Decimal(5), effective_from=NOW - 3 * DAY, catalogue_key="acme/large@3")
    base = replace(DEARER, effective_to=NOW - 3 * DAY)

    plan = plan_of([base, announced], [closed, current], NOW)

    assert plan == Plan(insert=[base, announced], withdraw=[1, 2], corrected=1)
    assert plan.report == SyncReport(added=1, changed=1, unchanged=0, vanished=0, kept=0)


def test_a_period_that_turns_out_to_be_over_ends_now() -> None:
    started = replace(ENTRY, effective_from=NOW - DAY)
    over = replace(ENTRY, effective_to=NOW - 2 * DAY)

    assert planned(over, started) == Plan(retire=[(1, NOW)], insert=[over])


@pytest.mark.parametrize(
    ("entry", "row"),
    [
        (DEARER, ENTRY),
        (replace(ENTRY, effective_to=NOW - 2 * DAY), replace(ENTRY, effective_from=NOW - DAY)),
        (replace(DEARER, effective_to=NOW - DAY), replace(ENTRY, effective_to=NOW - DAY)),
        (replace(ENTRY, effective_to=NOW + DAY), ENTRY),
    ],
)
def test_a_second_sync_has_nothing_to_do(entry: CatalogueEntry, row: CatalogueEntry) -> None:
    first = planned(entry, row)
    [after] = [*first.insert, *(changed for _, changed in first.update)]

    assert planned(entry, after) == Plan(unchanged=1)
