"""The week of a weekly report, and the changes in it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Self

from runtally.clock import start_of_day

WEEK = timedelta(weeks=1)
DUE_AFTER = timedelta(hours=8)
"""A report is sent on Monday at this time (UTC), when the runs of Sunday have come in."""
MOST_DRIVERS = 5
LEAST_CHANGE_USD = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Week:
    """A week from a Monday at midnight (UTC) until the next."""

    start: datetime

    @classmethod
    def reported_at(cls, now: datetime) -> Self:
        """Return the last week whose report is due."""
        today = start_of_day(now - DUE_AFTER)
        return cls(today - timedelta(days=today.weekday()) - WEEK)

    @property
    def end(self) -> datetime:
        return self.start + WEEK

    @property
    def due_at(self) -> datetime:
        return self.end + DUE_AFTER

    @property
    def name(self) -> str:
        """The week as in ISO 8601: 2026-W47."""
        return f"{self.start:%G-W%V}"


@dataclass(frozen=True, slots=True)
class ModelSpend:
    """The cost of one provider's model in a week and in the one before."""

    provider: str
    model: str
    cost_usd: Decimal
    previous_usd: Decimal
    runs: int
    unpriced: int
    partly_priced: int = 0

    def __add__(self, other: "ModelSpend") -> "ModelSpend":
        return replace(
            self,
            cost_usd=self.cost_usd + other.cost_usd,
            previous_usd=self.previous_usd + other.previous_usd,
            runs=self.runs + other.runs,
            unpriced=self.unpriced + other.unpriced,
            partly_priced=self.partly_priced + other.partly_priced,
        )

    @property
    def change_usd(self) -> Decimal:
        return self.cost_usd - self.previous_usd


@dataclass(frozen=True, slots=True)
class WeeklySpend:
    """The cost of a project in a week, by model."""

    project_id: str
    week: Week
    models: tuple[ModelSpend, ...]

    def __add__(self, other: "WeeklySpend") -> "WeeklySpend":
        added: dict[tuple[str, str], ModelSpend] = {}
        for model in (*self.models, *other.models):
            key = model.provider, model.model
            added[key] = added[key] + model if key in added else model
        return replace(self, models=tuple(added[key] for key in sorted(added)))

    def of(self, owner: str) -> "WeeklySpend":
        """Return it as that of an owner of its project."""
        return replace(self, project_id=owner)

    @property
    def cost_usd(self) -> Decimal:
        return _sum(model.cost_usd for model in self.models)

    @property
    def previous_usd(self) -> Decimal:
        return _sum(model.previous_usd for model in self.models)

    @property
    def runs(self) -> int:
        return sum(model.runs for model in self.models)

    @property
    def unpriced(self) -> int:
        return sum(model.unpriced for model in self.models)

    @property
    def is_minimum(self) -> bool:
        """Whether runs, or units of runs, have no price."""
        return any(model.unpriced or model.partly_priced for model in self.models)

    @property
    def drivers(self) -> tuple[ModelSpend, ...]:
        """The models whose cost changed most and by a cent at least, the largest change first."""
        changed = [model for model in self.models if abs(model.change_usd) >= LEAST_CHANGE_USD]
        changed.sort(key=lambda one: (-abs(one.change_usd), one.provider, one.model))
        return tuple(changed[:MOST_DRIVERS])


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))
