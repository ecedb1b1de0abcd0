"""The events of the demo's last month: an outage, a slow day, a prompt that grew, a broken cache, two experiments.

The story changes how a call went, never whether there was one: so runs of a time that a demo of an earlier day has
posted already keep their ids, and nothing is counted twice.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Self

from runtally.client.demo.projects import CODE_REVIEW, MINI, OWN, SMALL, SUPPORT, Model, Project, Step

PASSING_EXPERIMENT: Final = "support-short-replies"
FAILING_EXPERIMENT: Final = "review-checklist-v2"

_OUTAGE_DAYS_AGO: Final = 4
_CACHE_DAYS_AGO: Final = 7
_SLOW_DAYS_AGO: Final = 11
_BLOAT_DAYS_AGO: Final = 19
_EXPERIMENT_DAYS: Final = 10
_OWN_MODEL_DAYS: Final = 5
_SATURDAY: Final = 5
_CACHE_HIT_RATE: Final = 0.8
_BROKEN_CACHE_HIT_RATE: Final = 0.12


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time; the end is no longer in it."""

    start: datetime
    end: datetime

    def __contains__(self, at: datetime) -> bool:
        return self.start <= at < self.end


@dataclass(frozen=True, slots=True)
class Trouble:
    """The chances of a call to fail, and how much slower it is."""

    error: float = 0.006
    timeout: float = 0.002
    code: str = ""
    slower: float = 1.0


_USUAL: Final = Trouble()
_OUTAGE: Final = Trouble(error=0.58, timeout=0.24, code="service_unavailable", slower=2.5)
_SLOW: Final = Trouble(timeout=0.03, slower=6.0)
_FLAWED_EXPERIMENT: Final = Trouble(error=0.2, code="invalid_tool_call")


@dataclass(frozen=True, slots=True)
class Story:
    """The month that ends today."""

    outage: Span
    broken_cache: Span
    slow: Span
    bloat: Span
    experiments: Span
    own_model: Span

    @classmethod
    def ending(cls, today: date) -> Self:
        outage = _workday(today, _OUTAGE_DAYS_AGO)
        broken_cache = _workday(today, _CACHE_DAYS_AGO)
        slow = _workday(today, _SLOW_DAYS_AGO)
        bloat = _workday(today, _BLOAT_DAYS_AGO)
        tomorrow = _at(today, 0) + timedelta(days=1)
        return cls(
            outage=Span(_at(outage, 13), _at(outage, 15)),
            broken_cache=Span(_at(broken_cache, 10), _at(broken_cache, 10) + timedelta(hours=46)),
            slow=Span(_at(slow, 6), _at(slow, 21)),
            bloat=Span(_at(bloat, 9), _at(bloat, 9) + timedelta(hours=27)),
            experiments=Span(tomorrow - timedelta(days=_EXPERIMENT_DAYS), tomorrow),
            own_model=Span(tomorrow - timedelta(days=_OWN_MODEL_DAYS), tomorrow),
        )

    def trouble(self, model: Model, at: datetime, experiment: str | None) -> Trouble:
        if model.provider == "openai" and at in self.outage:
            return _OUTAGE
        if model.provider == "google" and at in self.slow:
            return _SLOW
        return _FLAWED_EXPERIMENT if experiment == FAILING_EXPERIMENT else _USUAL

    def models(self, project: Project, step: Step, at: datetime) -> dict[Model, float]:
        """The step's models by weight, as they were at that time."""
        if project is CODE_REVIEW and step.feature == "review" and at >= self.bloat.end:
            # The bill of the grown prompt made the team move most reviews to a cheaper model.
            return {**step.models, MINI: 40}
        if OWN in step.models and at not in self.own_model:
            return {**step.models, OWN: 0}
        return step.models

    def input_factor(self, project: Project, step: Step, at: datetime) -> float:
        """Return the factor by which prompts are longer than usual."""
        return 5.0 if project is CODE_REVIEW and step.feature == "review" and at in self.bloat else 1.0

    def cache_hit_rate(self, project: Project, at: datetime) -> float:
        """The share of calls that find the start of their prompt in a cache; a release of the support agent broke that."""
        return _BROKEN_CACHE_HIT_RATE if project is SUPPORT and at in self.broken_cache else _CACHE_HIT_RATE

    def experiment(self, project: Project, step: Step, at: datetime) -> tuple[str, float] | None:
        """The experiment that runs on this step, and the share of calls in it."""
        if at not in self.experiments:
            return None
        if project is SUPPORT and step.feature == "triage":
            return PASSING_EXPERIMENT, 0.35
        if project is CODE_REVIEW and step.feature == "review":
            return FAILING_EXPERIMENT, 0.2
        return None

    def experiment_models(self, experiment: str) -> dict[Model, float]:
        """The model under test. The passing one is not of the provider that had the outage, or it would fail too."""
        return {SMALL: 1} if experiment == PASSING_EXPERIMENT else {MINI: 1}

    def prompt_version(self, project: Project, at: datetime) -> int:
        """Counts up with each change of a project's prompts."""
        if project is not CODE_REVIEW:
            return 1 + (at >= self.experiments.start) + (at >= self.broken_cache.start) + (at >= self.broken_cache.end)
        return 1 + (at >= self.bloat.start) + (at >= self.bloat.end)


def _workday(today: date, days_ago: int) -> date:
    """The last workday that is at least so many days ago; an incident on a Sunday would hardly show."""
    day = today - timedelta(days=days_ago)
    return day - timedelta(days=max(0, day.weekday() - _SATURDAY + 1))


def _at(day: date, hour: int) -> datetime:
    return datetime.combine(day, time(hour), UTC)
