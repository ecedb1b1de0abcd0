"""The report of a project, or of all together, as pages show it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from runtally.usage.dimensions import OTHER
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import Window

MONTH = timedelta(days=365) / 12
STALE_AFTER = timedelta(hours=1)
_LEAST_FOR_PACE = timedelta(days=1)
"""From here on it is worth a word how long ago the last run was."""


@dataclass(frozen=True, slots=True)
class KnownProject:
    """A project with its name, the time of its first run, and when its newest one was received."""

    id: str
    name: str
    is_hidden: bool
    first_run_at: datetime | None
    last_received_at: datetime | None
    dropped_before: datetime | None = None
    """Older runs are known by their sums alone."""
    has_agents: bool = False
    """Whether any runs name the coding agent that made them; known for a project that was read by its id."""

    def reaches_back_to(self, window: Window, *, with_single_runs: bool = False) -> bool:
        """Return whether there were runs from the window's first bucket on, and none was dropped since where single ones are read.

        Otherwise a comparison is not fair.
        """
        firsts = [at for at in (self.first_run_at, self.dropped_before if with_single_runs else None) if at]
        return bool(firsts) and max(firsts) < window.comparable_from


@dataclass(frozen=True, slots=True)
class UnpricedModel:
    """A model in use without a known price."""

    provider: str
    model: str
    runs: int


@dataclass(frozen=True, slots=True)
class Report:
    """A period and the previous one, over the same runs, so that all figures agree."""

    bars: Summary
    """In buckets for bars; percentiles are those of the whole period only."""
    lines: Summary
    """In shorter buckets, with percentiles in each."""
    previous: Summary | None
    """None where the runs do not reach back so far."""
    last_received_at: datetime | None = None
    """When the newest run was received; while there is a recent one, the quarter of an hour in which that was made."""
    models: Summary | None = None
    """Totals of the same runs by provider and model, over the whole period; None where they are unknown."""
    experiments: Mapping[str, Totals] = field(default_factory=dict)
    """The runs of each experiment of the project, the most expensive first."""

    @property
    def unpriced_models(self) -> tuple[UnpricedModel, ...]:
        """Models without a price, most runs first."""
        return self._models_by(lambda totals: totals.unpriced)

    @property
    def models_without_usage(self) -> tuple[UnpricedModel, ...]:
        """Models with a price that have runs without usage, most of them first."""
        return self._models_by(lambda totals: totals.without_usage)

    def _models_by(self, number_of: Callable[[Totals], int]) -> tuple[UnpricedModel, ...]:
        groups = self.models.groups if self.models else {}
        runs = {
            group: number_of(totals) for group, totals in groups.items() if OTHER not in group and number_of(totals)
        }
        ranked = sorted(runs.items(), key=lambda item: (-item[1], item[0]))
        return tuple(UnpricedModel(provider, model, number) for (provider, model), number in ranked)

    def month_pace_usd(self, now: datetime) -> Decimal | None:
        """The cost of 30 days at the pace of this period; None where it has less than a day.

        A period that is longer than the runs reach back counts from its first run: before, there was nothing to spend.
        """
        window = self.bars.window
        used = [number for number, totals in self.lines.buckets.items() if totals.runs]
        start = window.start
        if self.previous is None and used:
            start = max(start, self.lines.window.start + min(used) * self.lines.window.interval)
        elapsed = min(now, window.until) - start
        if elapsed < _LEAST_FOR_PACE:
            return None
        return self.bars.total.cost_usd * Decimal(int(MONTH.total_seconds())) / Decimal(int(elapsed.total_seconds()))


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """A project and its report."""

    project: KnownProject
    report: Report


class ListedProject(NamedTuple):
    """A project as it appears in a list."""

    id: str
    name: str
    is_hidden: bool
