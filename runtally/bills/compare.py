"""Compare what a vendor billed with what was computed here, and name each part of the difference with its amount. Pure.

For each model and day the parts add up to the difference to the last digit:

    billed - computed = (billed - V) + (V - O) + (O - computed)

V is what the vendor's own counts cost by the registry, O what the counts of the stored runs do. V - O falls into calls, units,
service tiers and regions; the rest is a matter of prices.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, TypeVar

from runtally.bills.rows import BillRow
from runtally.money import to_usd
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, lines_of, price_for_run
from runtally.runs.cost_line_queries import PricedAlike
from runtally.units import FURTHER, LINES, TOKEN_KINDS, Measured, Usage

K = TypeVar("K")

_ZERO: Final = Decimal(0)
_CREDIT_WORDS: Final = ("credit", "refund", "discount", "adjustment", "rebate")
_TAX_WORDS: Final = ("tax", "vat", "gst")


class Reason(StrEnum):
    """Why an amount was billed that was not computed here, or the other way round."""

    CALLS = "calls"
    """Tokens that only one side has: calls that never arrived, or that the vendor did not bill."""
    UNITS = "units"
    """Searches, images and other units that only one side has."""
    TIER = "tier"
    REGION = "region"
    PRICE = "price"
    """Equal counts at another price."""
    NO_PRICE = "noPrice"
    """No price is known here."""
    ROUNDING = "rounding"
    """The vendor's amounts have fewer digits."""
    REPRICE = "reprice"
    """Costs that were stored by other prices than those of today."""
    CREDIT = "credit"
    TAX = "tax"
    FEE = "fee"
    """A line of the bill that is of no model, such as storage."""
    UNTOLD = "untold"
    """The report has no counts that would tell calls and prices apart."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a difference."""

    reason: Reason
    amount_usd: Decimal
    what: str = ""
    """The unit, tier or line that it is about."""
    billed: int | Decimal | None = None
    """How many the vendor counted."""
    here: int | Decimal | None = None
    """How many the stored runs have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What was billed and computed for something, such as a model, and the parts of the difference."""

    name: str
    billed_usd: Decimal
    computed_usd: Decimal
    parts: tuple[Part, ...]
    billed_requests: int = 0
    requests: int = 0

    @property
    def difference_usd(self) -> Decimal:
        return self.billed_usd - self.computed_usd


@dataclass(frozen=True, slots=True)
class Comparison:
    """A bill beside what was computed here."""

    total: Difference
    models: tuple[Difference, ...]
    """The largest difference first; what is of no model is last, without a name."""
    days: tuple[Difference, ...]
    """In their order; empty for a bill without days."""
    keys: tuple[tuple[str, Decimal, int], ...]
    """The vendor's keys, workspaces or projects: id, amount, requests."""
    is_counted: bool
    """Whether the vendor's counts are known."""
    is_billed: bool
    """Whether the vendor's amounts are known; if not, its counts are priced by the registry."""
    deleted: Mapping[datetime, Decimal] = field(default_factory=dict)
    """What projects that were deleted since had cost in the bill's months, of any vendor, by the start of each."""


@dataclass(slots=True)
class _Side:
    """What one side has of a model on a day: amounts at list price by line, and counts."""

    lines: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    counts: dict[str, int | Decimal] = field(default_factory=lambda: defaultdict(int))
    tokens: int = 0
    requests: int = 0
    amount_usd: Decimal = _ZERO
    """What was billed, or what was stored."""
    fixed_usd: Decimal = _ZERO
    """What of the stored costs does not follow from a price: it was reported."""
    discounted_usd: Decimal = _ZERO
    """What the counts cost after the project's discount."""
    is_counted: bool = False
    is_billed: bool = False
    is_priced: bool = True
    tells_length: bool = False
    """Whether it says which calls had long inputs."""
    rounded_usd: Decimal = _ZERO
    """What the vendor's rounding of its amounts may come to."""
    tiers: Counter[str] = field(default_factory=Counter)
    regions: Counter[str] = field(default_factory=Counter)

    @property
    def list_usd(self) -> Decimal:
        return sum(self.lines.values(), _ZERO)

    def charge(self, usage: Usage, price: Price | None, requests: int, long: Price | None = None) -> None:
        """Count calls at this price; what that for their long inputs adds is a line of its own."""
        self.is_counted = True
        self.requests += requests
        self.tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if price is None:
            self.is_priced = False
            return
        for line in lines_of(usage, price):
            times = requests if line.name == "request" else 1
            self.lines[line.name] += line.amount_usd * times
            self.counts[line.name] += line.quantity * times
        if long is not None and long != price:
            more = sum((line.amount_usd for line in lines_of(usage, long)), _ZERO)
            self.lines[_LENGTH] += more - sum((line.amount_usd for line in lines_of(usage, price)), _ZERO)


_LENGTH: Final = "length"


def compare(
    rows: Sequence[BillRow], runs: Mapping[date, Sequence[PricedAlike]], provider: str, book: PriceBook
) -> Comparison:
    """Compare the rows of a bill with runs of the same provider and days, which are grouped by provider and model."""
    sides: dict[tuple[date, str], tuple[_Side, _Side]] = defaultdict(lambda: (_Side(), _Side()))
    fees = list[BillRow]()
    names, step = _Names(provider, book), _step(rows)
    for row in rows:
        if row.model is None and row.amount_usd is not None and not _is_of_unit(row):
            fees.append(row)
        else:
            _add_billed(sides[row.day, names.name_of(row.model)][0], row, names, step)
    for day, found in runs.items():
        for alike in found:
            _add_stored(sides[day, names.name_of(alike.group[1])][1], alike, names)
    is_counted = any(billed.is_counted for billed, _ in sides.values())
    is_billed = any(row.amount_usd is not None for row in rows)
    for billed, stored in sides.values():
        if billed.is_counted and not billed.tells_length and _LENGTH in stored.lines:
            # A report that does not tell has the long inputs that are known here.
            billed.lines[_LENGTH] = stored.lines[_LENGTH]
    every = {place: _difference(place[1], *both, is_billed=is_billed) for place, both in _split_units(sides).items()}
    charged = [(row.day, _fee(row)) for row in fees]
    by_model, by_day = defaultdict(list), defaultdict(list)
    for (day, model), difference in every.items():
        by_model[model].append(difference)
        by_day[day].append(difference)
    for day, fee in charged:
        by_model[""].append(fee)
        by_day[day].append(fee)
    models = [_sum(model, found) for model, found in by_model.items()]
    models.sort(key=lambda model: (not model.name, -abs(model.difference_usd), model.name))
    days = [_sum(f"{day:%Y-%m-%d}", by_day[day]) for day in sorted(by_day)]
    total = _sum("", models)
    return Comparison(total, tuple(models), tuple(days), tuple(_keys(rows)), is_counted, is_billed)


def compare_amount(amount_usd: Decimal, runs: Iterable[PricedAlike]) -> Comparison:
    """Compare an amount that was typed with runs: nothing tells why it differs."""
    found = list(runs)
    computed = sum((difference.cost_usd for difference in found), _ZERO)
    parts = (Part(Reason.UNTOLD, amount_usd - computed),) if amount_usd != computed else ()
    total = Difference("", amount_usd, computed, parts, 0, sum(difference.runs for difference in found))
    return Comparison(total, (), (), (), is_counted=False, is_billed=True)


class _Names:
    """Finds the price of a model, and the name by which both sides are put beside each other."""

    def __init__(self, provider: str, book: PriceBook) -> None:
        self._provider, self._book = provider, book
        self._names: dict[str, str] = {}

    def price_of_row(self, row: BillRow, input_tokens: int = 0) -> Price | None:
        """Return the list price of what a row counts, for inputs of so many tokens."""
        at = datetime.combine(row.day, time(12), UTC)
        return self._price(row.model, at, row.tier, row.region, input_tokens)

    def price_of_runs(self, row: PricedAlike, project_id: str | None, input_tokens: int) -> Price | None:
        """Return the price of runs with so many input tokens, after the discounts of a project if one is given."""
        return self._price(row.group[1], row.at, row.tier, row.region, input_tokens, project_id)

    def _price(  # noqa: PLR0913, PLR0917  # What a price depends on.
        self,
        model: str | None,
        at: datetime,
        tier: str | None,
        region: str | None,
        tokens: int = 0,
        project_id: str | None = None,
    ) -> Price | None:
        found = self._book.price_for(self._provider, model, at, tokens, project_id) if model else None
        return None if found is None else price_for_run(found, tier, region, at, tokens)

    def name_of(self, model: str | None) -> str:
        """Return the name that the registry has for a model: a dated name is the same model."""
        text = model or ""
        if text and text not in self._names:
            found = self._book.look_up(self._provider, text, datetime.now(UTC), 0)
            self._names[text] = found.level[0].model if found and not found.is_borrowed else text
        return self._names.get(text, "")


def _step(rows: Iterable[BillRow]) -> Decimal:
    """Return the step to which a vendor rounds, by the amount that has most decimals, of two at least."""
    exponents = [int(row.amount_usd.normalize().as_tuple().exponent) for row in rows if row.amount_usd is not None]
    return Decimal(1).scaleb(min([-2, *exponents]))


def _add_billed(side: _Side, row: BillRow, names: _Names, step: Decimal) -> None:
    if row.amount_usd is not None:
        side.is_billed = True
        side.amount_usd += row.amount_usd
        side.rounded_usd += step / 2
    if not row.tokens and not row.units and not row.requests:
        return
    usage = Usage(**{kind.count_column: row.tokens.get(kind.name) for kind in TOKEN_KINDS}, units=row.units or None)
    # A row may tell that its inputs were long.
    long = names.price_of_row(row, row.longer_than + 1) if row.longer_than else None
    side.charge(usage, names.price_of_row(row), row.requests, long)
    side.tells_length |= row.longer_than is not None
    if row.tier:
        side.tiers[row.tier] += row.requests
    if row.region:
        side.regions[row.region] += row.requests


def _add_stored(side: _Side, row: PricedAlike, names: _Names) -> None:
    side.amount_usd += row.cost_usd
    price = names.price_of_runs(row, None, row.input_tokens)
    side.charge(row.usage, names.price_of_runs(row, None, 0), row.runs, price)
    if row.entry_id is None:
        side.fixed_usd += row.cost_usd
    less = names.price_of_runs(row, row.project_id, row.input_tokens) if row.project_id else price
    if less is not None:
        side.discounted_usd += sum(
            (line.amount_usd * (row.runs if line.name == "request" else 1) for line in lines_of(row.usage, less)), _ZERO
        )
    if row.tier:
        side.tiers[row.tier] += row.runs
    if row.region:
        side.regions[row.region] += row.runs


def _is_token(name: str) -> bool:
    return name in {"request", _LENGTH} or (name in LINES and LINES[name].measured is Measured.TOKENS)


def _is_of_unit(row: BillRow) -> bool:
    """Return whether a line of no model is the fee of units that calls have, such as searches."""
    return bool(row.units) or "search" in row.line.casefold()


_TOOLS: Final = frozenset(name for name, unit in FURTHER.items() if unit.measured is Measured.REQUESTS)


def _split_units(sides: Mapping[tuple[date, str], tuple[_Side, _Side]]) -> dict[tuple[date, str], tuple[_Side, _Side]]:
    """Move the fees of searches and the like away from the models, for days on which the bill has them apart."""
    found = dict(sides)
    for (day, model), (apart, _) in list(sides.items()):
        if model or not apart.is_billed:
            continue
        beside = found[day, ""]
        for (other_day, other), both in sides.items():
            if other_day != day or not other:
                continue
            for place in (0, 1):
                for name in sorted(_TOOLS & both[place].lines.keys()):
                    amount = both[place].lines.pop(name)
                    beside[place].lines[name] += amount
                    beside[place].counts[name] += both[place].counts.pop(name)
                    beside[place].is_counted = True
                    if place == 1:
                        both[1].amount_usd -= amount
                        both[1].discounted_usd -= amount
                        beside[1].amount_usd += amount
                        beside[1].discounted_usd += amount
    return found


def _difference(name: str, billed: _Side, stored: _Side, *, is_billed: bool) -> Difference:
    """Name the parts of one model's difference on one day."""
    share = _share(stored)
    worth = to_usd_of(billed.list_usd, share)
    amount = billed.amount_usd if billed.is_billed or is_billed else worth
    parts = list(_parts(name, billed, stored, share, amount)) if amount != stored.amount_usd else []
    return Difference(name, amount, stored.amount_usd, tuple(parts), billed.requests, stored.requests)


_SEARCH: Final = "webSearch"


def _parts(name: str, billed: _Side, stored: _Side, share: Fraction, amount: Decimal) -> Iterator[Part]:
    whole = amount - stored.amount_usd
    if not billed.is_counted and (billed.is_billed or not stored.requests):
        # Only the fees of searches belong to no model and are beside the counts.
        searches = stored.counts.get(_SEARCH, 0)
        yield Part(Reason.UNTOLD, whole) if name else Part(Reason.UNITS, whole, _SEARCH, None, searches)
        return
    told = _ZERO
    for part in _counted(billed, stored, share):
        told += part.amount_usd
        if part.amount_usd or part.billed != part.here:
            yield part
    after = to_usd_of(stored.list_usd, share)
    if stored.amount_usd != after:
        told += after - stored.amount_usd
        yield Part(Reason.REPRICE, after - stored.amount_usd)
    if rest := whole - told:
        yield Part(_of_price(billed, rest), rest)


def _counted(billed: _Side, stored: _Side, share: Fraction) -> Iterator[Part]:
    """Yield what only one side has, at the registry's price."""
    names = {**billed.lines, **stored.lines}
    calls = sum(
        (billed.lines.get(name, _ZERO) - stored.lines.get(name, _ZERO) for name in names if _is_token(name)), _ZERO
    )
    if calls or billed.requests != stored.requests:
        yield Part(Reason.CALLS, to_usd_of(calls, share), "", billed.requests, stored.requests)
    for name in names:
        if _is_token(name):
            continue
        amount = to_usd_of(billed.lines.get(name, _ZERO) - stored.lines.get(name, _ZERO), share)
        if name in {"tier", "region"}:
            of = (billed.tiers, stored.tiers) if name == "tier" else (billed.regions, stored.regions)
            words = ", ".join(sorted({*of[0], *of[1]}))
            if amount:
                yield Part(Reason(name), amount, words, sum(of[0].values()), sum(of[1].values()))
        elif amount or billed.counts.get(name, 0) != stored.counts.get(name, 0):
            yield Part(Reason.UNITS, amount, name, billed.counts.get(name, 0), stored.counts.get(name, 0))


def _of_price(billed: _Side, rest: Decimal) -> Reason:
    if abs(rest) <= billed.rounded_usd:
        return Reason.ROUNDING
    return Reason.PRICE if billed.is_priced else Reason.NO_PRICE


def _share(stored: _Side) -> Fraction:
    """Return what the stored runs cost in proportion to the list price: after discounts, or as their provider reported."""
    whole = stored.list_usd
    if not whole:
        return Fraction(1)
    if stored.fixed_usd and stored.fixed_usd == stored.amount_usd:
        return Fraction(stored.amount_usd) / Fraction(whole)
    return Fraction(stored.discounted_usd) / Fraction(whole)


def to_usd_of(amount: Decimal, share: Fraction) -> Decimal:
    """Return a share of an amount, rounded half-even to pico-dollars."""
    if share == 1:
        return amount
    pico = round(Fraction(amount) * share * 10**12)
    return to_usd(Decimal(pico).scaleb(-12))


def _fee(row: BillRow) -> Difference:
    amount, words = row.amount_usd or _ZERO, row.line.casefold().split()
    reason = Reason.FEE
    if any(word.strip("():,") in _TAX_WORDS for word in words):
        reason = Reason.TAX
    elif amount < 0 or any(word.strip("():,").rstrip("s") in _CREDIT_WORDS for word in words):
        reason = Reason.CREDIT
    return Difference("", amount, _ZERO, (Part(reason, amount, row.line),) if amount else ())


def _sum(name: str, differences: Iterable[Difference]) -> Difference:
    """Add differences up, and the parts that are about the same."""
    every = list(differences)
    parts: dict[tuple[Reason, str], Part] = {}
    for part in (part for difference in every for part in difference.parts):
        place = part.reason, part.what
        old = parts.get(place)
        parts[place] = (
            part
            if old is None
            else replace(
                old,
                amount_usd=old.amount_usd + part.amount_usd,
                billed=_plus(old.billed, part.billed),
                here=_plus(old.here, part.here),
            )
        )
    shown = sorted(
        (part for part in parts.values() if part.amount_usd or part.billed != part.here),
        key=lambda one: -abs(one.amount_usd),
    )
    return Difference(
        name,
        sum((difference.billed_usd for difference in every), _ZERO),
        sum((difference.computed_usd for difference in every), _ZERO),
        tuple(shown),
        sum(difference.billed_requests for difference in every),
        sum(difference.requests for difference in every),
    )


def _plus(one: Any, other: Any) -> Any:  # noqa: ANN401  # Both are counts, or None.
    return other if one is None else one if other is None else one + other


def _keys(rows: Iterable[BillRow]) -> Iterator[tuple[str, Decimal, int]]:
    amounts: dict[str, list[Any]] = {}
    for row in rows:
        found = amounts.setdefault(row.key, [_ZERO, 0])
        found[0] += row.amount_usd or _ZERO
        found[1] += row.requests
    if amounts.keys() - {""}:
        yield from sorted(
            ((key, amount, count) for key, (amount, count) in amounts.items()), key=lambda one: (-one[1], one[0])
        )
