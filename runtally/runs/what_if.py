"""The usage of each model, and what it would cost with another model, service tier or lifetime of cache writes, or at other prices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from runtally.clock import DAY, start_of_day
from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.models.measures import MEASURES
from runtally.models.rollup import GRAINS
from runtally.money import from_pico
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, price_for_run, total_usd, unpriced_units
from runtally.pricing.queries import select_discounts
from runtally.pricing.rates import STANDARD_TIERS
from runtally.runs.cost_line_queries import PricedAlike
from runtally.runs.cost_lines import lacks_runs, read_priced_alike, with_names
from runtally.units import COUNT_COLUMNS, Usage
from runtally.usage.dimensions import BY_MODEL, OTHER, OTHER_NAME
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import MAX_RANKS
from runtally.usage.plan import Group, Question
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import Timeline, TimeSpan, ceil
from runtally.usage.totals import Totals

MAX_MODELS = 300
"""The models that are told apart, those with the highest cost: a program may give each run one of its own."""
_ALL = tuple(measure.name for measure in MEASURES)


class ModelUsage(NamedTuple):
    """The usage of a provider's model, and the known part of its cost."""

    provider: str
    model: str
    runs: int
    unpriced: int
    cost_usd: Decimal
    usage: Usage
    tier: str | None = None
    region: str | None = None
    at: datetime | None = None
    """When one of the runs was made; None for runs of any time."""
    input_tokens: int = 0
    """Those of one of the runs, whose price is that of all."""
    is_rest: bool = False
    """Whether it is several models that one price held for, of which this is one."""

    @property
    def key(self) -> tuple[str, str, bool]:
        """What tells models apart; of the rest the runs without a known cost, too."""
        return self.provider, self.model, self.is_rest and not self.unpriced


async def read_usage(
    snapshots: Snapshots, project_id: str | None, since: datetime, now: datetime
) -> Sequence[ModelUsage]:
    """Read the usage of each model, the most expensive first, of a project, or with None of all.

    It begins with the first stored bucket that begins then or later, and runs of days to come count as well.
    """
    first = ceil(since, GRAINS[-1].length)
    # No run is dated ahead by more than a day.
    timeline = Timeline.whole(TimeSpan(first, start_of_day(now) + 2 * DAY), now)
    question = Question(timeline, RunFilter(project_id=project_id), BY_MODEL, _ALL, limit=MAX_RANKS)
    answer = await UsageReader(snapshots, now, project_id, since=first).groups(question)
    return tuple(_usage_of(group, sums.totals) for group, sums in answer.groups.items() if sums.totals.runs)


def _usage_of(group: Group, totals: Totals) -> ModelUsage:
    provider, model = (OTHER_NAME if name == OTHER else name or "" for name in group)
    return ModelUsage(
        provider,
        model,
        totals.runs,
        totals.unpriced,
        totals.cost_usd,
        Usage(*(getattr(totals, name) for name in COUNT_COLUMNS)),
    )


class Writes(StrEnum):
    """How long what is written to a cache is kept."""

    FIVE_MINUTES = "5m"
    ONE_HOUR = "1h"


@dataclass(frozen=True, slots=True)
class Target:
    """What to suppose, and the time of the prices; None is what the runs had."""

    at: datetime
    provider: str | None = None
    model: str | None = None
    tier: str | None = None
    writes: Writes | None = None


@dataclass(frozen=True, slots=True)
class Supposition:
    """Usage of a model, and its cost on the supposition; None without a price."""

    used: ModelUsage
    would_cost_usd: Decimal | None
    unpriced_units: tuple[str, ...] = ()
    """The units that have no price there and are not in the cost."""


async def read_alike(
    snapshots: Snapshots, control: Connection, project_id: str, span: TimeSpan
) -> Sequence[ModelUsage] | None:
    """Read what was used of each model, apart where its price is not the same; None where the runs cannot be read.

    Of more than `MAX_MODELS` those that cost least are told apart by the price entry that held for them alone.
    The span ends now, and what is dated ahead of it counts.
    """
    since, now = span
    timeline = Timeline.whole(TimeSpan(since, start_of_day(now) + 2 * DAY), now)
    question = Question(timeline, RunFilter(project_id=project_id), BY_MODEL, limit=MAX_MODELS)
    if any(await snapshots.of_each(lambda connection: lacks_runs(connection, question))):
        return None
    try:
        question = await with_names(snapshots, question)
        discounts = await select_discounts(control, project_id)
        return [_used_alike(row) for row in await read_priced_alike(snapshots, control, question, discounts)]
    except DimensionNotTracked:
        return None


def _used_alike(row: PricedAlike) -> ModelUsage:
    # Models without a price may get different ones.
    is_rest = OTHER in row.group
    provider, model = (OTHER_NAME, OTHER_NAME) if is_rest and row.entry_id is None else row.example
    return ModelUsage(
        provider or "",
        model or "",
        row.runs,
        row.runs - row.priced,
        row.cost_usd,
        row.usage,
        row.tier,
        row.region,
        row.at,
        row.input_tokens,
        is_rest,
    )


def by_model(used: Iterable[ModelUsage]) -> list[ModelUsage]:
    """Return the runs and the cost of each model, the most expensive first."""
    models: dict[tuple[str, str, bool], ModelUsage] = {}
    for usage in used:
        key = usage.key
        models[key] = _added(models[key], usage) if key in models else usage
    return sorted(models.values(), key=lambda model: (-model.cost_usd, -model.runs))


def suppose(
    used: Iterable[ModelUsage], book: PriceBook, target: Target, project_id: str | None
) -> tuple[Supposition, ...]:
    """Suppose it of each usage, and return what each model comes to, the most expensive first."""
    models: dict[tuple[str, str, bool], Supposition] = {}
    for usage in used:
        key, supposed = usage.key, _suppose(usage, book, target, project_id)
        models[key] = _together(models[key], supposed) if key in models else supposed
    return tuple(sorted(models.values(), key=lambda model: (-model.used.cost_usd, -model.used.runs)))


def cost_of_all(used: Iterable[ModelUsage], book: PriceBook, target: Target, project_id: str | None) -> Decimal | None:
    """Return what all of it would have cost; None where some of it has no price there."""
    total = Decimal(0)
    for usage in used:
        would_usd = _suppose(usage, book, target, project_id).would_cost_usd
        if would_usd is None:
            return None
        total += would_usd
    return total


def _suppose(used: ModelUsage, book: PriceBook, target: Target, project_id: str | None) -> Supposition:
    provider, model = target.provider or used.provider, target.model or used.model
    price = book.price_for(provider, model, target.at, used.input_tokens, project_id)
    if price is None or not _has_tier(price, target.tier):
        return Supposition(used, None)
    price = price_for_run(price, target.tier or used.tier, used.region, used.at or target.at, used.input_tokens)
    supposed = used._replace(usage=_written(used.usage, target.writes))
    return Supposition(used, cost_at(supposed, price), unpriced_units(supposed.usage, price))


def _has_tier(price: Price, tier: str | None) -> bool:
    return tier is None or tier in STANDARD_TIERS or any(tier in variant.tiers for variant in price.variants)


def _written(usage: Usage, writes: Writes | None) -> Usage:
    """Return the usage with all cache writes of this lifetime."""
    if writes is None or not usage.cache_write_tokens:
        return usage
    units = {name: count for name, count in (usage.units or {}).items() if not name.startswith("cacheWrite")}
    if writes is Writes.ONE_HOUR:
        units["cacheWrite1h"] = usage.cache_write_tokens
    return replace(usage, units=units or None)


def _together(one: Supposition, other: Supposition) -> Supposition:
    amounts = one.would_cost_usd, other.would_cost_usd
    return Supposition(
        _added(one.used, other.used),
        None if amounts[0] is None or amounts[1] is None else amounts[0] + amounts[1],
        tuple(dict.fromkeys((*one.unpriced_units, *other.unpriced_units))),
    )


def _added(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    return one._replace(
        runs=one.runs + other.runs,
        unpriced=one.unpriced + other.unpriced,
        cost_usd=one.cost_usd + other.cost_usd,
    )


def cost_at(used: ModelUsage, price: Price) -> Decimal:
    """Return what was used at a price."""
    # The fee is for each run, and the tokens are those of all.
    fees = from_pico(price.request_pico * used.runs)
    return total_usd(used.usage, replace(price, request_pico=0)) + fees
