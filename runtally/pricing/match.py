"""Find the price in force for (provider, model, time, input tokens). Pure.

A name is looked up among exact names and aliases, then among patterns, the longest match first; and so on for each
spelling of it. A name that is not found has no price: never a guess. `cost` has the amounts.

Of spellings only differences of writing are removed (case, paths, dates, regions), never the name of a product:
`gpt-4o-audio-preview` is no spelling of `gpt-4o`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from runtally.models.price import Match, PriceSource
from runtally.money import pico_per_token
from runtally.pricing.cost import THOUSAND, Price, Rates, discounted
from runtally.pricing.expressions import Expressions
from runtally.pricing.providers import canonical, provider_key, targets_of
from runtally.pricing.rates import pico_per_unit, read_rates, read_variants
from runtally.units import FURTHER, PRICE_COLUMNS

Level = tuple[Price, ...]
"""Prices that match a name equally well: tiers and periods, the preferred one first."""
Pattern = tuple[Match, str]
"""A prefix, or a regular expression over the whole name."""

# No model has a longer name; and the time of an expression grows with its text.
MAX_NAME_CHARS = 256
MAX_PATTERN_CHARS = 128


FREE = ":free"
# Suffixes of an aggregator for ways to serve the same model; not `:extended`, which has a price of its own.
_SERVED = re.compile(r":(batch|beta|exacto|floor|nitro|online|thinking)$")
_SAME_PRICE = "beta"

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$")
# OpenAI writes dates as month and day; year and month (`mistral-large-2407`) name different models.
_RELEASE = re.compile(
    r"(?:[-@]20\d\d(?:-?)(?:0[1-9]|1[0-2])(?:-?)(?:0[1-9]|[12]\d|3[01])"
    r"|-(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
    r"|[-@:]latest|@default)$"
)
# Prefixes and suffixes that one provider adds to names. They are removed one after the other.
_MANNERS = {
    "aws": (
        re.compile(r"^arn:aws[^/]*/"),
        re.compile(r"^(?:us|us-gov|eu|apac|ap|au|ca|in|jp|sa|global)\."),
        re.compile(r"-v\d+(?::\d+(?::\d+k)?)?$"),
        re.compile(r"^[a-z0-9]+\.(?=[a-z])"),
    ),
    "google": (
        re.compile(r"^(?:projects/[^/]+/locations/[^/]+/)?(?:publishers/[^/]+/)?models/"),
        re.compile(r"-00\d$"),
    ),
}


def spellings_of(dialect: str, model: str) -> Iterator[tuple[str, bool]]:
    """Yield the name in lower case, then with more and more parts removed that do not change the price.

    Each comes with whether its price is an estimate, because the way the model was served may change it.
    """
    name, estimated = model.lower(), False
    yield name, estimated
    if name.endswith(FREE):
        # Its own entry says that it is free; every other entry is a paid one.
        return
    if served := _SERVED.search(name):
        name, estimated = name[: served.start()], served[1] != _SAME_PRICE
        yield name, estimated
    for manner in _MANNERS.get(dialect, ()):
        shorter = manner.sub("", name)
        if shorter != name:
            name = shorter
            yield name, estimated
    if _COMPACT_DATE.search(name):
        yield _COMPACT_DATE.sub(r"-\1-\2-\3", name), estimated
    if _RELEASE.search(name):
        yield _RELEASE.sub("", name), estimated


@dataclass(frozen=True, slots=True)
class PriceCandidate:
    """A price and the names that it matches."""

    price: Price
    aliases: tuple[str, ...] = ()
    match: Match = Match.EXACT
    pattern: str | None = None
    source: PriceSource = PriceSource.CATALOGUE
    project_id: str | None = None
    """The project that has the price; None: all projects."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A spelling of a name, and the prices that match it."""

    provider: str
    name: str
    pattern: str | None
    """The pattern that matches the name; None for an exact name."""
    is_borrowed: bool
    """Whether another provider's price is used as an estimate."""
    level: Level


def in_force(levels: Iterable[Level], at: datetime, input_tokens: int) -> Price | None:
    """Return the first price that is in force at that time for that many input tokens."""
    for level in levels:
        for price in level:
            if (
                (price.above_input_tokens == 0 or input_tokens > price.above_input_tokens)
                and (price.effective_from is None or at >= price.effective_from)
                and (price.effective_to is None or at < price.effective_to)
            ):
                return price
    return None


class PriceIndex:
    """An immutable index of all candidate prices by project, provider and name."""

    def __init__(self, candidates: Iterable[PriceCandidate]) -> None:
        # In the order of preference, which the levels keep.
        in_order = sorted(candidates, key=_preference)
        self._expressions = Expressions(
            # A constraint of the table gives it a pattern.
            cast("str", candidate.pattern)
            for candidate in in_order
            if candidate.match is Match.REGEX
        )
        invalid = []
        by_provider: dict[tuple[str | None, str], _ProviderIndex] = defaultdict(_ProviderIndex)
        for candidate in in_order:
            if candidate.match is Match.REGEX and candidate.pattern in self._expressions.invalid:
                invalid.append(candidate.price.id)
            else:
                by_provider[candidate.project_id, provider_key(candidate.price.provider)].add(candidate)
        self.invalid = tuple(invalid)
        """Entries whose pattern is no regular expression; they price nothing."""
        self._by_provider = dict(by_provider)
        self.projects = frozenset(project_id for project_id, _ in by_provider if project_id is not None)
        """Projects that have prices of their own."""

    def find(self, provider: str, model: str, project_id: str | None = None) -> tuple[Level, ...]:
        """List the levels that match the name, best first, each once: the project's own, or those for all projects."""
        return tuple(dict.fromkeys(step.level for step in self.look_up(provider, model, project_id)))

    def look_up(self, provider: str, model: str, project_id: str | None = None) -> Iterator[LookUp]:
        """Yield each spelling of the name that some price matches, best first."""
        if len(model) > MAX_NAME_CHARS:
            return
        for target in targets_of(provider, model):
            index = self._by_provider.get((project_id, target.provider))
            if index is None:
                continue
            for name, estimated in spellings_of(target.dialect, target.model):
                for pattern, level in index.levels(name, self._expressions):
                    shown = _as_estimate(level) if estimated or target.borrowed else level
                    yield LookUp(target.provider, name, pattern, target.borrowed, shown)


@dataclass(slots=True)
class _ProviderIndex:
    """The candidates of one provider."""

    exact: dict[str, list[Price]] = field(default_factory=lambda: defaultdict(list))
    patterns: dict[Pattern, list[Price]] = field(default_factory=lambda: defaultdict(list))
    ranks: dict[Pattern, int] = field(default_factory=dict)
    """Ranks of patterns: of two that match equally long, the lower one is preferred."""
    prefixes: set[str] = field(default_factory=set)
    expressions: set[str] = field(default_factory=set)

    def add(self, candidate: PriceCandidate) -> None:
        names = candidate.aliases if candidate.pattern is not None else (candidate.price.model, *candidate.aliases)
        if candidate.pattern is not None:
            pattern = candidate.match, candidate.pattern
            self.ranks.setdefault(pattern, len(self.ranks))
            self.patterns[pattern].append(candidate.price)
            (self.expressions if candidate.match is Match.REGEX else self.prefixes).add(candidate.pattern)
        for name in {name.strip().lower() for name in names}:
            self.exact[name].append(candidate.price)

    def levels(self, name: str, expressions: Expressions) -> Iterator[tuple[str | None, Level]]:
        """Yield the prices that match the name, each with its pattern."""
        if name in self.exact:
            yield None, tuple(self.exact[name])
        if len(name) > MAX_PATTERN_CHARS:
            return
        covered = {(Match.PREFIX, text): len(text) for text in self.prefixes if name.startswith(text.lower())}
        for text in expressions.matching(name, among=self.expressions):
            covered[Match.REGEX, text] = len(name)
        for pattern in sorted(covered, key=lambda one: (-covered[one], self.ranks[one])):
            yield pattern[1], tuple(self.patterns[pattern])


def _as_estimate(level: Level) -> Level:
    return tuple(replace(price, estimated=True) for price in level)


def _preference(candidate: PriceCandidate) -> tuple[int, bool, float, int]:
    """Order by the highest tier, an admin's entry before the catalogue's, the latest start, the newest entry."""
    price = candidate.price
    since = price.effective_from.timestamp() if price.effective_from else float("-inf")
    return -price.above_input_tokens, candidate.source is not PriceSource.ADMIN, -since, -price.id


@dataclass(frozen=True, slots=True)
class Discount:
    """Percent off, for one provider, or with None for all that have no discount of their own."""

    project_id: str
    provider: str | None
    percent: Decimal
    effective_from: datetime | None = None
    effective_to: datetime | None = None

    def holds(self, provider: str, at: datetime) -> bool:
        """Return whether it applies to a run that was sent to the provider under this name."""
        return (
            (self.provider is None or self.provider in {provider_key(provider), canonical(provider)})
            and (self.effective_from is None or at >= self.effective_from)
            and (self.effective_to is None or at < self.effective_to)
        )


def less_discount(price: Price, discounts: Iterable[Discount], provider: str, at: datetime) -> Price:
    """Return the price after the project's discount; one for the provider comes before one for all."""
    holding = [discount for discount in discounts if discount.holds(provider, at)]
    if not holding:
        return price
    return discounted(price, min(holding, key=lambda one: one.provider is None).percent)


def price_of(value: Callable[[str], Any], **fields: Any) -> Price:  # noqa: ANN401  # The other fields of a price.
    """Build a price of the columns that `value` returns by name."""
    return Price(
        rates=Rates(
            tuple(_pico(value(name)) for name in PRICE_COLUMNS),
            {name: pico_per_unit(FURTHER[name], usd) for name, usd in read_rates(value("unit_rates")).items()},
        ),
        request_pico=THOUSAND * (_pico(value("per_thousand_requests")) or 0),
        variants=read_variants(value("variants")),
        **fields,
    )


def _pico(per_million: Decimal | None) -> int | None:
    return None if per_million is None else pico_per_token(per_million)
