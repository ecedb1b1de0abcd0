"""Which price is in force for (provider, model, time, input tokens). Pure; names are `names`', amounts `cost`'s.

A name is looked for among exact names and aliases, then among patterns, the one that covers most of the name first; and
so on for each way to write it. What is not found has no price: never a guess.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from runtally.models.price import Match, PriceSource
from runtally.pricing.cost import Price
from runtally.pricing.expressions import Expressions
from runtally.pricing.names import spellings_of
from runtally.pricing.providers import provider_key, targets_of

Level = tuple[Price, ...]
"""Prices that answer to a name equally well: tiers and periods, the one to prefer first."""
Pattern = tuple[Match, str]
"""A prefix, or a regular expression over the whole name."""

# Longer names are no models; and the time of an expression grows with the text that it meets.
MAX_NAME_CHARS = 256
MAX_PATTERN_CHARS = 128


@dataclass(frozen=True, slots=True)
class Offer:
    """A price and the names that it answers to."""

    price: Price
    aliases: tuple[str, ...] = ()
    match: Match = Match.EXACT
    pattern: str | None = None
    source: PriceSource = PriceSource.CATALOGUE
    project_id: str | None = None
    """The project that it is for; None: all."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A way to write what was asked for, and the prices that answer to it."""

    provider: str
    name: str
    pattern: str | None
    """The pattern that covers the name; None for an exact name."""
    is_borrowed: bool
    """Whether another provider's price is taken as an estimate."""
    level: Level


def in_force(levels: Iterable[Level], at: datetime, input_tokens: int) -> Price | None:
    """The first price that holds at that time for that many input tokens."""
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
    """All offers by project, provider and name; never changes."""

    def __init__(self, offers: Iterable[Offer]) -> None:
        # In the order of preference, which the levels inherit.
        in_order = sorted(offers, key=_preference)
        self._expressions = Expressions(offer.pattern or "" for offer in in_order if offer.match is Match.REGEX)
        invalid = []
        shelves: dict[tuple[str | None, str], _Shelf] = defaultdict(_Shelf)
        for offer in in_order:
            if offer.match is Match.REGEX and offer.pattern in self._expressions.invalid:
                invalid.append(offer.price.id)
            else:
                shelves[offer.project_id, provider_key(offer.price.provider)].add(offer)
        self.invalid = tuple(invalid)
        """Entries whose pattern is no regular expression; they price nothing."""
        self._shelves = dict(shelves)
        self.projects = frozenset(project_id for project_id, _ in shelves if project_id is not None)
        """Those that have prices of their own."""

    def find(self, provider: str, model: str, project_id: str | None = None) -> tuple[Level, ...]:
        """What answers to the name, best first, each level once: of a project's own prices, or of everybody's."""
        return tuple(dict.fromkeys(step.level for step in self.look_up(provider, model, project_id)))

    def look_up(self, provider: str, model: str, project_id: str | None = None) -> Iterator[LookUp]:
        """Each way to write the name that something answers to, best first."""
        if len(model) > MAX_NAME_CHARS:
            return
        for target in targets_of(provider, model):
            shelf = self._shelves.get((project_id, target.provider))
            if shelf is None:
                continue
            for name, estimated in spellings_of(target.dialect, target.model):
                for pattern, level in shelf.levels(name, self._expressions):
                    shown = _as_estimate(level) if estimated or target.borrowed else level
                    yield LookUp(target.provider, name, pattern, target.borrowed, shown)


@dataclass(slots=True)
class _Shelf:
    """The offers of one provider."""

    exact: dict[str, list[Price]] = field(default_factory=lambda: defaultdict(list))
    patterns: dict[Pattern, list[Price]] = field(default_factory=lambda: defaultdict(list))
    ranks: dict[Pattern, int] = field(default_factory=dict)
    """Of two patterns that cover as much of a name, the lower one is preferred."""
    prefixes: set[str] = field(default_factory=set)
    expressions: set[str] = field(default_factory=set)

    def add(self, offer: Offer) -> None:
        names = offer.aliases if offer.pattern is not None else (offer.price.model, *offer.aliases)
        if offer.pattern is not None:
            pattern = offer.match, offer.pattern
            self.ranks.setdefault(pattern, len(self.ranks))
            self.patterns[pattern].append(offer.price)
            (self.expressions if offer.match is Match.REGEX else self.prefixes).add(offer.pattern)
        for name in {name.strip().lower() for name in names}:
            self.exact[name].append(offer.price)

    def levels(self, name: str, expressions: Expressions) -> Iterator[tuple[str | None, Level]]:
        """The prices that answer to the name, each with the pattern by which they do."""
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


def _preference(offer: Offer) -> tuple[int, bool, float, int]:
    """The highest tier first, an admin's word before the catalogue's, then the latest start and the newest entry."""
    price = offer.price
    since = price.effective_from.timestamp() if price.effective_from else float("-inf")
    return -price.above_input_tokens, offer.source is not PriceSource.ADMIN, -since, -price.id
