"""Read the usage of each model since some time, in total and by day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from runtally.clock import DAY, start_of_day
from runtally.models.measures import MEASURES
from runtally.models.rollup import GRAINS
from runtally.units import COUNT_COLUMNS, Usage
from runtally.usage.dimensions import BY_MODEL
from runtally.usage.filter import RunFilter
from runtally.usage.question import Question
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Group, Summary
from runtally.usage.totals import Totals
from runtally.usage.window import LAST, CustomRange, Window, ceil

_ALL = tuple(measure.name for measure in MEASURES)


@dataclass(frozen=True, slots=True)
class ModelUsage:
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


@dataclass(frozen=True, slots=True)
class UsageByDay:
    """The usage of each model, the most expensive first, and by each day in UTC that has runs."""

    models: Sequence[ModelUsage]
    days: Mapping[date, Sequence[ModelUsage]]


async def read_usage_by_day(snapshots: Snapshots, project_id: str | None, since: datetime, now: datetime) -> UsageByDay:
    """Read it for a project, or with None for all, from the first stored bucket on that begins then or later.

    Runs of days to come count as well.
    """
    first = ceil(since, GRAINS[-1].length)
    midnight = start_of_day(first + DAY - timedelta(microseconds=1))
    reader = UsageReader(snapshots, now, project_id, since=first)

    async def read(start: datetime, until: datetime) -> Summary:
        window = Window.of(CustomRange(start, until), now, DAY)
        run_filter = RunFilter(project_id=project_id)
        return await reader.summary(
            Question(window, run_filter, BY_MODEL, _ALL, has_buckets=False, bar=DAY, bar_measures=_ALL)
        )

    days: dict[date, list[ModelUsage]] = {}
    groups: dict[Group, Totals] = {}
    # The first day may be cut off.
    for start, until in ((first, midnight), (midnight, LAST)):
        summary = await read(start, until)
        for group, totals in summary.groups.items():
            groups[group] = groups.get(group, Totals()) + totals
        for (number, group), totals in sorted(summary.slices.items()):
            days.setdefault((start.astimezone(UTC) + number * DAY).date(), []).append(_usage_of(group, totals))
    ranked = sorted(groups.items(), key=lambda item: (-item[1].cost_usd, -item[1].runs, item[0]))
    return UsageByDay(tuple(_usage_of(group, totals) for group, totals in ranked if totals.runs), days)


def _usage_of(group: Group, totals: Totals) -> ModelUsage:
    provider, model = group
    return ModelUsage(
        provider,
        model,
        totals.runs,
        totals.unpriced,
        totals.cost_usd,
        Usage(*(getattr(totals, name) for name in COUNT_COLUMNS)),
    )
