"""The runs of one trace as steps in time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from runtally.models.run import Status, StoredRun


@dataclass(frozen=True, slots=True)
class Step:
    """A run and its place in the trace, as shares of the trace's whole length."""

    run: StoredRun
    offset: float
    length: float
    starts_after_ms: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of a trace in the order in which they began."""

    id: str
    steps: tuple[Step, ...]
    is_whole: bool
    """Whether these are all runs of the trace."""

    @property
    def starts_at(self) -> datetime:
        return self.steps[0].run.occurred_at

    @property
    def length_ms(self) -> int:
        return _milliseconds(max(map(_end, (step.run for step in self.steps))) - self.starts_at)

    @property
    def cost_usd(self) -> Decimal:
        return sum((step.run.cost_usd or Decimal(0) for step in self.steps), Decimal(0))

    @property
    def unpriced(self) -> int:
        return sum(step.run.cost_usd is None for step in self.steps)

    @property
    def failed(self) -> int:
        return sum(step.run.status is not Status.SUCCESS for step in self.steps)

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions of its runs, each of them once."""
        return tuple(dict.fromkeys(step.run.session_id for step in self.steps if step.run.session_id))

    @property
    def tokens(self) -> int:
        return sum((step.run.input_tokens or 0) + (step.run.output_tokens or 0) for step in self.steps)


def trace_of(trace_id: str, runs: Sequence[StoredRun], *, is_whole: bool) -> Trace:
    """Build the trace of these runs; there must be at least one."""
    ordered = sorted(runs, key=lambda run: (run.occurred_at, run.id))
    start = ordered[0].occurred_at
    # A trace without any latency still needs a length to be drawn.
    whole = max((max(map(_end, ordered)) - start) / timedelta(milliseconds=1), 1)
    return Trace(trace_id, tuple(_step(run, start, whole) for run in ordered), is_whole)


def _step(run: StoredRun, start: datetime, whole_ms: float) -> Step:
    after_ms = (run.occurred_at - start) / timedelta(milliseconds=1)
    return Step(run, after_ms / whole_ms, min((run.latency_ms or 0) / whole_ms, 1), round(after_ms))


def _end(run: StoredRun) -> datetime:
    # A latency of thousands of years is a unit error, and would exceed the calendar.
    return run.occurred_at + timedelta(milliseconds=min(run.latency_ms or 0, _YEAR_MS))


def _milliseconds(length: timedelta) -> int:
    return round(length / timedelta(milliseconds=1))


_YEAR_MS = 365 * 24 * 3600 * 1000
