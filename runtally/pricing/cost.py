"""Compute the cost of a run: the price rules of the contract, in whole pico-dollars. Pure; `match` finds the price.

Some kinds of tokens are part of others, as `runtally.units` says. A part is subtracted and priced on its own where the
price has an amount for it; otherwise it stays in the whole and costs the same as the rest. A client that reports more
parts than the whole is charged for the parts, and nothing of the whole is left. A fee for each request is added,
whatever the number of tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter
from typing import Protocol, Self, TypeAlias

import msgspec

from runtally.models.run import CostSource
from runtally.money import PRICE_DECIMALS, USD_DECIMALS, from_pico
from runtally.units import INPUT, OUTPUT, TOKEN_KINDS, Unit, by_whole

MILLION = 1_000_000
THOUSAND = 1_000
# Pico-dollars per token and dollars per million tokens have the same digits; only the point moves.
_RATE_STEPS = {MILLION: Decimal(1).scaleb(-PRICE_DECIMALS), THOUSAND: Decimal(1).scaleb(3 - USD_DECIMALS)}
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


_COUNT_OF = {kind: attrgetter(kind.count_column) for kind in TOKEN_KINDS}
_PLACES = {kind: place for place, kind in enumerate(TOKEN_KINDS)}
_CACHE_KINDS = frozenset({"cached_input", "cache_write"})


_Part: TypeAlias = tuple[Callable[[TokenCounts], int | None], int]
"""How to read the count of a part, and pico-dollars per token."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Pico-dollars per token of each kind, in the order of `TOKEN_KINDS`; None where the price has no amount for it."""

    picos: tuple[int | None, ...]
    cache: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    """The parts of the input that come from a cache or go to one, and have an amount."""
    of_input: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    """The other parts of the input that have an amount."""
    of_output: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    input: int = field(init=False, repr=False, compare=False)
    output: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts: dict[str, list[_Part]] = {"cache": [], "of_input": [], "of_output": []}
        for kind, pico in zip(TOKEN_KINDS, self.picos, strict=True):
            if kind.part_of is not None and pico is not None:
                of = "cache" if kind.name in _CACHE_KINDS else "of_input" if kind.part_of is INPUT else "of_output"
                parts[of].append((_COUNT_OF[kind], pico))
        ready = {name: tuple(priced) for name, priced in parts.items()}
        for name, value in {**ready, "input": self[INPUT] or 0, "output": self[OUTPUT] or 0}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, **picos: int | None) -> Self:
        """Build rates from the names of their columns, such as `cache_read`; the other kinds have no amount."""
        unknown = picos.keys() - {kind.rate for kind in TOKEN_KINDS}
        if unknown:
            raise TypeError(f"No kind of tokens is priced as {', '.join(sorted(unknown))}")
        return cls(tuple(picos.get(kind.rate) for kind in TOKEN_KINDS))

    def __getitem__(self, kind: Unit) -> int | None:
        return self.picos[_PLACES[kind]]


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


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a cost: `quantity` tokens at `rate_usd` per `per` tokens cost exactly `amount_usd`."""

    kind: Unit | None
    """None for the request's fee."""
    quantity: int
    rate_usd: Decimal
    per: int
    amount_usd: Decimal


class Cost(msgspec.Struct, frozen=True):
    """A run's cost and its source; all fields are None while no price is known."""

    total_usd: Decimal | None
    source: CostSource | None
    estimated: bool | None
    entry_id: int | None
    cache_savings_usd: Decimal | None = None
    """How much more its cached tokens would cost as plain input, below zero for less; None without cached tokens."""


UNPRICED = Cost(None, None, None, None)


def lines_of(usage: TokenCounts, price: Price) -> tuple[Line, ...]:
    """List the lines of the cost, without kinds that have no tokens. Their amounts add up to `total_usd`."""
    tokens = {kind: _COUNT_OF[kind](usage) or 0 for kind in TOKEN_KINDS}
    for kind in TOKEN_KINDS:
        if kind.part_of is None:
            continue
        if price.rates[kind] is None:
            tokens[kind] = 0
        tokens[kind.part_of] -= tokens[kind]
    lines = tuple(
        # A kind without a price is free: an embedding has no output.
        _line(kind, tokens[kind], price.rates[kind] or 0, MILLION)
        for kind in by_whole()
        if tokens[kind] > 0
    )
    return (*lines, _line(None, 1, price.request_pico, THOUSAND)) if price.request_pico else lines


def _line(kind: Unit | None, quantity: int, pico: int, per: int) -> Line:
    return Line(kind, quantity, _RATE_STEPS[per] * pico, per, from_pico(quantity * pico))


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


def discounted(price: Price, percent: Decimal) -> Price:
    """Return the price less a percentage.

    Each amount is rounded half-even to a whole pico-dollar, so that costs stay exact sums.
    """
    left = _HUNDRED_PERCENT - int(percent * (_HUNDRED_PERCENT // 100))

    def less(pico: int | None) -> int | None:
        return None if pico is None else round(Fraction(pico * left, _HUNDRED_PERCENT))

    return replace(
        price,
        rates=Rates(tuple(map(less, price.rates.picos))),
        request_pico=less(price.request_pico) or 0,
        percent_off=percent,
    )


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
    counted = usage.input_tokens is not None or usage.output_tokens is not None
    if price is not None and (counted or not reported):
        pico, saved = _picos(usage, price)
        return Cost(from_pico(pico), CostSource.CATALOG, price.estimated, price.id, _savings_usd(usage, saved))
    if reported:
        return Cost(reported, CostSource.ESTIMATED, estimated=True, entry_id=None)
    return UNPRICED
