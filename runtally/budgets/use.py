"""The terms of a budget, the used share of a monthly one, and a forecast of its use at the end of the month. Pure.

The forecast is the spending so far, and for the rest of the month the pace of the last seven days: a whole week, so
that each weekday counts once. A younger project has its pace since its first run.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Self, TypeAlias

from runtally.clock import DAY, HOUR, next_month, start_of_day
from runtally.models.budget import ALL_RUNS, EACH_VALUE, BudgetPeriod
from runtally.models.rollup import GRAINS
from runtally.money import in_proportion, plain
from runtally.usage.dimensions import METADATA, Dimension, dimension_named
from runtally.usage.filter import RunFilter
from runtally.usage.timeline import TimeSpan, floor


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month: `end` is the first moment of the next one."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, at: datetime) -> Self:
        """Return the month that contains this moment."""
        start = start_of_day(at).replace(day=1)
        return cls(start, next_month(start))

    @property
    def days(self) -> int:
        return (self.end - self.start) // DAY

    @property
    def name(self) -> str:
        """The month as in ISO 8601: 2026-11."""
        return f"{self.start:%Y-%m}"

    def day_of(self, at: datetime) -> int:
        """Return the day of the month that contains this moment, counted from 0."""
        return (at - self.start) // DAY


PACE = timedelta(days=7)
# A shorter time says nothing about a month.
LEAST = timedelta(days=1)
_STEP = GRAINS[-1].length


def pace_since(now: datetime) -> datetime:
    """Return the start of the pace: seven days ago, at the start of a stored bucket."""
    since = now - PACE
    return since - (since - Month.of(since).start) % _STEP


@dataclass(frozen=True, slots=True)
class Recent:
    """The spending since a recent moment."""

    since: datetime
    usd: Decimal


@dataclass(frozen=True, slots=True)
class Use:
    """A project's budget in the month of `now`."""

    project_id: str
    amount_usd: Decimal
    alert_percents: tuple[int, ...]
    now: datetime
    spent_usd: Decimal
    """Spending in this month so far; a minimum where `unpriced` runs have no cost."""
    recent: Recent | None
    """None before the first run."""
    unpriced: int
    is_minimum: bool = False
    """Whether runs, or units of runs, have no price."""

    def __add__(self, more: "Use") -> "Use":
        """Return the use of this budget by the runs of both."""
        known = [one for one in (self.recent, more.recent) if one is not None]
        recent = Recent(min(one.since for one in known), sum((one.usd for one in known), Decimal(0))) if known else None
        return replace(
            self,
            spent_usd=self.spent_usd + more.spent_usd,
            recent=recent,
            unpriced=self.unpriced + more.unpriced,
            is_minimum=self.is_minimum or more.is_minimum,
        )

    @property
    def month(self) -> Month:
        return Month.of(self.now)

    @property
    def left_usd(self) -> Decimal:
        """The rest of the budget; negative when it is overspent."""
        return self.amount_usd - self.spent_usd

    @property
    def forecast_usd(self) -> Decimal | None:
        """The cost of the whole month at its end; None while there are too few days to forecast from."""
        rest = self._at_this_pace(self.month.end - self.now)
        return None if rest is None else self.spent_usd + rest

    @property
    def used_up_at(self) -> datetime | None:
        """The moment when the budget will be used up at this pace, if that is still to come and within the month."""
        rest = self._at_this_pace(self.month.end - self.now)
        if not rest or not 0 < self.left_usd <= rest:
            return None
        return self.now + float(self.left_usd / rest) * (self.month.end - self.now)

    def reached_percent(self) -> int | None:
        """Return the highest of the alert percents that is reached."""
        reached = [percent for percent in self.alert_percents if self.spent_usd * 100 >= self.amount_usd * percent]
        return max(reached, default=None)

    def _at_this_pace(self, time: timedelta) -> Decimal | None:
        if self.recent is None or self.now - self.recent.since < LEAST:
            return None
        microsecond = timedelta(microseconds=1)
        return in_proportion(self.recent.usd, time // microsecond, (self.now - self.recent.since) // microsecond)


Place: TypeAlias = tuple[str, str, str, str]
"""The project, dimension, value and period of a budget, by which it is stored."""
OF_MONTH = (ALL_RUNS, EACH_VALUE, BudgetPeriod.MONTH)
"""The place of the budget of a project's month in it."""


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """A limit on what runs may cost in a period: all runs, or those with a value of a dimension."""

    project_id: str
    """Blank for all projects together."""
    dimension: str
    value: str
    period: BudgetPeriod
    amount_usd: Decimal
    alert_percents: tuple[int, ...]

    @property
    def place(self) -> Place:
        return self.project_id, self.dimension, self.value, self.period

    @property
    def of_all_runs(self) -> bool:
        return self.dimension == ALL_RUNS

    @property
    def is_each(self) -> bool:
        """Whether the budget applies to each value of the dimension separately."""
        return not self.of_all_runs and self.value == EACH_VALUE

    @property
    def key(self) -> Dimension | None:
        """The dimension; None where it is for all runs."""
        return None if self.of_all_runs else dimension_named(self.dimension)

    @property
    def label(self) -> str:
        """The dimension as people write it: `feature` for a key of metadata."""
        return self.dimension.removeprefix(METADATA)

    @property
    def filter(self) -> RunFilter:
        """The filter of its runs, the time aside. Raises `InvalidFilter` where no run can have its value."""
        found = RunFilter(project_id=self.project_id or None)
        return found.with_value(self.key, self.value) if self.key and not self.is_each else found

    def span(self, now: datetime) -> TimeSpan:
        """Return the hour, day or month (UTC) that contains this moment."""
        if self.period is BudgetPeriod.MONTH:
            month = Month.of(now)
            return TimeSpan(month.start, month.end)
        length = HOUR if self.period is BudgetPeriod.HOUR else DAY
        return TimeSpan(floor(now, length), floor(now, length) + length)

    def period_name(self, now: datetime) -> str:
        """Return the hour, day or month as in ISO 8601: 2026-11-23T08, 2026-11-23, 2026-11."""
        if self.period is BudgetPeriod.MONTH:
            return Month.of(now).name
        return f"{now:%Y-%m-%dT%H}" if self.period is BudgetPeriod.HOUR else f"{now:%Y-%m-%d}"

    def subject(self, now: datetime) -> str:
        """Return the subject of alerts on it: a budget whose amount changes is another one."""
        of = "" if self.of_all_runs else f" {self.dimension}" + ("" if self.is_each else f"={self.value}")
        return f"{self.period_name(now)} {plain(self.amount_usd)}{of}"

    def is_reached(self, spent_usd: Decimal, percent: int) -> bool:
        return spent_usd * 100 >= self.amount_usd * percent
