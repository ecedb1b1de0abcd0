"""What a page says of a project, or of all projects at once. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from runtally.usage.drivers import Change, change_of
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import Window

MONTH = timedelta(days=365) / 12
STALE_AFTER = timedelta(hours=1)
"""From here on it is worth a word how long ago the last run was."""


@dataclass(frozen=True, slots=True)
class KnownProject:
    """A project: how it is named, and between when it has runs."""

    id: str
    name: str
    is_archived: bool
    first_run_at: datetime | None
    last_run_at: datetime | None
    dropped_before: datetime | None = None
    """Older runs are known by their sums alone."""

    @property
    def span(self) -> "Span":
        return Span(self.first_run_at, self.last_run_at)

    @property
    def kept_span(self) -> "Span":
        """The span of the runs that can be read one by one."""
        firsts = [at for at in (self.first_run_at, self.dropped_before) if at]
        return Span(max(firsts, default=None), self.last_run_at)


@dataclass(frozen=True, slots=True)
class Span:
    """From the first to the last run of a project; None without any."""

    first_run_at: datetime | None
    last_run_at: datetime | None

    def reaches_back_to(self, window: Window) -> bool:
        """Whether there were runs from the window's first bucket on: else a comparison with it is not fair."""
        return self.first_run_at is not None and self.first_run_at < window.comparable_from


@dataclass(frozen=True, slots=True)
class UnpricedModel:
    """A model that was used without a known price."""

    provider: str
    model: str
    runs: int


@dataclass(frozen=True, slots=True)
class Report:
    """A period and the one before. All of it is over the same runs, so its numbers agree."""

    bars: Summary
    """In buckets for bars; percentiles are those of the whole period only."""
    lines: Summary
    """In shorter buckets, with percentiles in each."""
    previous: Summary | None
    """None where the runs do not reach back so far."""
    last_run_at: datetime | None
    """Exact to the quarter of an hour until it is so long ago that it is told."""
    experiments: Mapping[str, Totals] = field(default_factory=dict)
    """The runs of each experiment of the project, the most expensive first."""

    @property
    def change(self) -> Change | None:
        """Which models' cost differs most from the period before."""
        return change_of(self.bars, self.previous) if self.previous else None

    @property
    def unpriced_models(self) -> tuple[UnpricedModel, ...]:
        """Most runs first."""
        runs = {group: totals.unpriced for group, totals in self.bars.groups.items() if totals.unpriced}
        ranked = sorted(runs.items(), key=lambda item: (-item[1], item[0]))
        return tuple(UnpricedModel(provider, model, number) for (provider, model), number in ranked)

    def month_pace_usd(self, now: datetime) -> Decimal:
        """What a month costs if it goes on as in this period."""
        window = self.bars.window
        seconds = Decimal(int((min(now, window.until) - window.start).total_seconds()))
        return self.bars.total.cost_usd * Decimal(int(MONTH.total_seconds())) / seconds


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """A project and its report."""

    project: KnownProject
    report: Report


class ListedProject(NamedTuple):
    """A project as it is named."""

    id: str
    name: str
    is_archived: bool
