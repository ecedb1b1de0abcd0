"""Live traffic of the demo: traces begin at random and run in real time; each call is ready when it has ended."""

from datetime import datetime, timedelta
from heapq import heappop, heappush
from random import Random
from typing import Final

from runtally.client.demo.calls import trace_of
from runtally.client.demo.projects import PROJECTS, Project
from runtally.client.demo.story import Story
from runtally.client.run import OutgoingRun
from runtally.client.send import Batch

CALLS_PER_S: Final = 4.0


class LiveTraffic:
    """Traffic from `start` on, at `CALLS_PER_S` on average whatever the hour: someone is watching."""

    def __init__(self, start: datetime, rng: Random) -> None:
        self._rng = rng
        self._next_trace_at = start
        self._started = 0
        # Every run of the demo has its own id, so two live demos at once must not share theirs.
        self._prefix = f"demo-live-{rng.getrandbits(64):016x}"
        # The number breaks ties: runs can't be compared.
        self._unfolding: list[tuple[datetime, int, str, OutgoingRun]] = []
        self._weights = [project.traces_per_workday for project in PROJECTS]
        calls = sum(_mean_length(project) * project.traces_per_workday for project in PROJECTS)
        self._traces_per_s = CALLS_PER_S * sum(self._weights) / calls

    def until(self, now: datetime) -> list[Batch]:
        """The calls that have ended since the last question, a batch for each project."""
        while self._next_trace_at <= now:
            self._start_trace(self._next_trace_at)
            self._next_trace_at += timedelta(seconds=self._rng.expovariate(self._traces_per_s))
        ended: dict[str, list[OutgoingRun]] = {}
        while self._unfolding and self._unfolding[0][0] <= now:
            _, _, project_id, run = heappop(self._unfolding)
            ended.setdefault(project_id, []).append(run)
        return [Batch(project_id, runs) for project_id, runs in ended.items()]

    def _start_trace(self, at: datetime) -> None:
        project = self._rng.choices(PROJECTS, self._weights)[0]
        self._started += 1
        trace = trace_of(project, Story.ending(at.date()), at, self._rng, f"{self._prefix}-{self._started}")
        for number, call in enumerate(trace):
            heappush(self._unfolding, (call.ended_at, self._started * 100 + number, project.id, call.run))


def _mean_length(project: Project) -> float:
    weights = project.trace_lengths
    return sum(length * weight for length, weight in weights.items()) / sum(weights.values())
