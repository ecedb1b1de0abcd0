"""What a run costs: the price rules of the contract, in whole pico-dollars. Pure; which price is in force is `match`'s.

Cached, cache-write and audio input tokens are part of the input tokens, reasoning and audio output tokens of the output
tokens. Each is taken out and priced apart where the price has an amount for it; else it stays where it is and costs what the
others cost. A client that reports more parts than the whole is charged for the parts, and nothing of the whole is left. A fee
for each request comes on top, however many tokens there are.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

import msgspec

from runtally.models.run import CostSource
from runtally.money import PRICE_DECIMALS, USD_DECIMALS, from_pico

MILLION = 1_000_000
THOUSAND = 1_000
# Pico-dollars per token and dollars per million tokens have the same digits; only the point moves.
_RATE_STEPS = {MILLION: Decimal(1).scaleb(-PRICE_DECIMALS), THOUSAND: Decimal(1).scaleb(3 - USD_DECIMALS)}
# A percentage has two decimals.
_WHOLE = 10_000


class TokenCounts(Protocol):
    """What a cost is computed from; a stored run is one, so that pricing it copies nothing. None is unknown."""

    @property
    def input_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def cached_input_tokens(self) -> int | None: ...
    @property
    def cache_write_tokens(self) -> int | None: ...
    @property
    def reasoning_tokens(self) -> int | None: ...
    @property
    def audio_input_tokens(self) -> int | None: ...
    @property
    def audio_output_tokens(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts on their own."""

    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """A price entry, ready to compute with: pico-dollars per token, None where the entry has no such price."""

    id: int
    provider: str
    model: str
    above_input_tokens: int
    input_pico: int | None
    output_pico: int | None
    cache_read_pico: int | None
    cache_write_pico: int | None
    reasoning_pico: int | None
    estimated: bool
    effective_from: datetime | None = None
    effective_to: datetime | None = None
    request_pico: int = 0
    """Pico-dollars for each request, beside its tokens."""
    audio_input_pico: int | None = None
    audio_output_pico: int | None = None
    percent_off: Decimal | None = None
    """What the project pays less than the entry says; the amounts here are what it pays."""


class Kind(StrEnum):
    """What the tokens of a line were used for, or that it is no line of tokens."""

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    CACHE_WRITE = "cache_write"
    OUTPUT = "output"
    REASONING = "reasoning"
    AUDIO_INPUT = "audio_input"
    AUDIO_OUTPUT = "audio_output"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a cost: so many tokens at `rate_usd` for each `per` of them are `amount_usd`, exactly."""

    kind: Kind
    quantity: int
    rate_usd: Decimal
    per: int
    amount_usd: Decimal


class Cost(msgspec.Struct, frozen=True):
    """A run's cost and where it comes from; all None while no price is known."""

    total_usd: Decimal | None
    source: CostSource | None
    estimated: bool | None
    entry_id: int | None


UNPRICED = Cost(None, None, None, None)


def lines_of(usage: TokenCounts, price: Price) -> tuple[Line, ...]:
    """How the cost comes about, kinds without tokens left out. Their amounts add up to `total_usd`."""
    lines = tuple(
        _line(kind, tokens, pico, MILLION)
        for kind, tokens, pico in zip(Kind, _split(usage, price), _amounts(price), strict=False)
        if tokens
    )
    return (*lines, _line(Kind.REQUEST, 1, price.request_pico, THOUSAND)) if price.request_pico else lines


def _line(kind: Kind, quantity: int, pico: int, per: int) -> Line:
    return Line(kind, quantity, _RATE_STEPS[per] * pico, per, from_pico(quantity * pico))


def total_usd(usage: TokenCounts, price: Price) -> Decimal:
    """The sum of `lines_of`, without making the lines: this runs once for every run that is ingested."""
    tokens_in, tokens_out, pico = usage.input_tokens or 0, usage.output_tokens or 0, price.request_pico
    if usage.cached_input_tokens and price.cache_read_pico is not None:
        tokens_in -= usage.cached_input_tokens
        pico += usage.cached_input_tokens * price.cache_read_pico
    if usage.cache_write_tokens and price.cache_write_pico is not None:
        tokens_in -= usage.cache_write_tokens
        pico += usage.cache_write_tokens * price.cache_write_pico
    if usage.reasoning_tokens and price.reasoning_pico is not None:
        tokens_out -= usage.reasoning_tokens
        pico += usage.reasoning_tokens * price.reasoning_pico
    if usage.audio_input_tokens and price.audio_input_pico is not None:
        tokens_in -= usage.audio_input_tokens
        pico += usage.audio_input_tokens * price.audio_input_pico
    if usage.audio_output_tokens and price.audio_output_pico is not None:
        tokens_out -= usage.audio_output_tokens
        pico += usage.audio_output_tokens * price.audio_output_pico
    if tokens_in > 0 and price.input_pico:
        pico += tokens_in * price.input_pico
    if tokens_out > 0 and price.output_pico:
        pico += tokens_out * price.output_pico
    return from_pico(pico)


def discounted(price: Price, percent: Decimal) -> Price:
    """The price less so many percent, each amount rounded half-even to a whole pico-dollar, so that costs stay exact sums."""
    left = _WHOLE - int(percent * (_WHOLE // 100))

    def less(pico: int | None) -> int | None:
        return None if pico is None else round(Fraction(pico * left, _WHOLE))

    return replace(
        price,
        input_pico=less(price.input_pico),
        output_pico=less(price.output_pico),
        cache_read_pico=less(price.cache_read_pico),
        cache_write_pico=less(price.cache_write_pico),
        reasoning_pico=less(price.reasoning_pico),
        audio_input_pico=less(price.audio_input_pico),
        audio_output_pico=less(price.audio_output_pico),
        request_pico=less(price.request_pico) or 0,
        percent_off=percent,
    )


def settle(
    usage: TokenCounts,
    price: Price | None,
    *,
    direct: bool,
    reported: Decimal | None,
    upstream_reported: Decimal | None,
) -> Cost:
    """The run's cost by the contract's rules.

    `direct` says that the provider's own word counts, first the run's reported cost, then the upstream's total. All
    other runs cost what the price says. What a client reported is an estimate, kept only where nothing can be computed.
    """
    if direct:
        for amount in (reported, upstream_reported):
            if amount:
                return Cost(amount, CostSource.PROVIDER, estimated=False, entry_id=None)
    counted = usage.input_tokens is not None or usage.output_tokens is not None
    if price is not None and (counted or not reported):
        return Cost(total_usd(usage, price), CostSource.CATALOG, price.estimated, price.id)
    if reported:
        return Cost(reported, CostSource.ESTIMATED, estimated=True, entry_id=None)
    return UNPRICED


def _split(usage: TokenCounts, price: Price) -> tuple[int, ...]:
    """Tokens of each kind of tokens, in the order of `Kind`; each token is in one of them."""
    cached = (usage.cached_input_tokens or 0) if price.cache_read_pico is not None else 0
    written = (usage.cache_write_tokens or 0) if price.cache_write_pico is not None else 0
    reasoning = (usage.reasoning_tokens or 0) if price.reasoning_pico is not None else 0
    heard = (usage.audio_input_tokens or 0) if price.audio_input_pico is not None else 0
    spoken = (usage.audio_output_tokens or 0) if price.audio_output_pico is not None else 0
    tokens_in = max((usage.input_tokens or 0) - cached - written - heard, 0)
    tokens_out = max((usage.output_tokens or 0) - reasoning - spoken, 0)
    return tokens_in, cached, written, tokens_out, reasoning, heard, spoken


def _amounts(price: Price) -> tuple[int, ...]:
    """Pico-dollars per token, in the same order. A kind without a price is free: an embedding has no output."""
    return (
        price.input_pico or 0,
        price.cache_read_pico or 0,
        price.cache_write_pico or 0,
        price.output_pico or 0,
        price.reasoning_pico or 0,
        price.audio_input_pico or 0,
        price.audio_output_pico or 0,
    )
