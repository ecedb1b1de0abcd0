"""Compute the cost of a run: the price rules of the contract, in whole pico-dollars. Pure; `match` finds the price.

Some units are part of others, as `runtally.units` says. A part is subtracted and priced on its own where the price has an
amount for it; otherwise it stays in the whole and costs the same as the rest. A client that reports more parts than the
whole is charged for the parts, and nothing of the whole is left. A unit beside the tokens that has no price makes the
cost a minimum. A fee for each request is added, whatever the number of tokens.

The variants of a price that hold for a run change its rates: those of hours and tokens first, then those of the service
tier, then those of the region. What tier and region change are lines of their own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter
from typing import Protocol, Self, TypeAlias

import msgspec

from runtally.models.run import CostSource
from runtally.money import USD_DECIMALS, from_pico
from runtally.pricing.rates import STANDARD_TIERS, Variant, pico_per_unit, usd_per_units
from runtally.units import FURTHER, INPUT, LINES, OUTPUT, PER, TOKEN_KINDS, Measured, Unit, by_whole

MILLION = 1_000_000
THOUSAND = 1_000
# A percentage has two decimals.
_HUNDRED_PERCENT = 10_000


class TokenCounts(Protocol):
    """Counts of tokens, with an attribute for each kind. A stored run has them, so pricing it copies nothing."""

    @property
    def input_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def cached_input_tokens(self) -> int | None: ...
    @property
    def cache_write_tokens(self) -> int | None: ...
    @property
    def units(self) -> Mapping[str, int | float] | None: ...


_COUNT_OF = {kind: attrgetter(kind.count_column) for kind in TOKEN_KINDS}
_PLACES = {kind: place for place, kind in enumerate(TOKEN_KINDS)}
_CACHE_KINDS = frozenset({"cached_input", "cache_write"})
# Parts that have parts themselves.
_NESTED = tuple(kind for kind in TOKEN_KINDS if kind.name in _CACHE_KINDS)


_Part: TypeAlias = tuple[Callable[[TokenCounts], int | None], int]
"""How to read the count of a part, and pico-dollars per token."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Pico-dollars per token of each kind, in the order of `TOKEN_KINDS`; None where the price has no amount for it."""

    picos: tuple[int | None, ...]
    further: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Pico-dollars for one of each unit without columns that has an amount, by its name."""
    cache: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    """The parts of the input that come from a cache or go to one, and have an amount."""
    of_input: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    """The other parts of the input that have an amount."""
    of_output: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    has_tokens: bool = field(init=False, repr=False, compare=False)
    """Whether any kind of tokens has an amount."""
    input: int = field(init=False, repr=False, compare=False)
    output: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts: dict[str, list[_Part]] = {"cache": [], "of_input": [], "of_output": []}
        for kind, pico in zip(TOKEN_KINDS, self.picos, strict=True):
            if kind.part_of is not None and pico is not None:
                of = "cache" if kind.name in _CACHE_KINDS else "of_input" if kind.part_of is INPUT else "of_output"
                parts[of].append((_COUNT_OF[kind], pico))
        ready = {name: tuple(priced) for name, priced in parts.items()}
        has_tokens = any(pico is not None for pico in self.picos)
        for name, value in {
            **ready,
            "has_tokens": has_tokens,
            "input": self[INPUT] or 0,
            "output": self[OUTPUT] or 0,
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, **picos: int | None) -> Self:
        """Build rates from the names of their columns, such as `cache_read`; the other kinds have no amount."""
        unknown = picos.keys() - {kind.rate for kind in TOKEN_KINDS}
        if unknown:
            raise TypeError(f"No kind of tokens is priced as {', '.join(sorted(unknown))}")
        return cls(tuple(picos.get(kind.rate) for kind in TOKEN_KINDS))

    def __getitem__(self, unit: Unit) -> int | None:
        place = _PLACES.get(unit)
        return self.further.get(unit.name) if place is None else self.picos[place]

    def scaled(self, share: Fraction, *, only_tokens: bool = False) -> Self:
        """Return the rates times a number, each rounded half-even to whole pico-dollars."""
        return type(self)(
            tuple(None if pico is None else round(pico * share) for pico in self.picos),
            {
                name: pico if only_tokens and FURTHER[name].measured is not Measured.TOKENS else round(pico * share)
                for name, pico in self.further.items()
            },
        )


@dataclass(frozen=True, slots=True)
class Price:
    """The amounts of a price entry, in the units of the computation."""

    id: int
    provider: str
    model: str
    above_input_tokens: int
    rates: Rates
    estimated: bool
    effective_from: datetime | None = None
    effective_to: datetime | None = None
    request_pico: int = 0
    """Pico-dollars for each request, in addition to its tokens."""
    percent_off: Decimal | None = None
    """The percentage that the project's discount took off the entry; the amounts here are after it."""
    variants: tuple[Variant, ...] = ()
    steps: "tuple[tuple[str, Price], ...]" = ()
    """The price before what tier and region change, by the name of the line that this is."""
    applied: tuple[Variant, ...] = ()
    """The variants that these rates are of."""
    varies_by_time: bool = field(init=False, repr=False, compare=False)
    """Whether a run without tier and region may have other rates."""
    varied: "dict[tuple[bool, tuple[int, ...]], Price]" = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """The prices of variants that were asked for, because runs with a tier are many."""

    def __post_init__(self) -> None:
        by_time = any(variant.is_for_some_times for variant in self.variants)
        object.__setattr__(self, "varies_by_time", by_time)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a cost: `quantity` of a unit at `rate_usd` per `per` of it cost exactly `amount_usd`."""

    kind: Unit | None
    """None for the request's fee, for what tier and region change, and for a unit that is not known."""
    quantity: int | Decimal
    rate_usd: Decimal | None
    """None: the unit has no price, and the amount is 0."""
    per: int
    amount_usd: Decimal
    name: str
    """The name on the wire."""


class Cost(msgspec.Struct, frozen=True):
    """A run's cost and its source; all fields are None while no price is known."""

    total_usd: Decimal | None
    source: CostSource | None
    estimated: bool | None
    entry_id: int | None
    cache_savings_usd: Decimal | None = None
    """How much more its cached tokens would cost as plain input, below zero for less; None without cached tokens."""
    is_minimum: bool | None = None
    """True where a unit of the run has no price, so that it costs more than this."""
    without_usage: bool | None = None
    """True where nothing says what was used: no tokens, no other units and no reported cost."""


UNPRICED = Cost(None, None, None, None)


def price_for_run(price: Price, tier: str | None, region: str | None, at: datetime, input_tokens: int) -> Price:
    """Return the price with the rates of the variants that hold for a run.

    A service tier for which the price has none makes the cost an estimate.
    """
    tier = None if tier in STANDARD_TIERS else tier
    if tier is None and (not price.variants or (region is None and not price.varies_by_time)):
        return price
    variants = price.variants
    held = tuple(place for place, variant in enumerate(variants) if variant.holds(tier, region, at, input_tokens))
    estimated = price.estimated or (tier is not None and not any(variants[place].tiers for place in held))
    if not held and estimated == price.estimated:
        return price
    found = price.varied.get((estimated, held))
    if found is None:
        found = price.varied[estimated, held] = _price_of(price, tuple(variants[place] for place in held), estimated)
    return found


def _price_of(price: Price, held: tuple[Variant, ...], estimated: bool) -> Price:  # noqa: FBT001  # As it is kept.
    taken = [variant for variant in held if not variant.tiers and not variant.regions]
    by_tier, by_region = (
        [variant for variant in held if variant.tiers],
        [variant for variant in held if variant.regions and not variant.tiers],
    )
    varied, steps = _varied(price, taken, estimated=estimated), []
    for name, more in (("tier", by_tier), ("region", by_region)):
        if more:
            steps.append((name, varied))
            # The rates of a tier come before those of an hour.
            taken = [*more, *taken]
            varied = _varied(price, taken, estimated=estimated)
    return replace(varied, steps=tuple(steps), applied=held)


def _varied(price: Price, variants: Iterable[Variant], *, estimated: bool) -> Price:
    """Return the price with the rates that variants name, the first one first, times the product of their factors."""
    factor, named = Fraction(1), dict[str, int]()
    for variant in variants:
        if variant.factor is not None:
            factor *= Fraction(variant.factor)
        for name, usd in variant.rates.items():
            named.setdefault(name, pico_per_unit(LINES[name], usd))
    if price.percent_off is not None:
        named = {name: round(pico * _left(price.percent_off)) for name, pico in named.items()}
    rates = Rates(
        tuple(named.get(kind.line, price.rates[kind]) for kind in TOKEN_KINDS),
        {**price.rates.further, **{name: pico for name, pico in named.items() if name in FURTHER}},
    )
    return replace(price, rates=rates.scaled(factor, only_tokens=True), estimated=estimated)


def lines_of(usage: TokenCounts, price: Price) -> tuple[Line, ...]:
    """List the lines of the cost, without units that the run has none of. Their amounts add up to `total_usd`."""
    changes, after = [], price
    for name, before in reversed(price.steps):
        changes.append(Line(None, 1, Decimal(0), 1, total_usd(usage, after) - total_usd(usage, before), name))
        after = before
    return (*_plain_lines(usage, after), *reversed(changes))


def _plain_lines(usage: TokenCounts, price: Price) -> Iterator[Line]:
    charged = _charged(usage, price.rates)
    for unit in (*by_whole(), *FURTHER.values()):
        if (quantity := charged.get(unit.name, 0)) > 0:
            # Tokens without a price are free: an embedding has no output.
            pico = price.rates[unit] or 0 if unit in _PLACES or unit.part_of else price.rates[unit]
            rate = None if pico is None else usd_per_units(unit, pico)
            yield Line(unit, quantity, rate, PER[unit.measured], from_pico(_times(quantity, pico or 0)), unit.line)
    for name, count in (usage.units or {}).items():
        if name not in FURTHER:
            yield Line(None, _exactly(count), None, 1, Decimal(0), name)
    if price.request_pico:
        rate = Decimal(price.request_pico).scaleb(3 - USD_DECIMALS)
        yield Line(None, 1, rate, THOUSAND, from_pico(price.request_pico), "request")


def unpriced_units(usage: TokenCounts, price: Price) -> tuple[str, ...]:
    """List the units of a run beside its tokens for which the price has no amount."""
    further = price.rates.further
    return tuple(
        name
        for name, count in (usage.units or {}).items()
        if count and name not in further and (name not in FURTHER or FURTHER[name].part_of is None)
    )


def _charged(usage: TokenCounts, rates: Rates) -> dict[str, int | Decimal]:
    """Return how many of each unit are charged at its own rate, by the unit's name. Parts are subtracted once."""
    counts: dict[Unit, int | Decimal] = {kind: _COUNT_OF[kind](usage) or 0 for kind in TOKEN_KINDS}
    for name, number in (usage.units or {}).items():
        if name in FURTHER:
            counts[FURTHER[name]] = _exactly(number)
    for whole in _NESTED:
        # A client that counts parts may leave out what they are part of.
        counts[whole] = max(counts[whole], sum(count for unit, count in counts.items() if unit.part_of is whole))
    charged = dict(counts)
    for unit, count in counts.items():
        above = unit.part_of
        if above is None:
            continue
        if rates[unit] is None:
            charged[unit] = 0
            continue
        while above.part_of is not None and rates[above] is None:
            above = above.part_of
        charged[above] -= count
    return {unit.name: count for unit, count in charged.items()}


def _exactly(count: float) -> int | Decimal:
    # Seconds have decimals, which a float has exactly in its shortest text.
    return count if isinstance(count, int) else Decimal(repr(count))


def _times(quantity: int | Decimal, pico: int) -> int:
    return quantity * pico if isinstance(quantity, int) else round(Fraction(quantity) * pico)


def total_usd(usage: TokenCounts, price: Price) -> Decimal:
    """Return the sum of `lines_of` without building the lines."""
    return from_pico(_picos(usage, price)[0])


def cache_savings_usd(usage: TokenCounts, price: Price) -> Decimal | None:
    """Return what the tokens that came from a cache or went to one would have cost more as plain input.

    None without such tokens. It is below zero where writing cost more than reading saved.
    """
    return _savings_usd(usage, _picos(usage, price)[1])


def _savings_usd(usage: TokenCounts, saved: int) -> Decimal | None:
    return from_pico(saved) if usage.cached_input_tokens or usage.cache_write_tokens else None


def _picos(usage: TokenCounts, price: Price) -> tuple[int, int]:
    """Return the cost, and what caches saved. Both at once: this runs for every run that is ingested."""
    if usage.units:
        return _picos_of_units(usage, price)
    rates, saved = price.rates, 0
    pico, tokens_in, tokens_out = price.request_pico, usage.input_tokens or 0, usage.output_tokens or 0
    for count_of, part_pico in rates.of_output:
        if count := count_of(usage):
            pico += count * part_pico
            tokens_out -= count
    if tokens_out > 0:
        pico += tokens_out * rates.output
    for count_of, part_pico in rates.of_input:
        if count := count_of(usage):
            pico += count * part_pico
            tokens_in -= count
    for count_of, part_pico in rates.cache:
        if count := count_of(usage):
            pico += count * part_pico
            saved += count * (rates.input - part_pico)
            tokens_in -= count
    return (pico + tokens_in * rates.input if tokens_in > 0 else pico), saved


def _picos_of_units(usage: TokenCounts, price: Price) -> tuple[int, int]:
    rates, pico, saved = price.rates, price.request_pico, 0
    charged = _charged(usage, rates)
    for unit in LINES.values():
        if (count := charged.get(unit.name, 0)) > 0:
            amount = _times(count, rates[unit] or 0)
            pico += amount
            if unit.name in _CACHE_KINDS or (unit.part_of and unit.part_of.name in _CACHE_KINDS):
                saved += _times(count, rates.input) - amount
    return pico, saved


def discounted(price: Price, percent: Decimal) -> Price:
    """Return the price less a percentage.

    Each amount is rounded half-even to a whole pico-dollar, so that costs stay exact sums.
    """
    left = _left(percent)
    return replace(
        price, rates=price.rates.scaled(left), request_pico=round(price.request_pico * left), percent_off=percent
    )


def _left(percent: Decimal) -> Fraction:
    return Fraction(_HUNDRED_PERCENT - int(percent * (_HUNDRED_PERCENT // 100)), _HUNDRED_PERCENT)


def resolve_cost(  # noqa: PLR0913  # Each decides by a rule of the contract.
    usage: TokenCounts,
    price: Price | None,
    *,
    direct: bool,
    reported: Decimal | None,
    upstream_reported: Decimal | None,
    free: bool = False,
) -> Cost:
    """Return the run's cost by the contract's rules.

    `direct` says that the provider's own figure counts, first the run's reported cost, then the upstream's total. All
    other runs are charged by the price. A cost that a client reported is an estimate, used only if none can be
    computed. `free` says that the model's name promises that it costs nothing, so that a reported 0 is a cost.
    """
    if direct:
        for amount in (reported, upstream_reported):
            if amount or (free and amount is not None):
                return Cost(amount, CostSource.PROVIDER, estimated=False, entry_id=None)
    counted = usage.input_tokens is not None or usage.output_tokens is not None or usage.units
    if price is not None and not price.rates.has_tokens and not usage.units and not price.request_pico:
        # The price is for other units, such as seconds, and the run has none: tokens are not free there.
        price = None
    if price is not None and (counted or not reported):
        pico, saved = _picos(usage, price)
        is_minimum = True if usage.units and unpriced_units(usage, price) else None
        savings = _savings_usd(usage, saved)
        return Cost(
            from_pico(pico),
            CostSource.CATALOG,
            price.estimated,
            price.id,
            savings,
            is_minimum,
            without_usage=None if counted else True,
        )
    if reported:
        return Cost(reported, CostSource.ESTIMATED, estimated=True, entry_id=None)
    return UNPRICED
