"""Schedule the same change for several prices: by percent, or to an amount. Each gets a successor; nothing is overwritten."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor
from runtally.errors import Detail, InvalidPrice
from runtally.models.price import AMOUNT_COLUMNS, PriceEntry
from runtally.money import PRICE_DECIMALS, entered, to_price
from runtally.pricing import entries
from runtally.pricing.draft import Draft, amounts_of, read_time
from runtally.pricing.rates import MAX_AMOUNT, rates_text, read_rates, read_variants, variants_text
from runtally.pricing.registry import MAX_FOUND
from runtally.units import FURTHER

MAX_ENTRIES = MAX_FOUND
"""Prices that one change may concern: as many as a search lists to select from."""
MIN_PERCENT, MAX_PERCENT = Decimal(-100), Decimal(1000)
ALL_AMOUNTS = "all"
ALL_COLUMNS = (*AMOUNT_COLUMNS, *FURTHER)
"""Each amount that a price may have, by its column or unit."""


class How(StrEnum):
    """What becomes of an amount."""

    PERCENT = "percent"
    SET = "set"


@dataclass(frozen=True, slots=True)
class BulkChange:
    """A change of one amount, or of all that a price has, from a time on."""

    how: How
    columns: tuple[str, ...]
    value: Decimal
    """Percent up (below 0: down), or US dollars."""
    start: datetime

    def amount(self, before: Decimal | None) -> Decimal | None:
        """Return the new amount; a percentage of no amount is none."""
        if self.how is How.SET:
            return self.value
        # Exact: an amount and a percentage have fewer digits together than a Decimal keeps.
        return None if before is None else to_price((before * (100 + self.value)).scaleb(-2))

    def values(self, entry: PriceEntry) -> dict[str, Any]:
        """Return the new values of the columns that change; with all amounts also the rates of variants."""
        rates = dict(read_rates(entry.unit_rates))
        for name in FURTHER:
            if name in self.columns and (usd := self.amount(rates.get(name))) is not None:
                rates[name] = usd
        found: dict[str, Any] = {
            name: self.amount(getattr(entry, name)) for name in self.columns if name in AMOUNT_COLUMNS
        }
        found["unit_rates"] = rates_text({name: rates[name] for name in FURTHER if name in rates}) or None
        if self.columns == ALL_COLUMNS:
            variants = (
                replace(variant, rates={name: self.amount(usd) or Decimal(0) for name, usd in variant.rates.items()})
                for variant in read_variants(entry.variants)
            )
            found["variants"] = variants_text(variants) or None
        return found


@dataclass(frozen=True, slots=True)
class Planned:
    """A price and its successor; `problem` says why there can be none."""

    entry: PriceEntry
    draft: Draft
    problem: str | None = None

    @property
    def changes(self) -> tuple[tuple[str, Decimal | None, Decimal | None], ...]:
        """The amounts that change: column or unit, before and after."""
        before, after = (dict(amounts_of(one)) for one in (self.entry, self.draft))
        pairs = ((name, before.get(name), after.get(name)) for name in ALL_COLUMNS)
        return tuple(pair for pair in pairs if pair[1] != pair[2])

    @property
    def is_scheduled(self) -> bool:
        """Whether the change writes an entry: one without a problem whose amounts do not stay as they are."""
        return self.problem is None and bool(self.changes)


def read_change(sent: Mapping[str, str]) -> BulkChange:
    """Read a change from texts. Raises `InvalidPrice` with every field that is wrong."""
    details: list[Detail] = []
    how = How.SET if sent.get("how") == How.SET else How.PERCENT
    component = sent.get("component") or ALL_AMOUNTS
    columns = ALL_COLUMNS if component == ALL_AMOUNTS else (component,)
    if not set(columns) <= set(ALL_COLUMNS):
        details.append(Detail("component", "Choose one of the listed amounts."))
    if how is How.SET and component == ALL_AMOUNTS:
        details.append(Detail("component", "Choose which amount to set."))
    value = entered(
        sent.get("value", "").strip().removesuffix("%").replace(",", "").replace("\u2212", "-"), PRICE_DECIMALS
    )
    wrong = _percent_problem(value) if how is How.PERCENT else _amount_problem(value)
    if wrong:
        details.append(Detail("value", wrong))
    try:
        start = read_time(sent.get("effective_from", ""))
    except (ValueError, OverflowError):
        start = None
    if start is None:
        details.append(Detail("effective_from", "Enter the day on which the change starts, such as 2026-12-01."))
    if details or start is None or value is None:
        raise InvalidPrice(details=tuple(details))
    return BulkChange(how, columns, value, start)


def plan(chosen: Iterable[PriceEntry], change: BulkChange) -> tuple[Planned, ...]:
    """Return the successor of each price, or why it cannot have one."""
    return tuple(_planned(entry, change) for entry in chosen)


async def find(session: AsyncSession, ids: Sequence[int]) -> Sequence[PriceEntry]:
    """Return the prices with these ids, in their order. Raises `InvalidPrice` for none, too many, or one that there is not."""
    if not ids or len(ids) > MAX_ENTRIES:
        why = f"Select at most {MAX_ENTRIES} prices." if ids else "Select the prices to change."
        raise InvalidPrice.at("entry", why)
    found = {entry.id: entry for entry in await session.exec(select(PriceEntry).where(col(PriceEntry.id).in_(ids)))}
    missing = next((id_ for id_ in ids if id_ not in found), None)
    if missing is not None:
        raise InvalidPrice.at("entry", f"There is no price {missing} any more. Search again.")
    return [found[id_] for id_ in dict.fromkeys(ids)]


async def schedule(
    session: AsyncSession, by: Actor, ids: Sequence[int], change: BulkChange, now: datetime
) -> tuple[PriceEntry, ...]:
    """Write the successors of all these prices, or of none. Raises `InvalidPrice`."""
    await entries.lock(session)
    planned = plan(await find(session, ids), change)
    problems = [one for one in planned if one.problem]
    if problems:
        number = "1 price" if len(problems) == 1 else f"{len(problems)} prices"
        raise InvalidPrice(f"{number} cannot change as asked; nothing was saved. See the reasons below.")
    scheduled = [one for one in planned if one.is_scheduled]
    if not scheduled:
        raise InvalidPrice("None of these prices would change; nothing was saved.")
    return tuple([await entries.follow(session, by, one.entry, one.draft, now) for one in scheduled])


def _planned(entry: PriceEntry, change: BulkChange) -> Planned:
    # A price that is scheduled already, or an end, stays as it is.
    draft = replace(
        Draft.of(entry), **change.values(entry), effective_from=change.start, effective_to=entry.effective_to
    )
    return Planned(entry, draft, _problem(entry, change.start) or _too_much(draft))


def _problem(entry: PriceEntry, start: datetime) -> str | None:
    if entry.withdrawn_at is not None:
        return "It was withdrawn."
    if entry.effective_from is not None and start <= entry.effective_from:
        return f"It starts on {entry.effective_from:%Y-%m-%d}. Choose a later day."
    if entry.effective_to is not None and start >= entry.effective_to:
        return f"It ends on {entry.effective_to:%Y-%m-%d}. Choose an earlier day."
    return None


def _too_much(draft: Draft) -> str | None:
    amounts = [usd for _, usd in amounts_of(draft)]
    amounts += [usd for variant in read_variants(draft.variants) for usd in variant.rates.values()]
    return "The new amount is too high." if any(amount >= MAX_AMOUNT for amount in amounts) else None


def _percent_problem(value: Decimal | None) -> str | None:
    if value is None or value == 0 or not MIN_PERCENT <= value <= MAX_PERCENT:
        return "Enter a percentage from -100 to 1,000, such as -20 for 20% less."
    return None


def _amount_problem(value: Decimal | None) -> str | None:
    if value is None or not 0 <= value < MAX_AMOUNT:
        return f"Enter an amount in US dollars with at most {PRICE_DECIMALS} decimals, such as 2.50."
    return None
