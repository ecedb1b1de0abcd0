"""The terms of a budget: its limit, its scope and its period. Pure."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from runtally.budgets.use import Month
from runtally.clock import DAY, start_of_day
from runtally.models.budget import ALL_RUNS, EACH_VALUE, BudgetPeriod
from runtally.money import plain
from runtally.usage.dimensions import METADATA, Dimension, dimension_named
from runtally.usage.filter import RunFilter
from runtally.usage.window import TimeSpan

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
        """Return the day or month (UTC) that contains this moment."""
        if self.period is BudgetPeriod.DAY:
            return TimeSpan(start_of_day(now), start_of_day(now) + DAY)
        month = Month.of(now)
        return TimeSpan(month.start, month.end)

    def period_name(self, now: datetime) -> str:
        """Return the day or month as in ISO 8601: 2026-11-23, 2026-11."""
        return f"{now:%Y-%m-%d}" if self.period is BudgetPeriod.DAY else Month.of(now).name

    def subject(self, now: datetime) -> str:
        """Return the subject of alerts on it: a budget whose amount changes is another one."""
        of = "" if self.of_all_runs else f" {self.dimension}" + ("" if self.is_each else f"={self.value}")
        return f"{self.period_name(now)} {plain(self.amount_usd)}{of}"

    def is_reached(self, spent_usd: Decimal, percent: int) -> bool:
        return spent_usd * 100 >= self.amount_usd * percent
