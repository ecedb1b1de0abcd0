"""Post the demo: its history at once, then live traffic without end.

Times and ids of the calls of its history depend on the seed and the calendar day alone. So a second demo on the same day adds
nothing but what has happened since, and one on a later day adds the days between.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from heapq import heappop, heappush
from random import Random
from typing import Final, NoReturn

from runtally.client.demo.calls import Call, trace_of
from runtally.client.demo.projects import PROJECTS, Project
from runtally.client.demo.story import Story
from runtally.client.post import Batch, Poster, Totals, send_all
from runtally.client.run import OutgoingRun
from runtally.clock import system_clock

_STEP_S: Final = 0.5
"""The longest time that live calls wait to be posted together: short enough to look live."""


async def post_history(poster: Poster, *, days: int, seed: int, on_progress: Callable[[int, int], None]) -> Totals:
    """Post the last `days` days, oldest first. `on_progress` hears how many runs of how many are done."""
    batches = await asyncio.to_thread(history, system_clock(), days, seed)
    total = sum(len(batch.runs) for batch in batches)
    totals = Totals()
    on_progress(0, total)
    await send_all(poster, batches, totals, lambda _batch: on_progress(totals.processed + totals.rejected, total))
    return totals


async def post_live(poster: Poster, totals: Totals, on_progress: Callable[[Totals], None]) -> NoReturn:
    """Post traffic as it happens, until the task is cancelled, and count it into `totals`."""
    traffic = LiveTraffic(system_clock(), Random())  # noqa: S311  # Made-up traffic is no secret.
    while True:
        await asyncio.sleep(_STEP_S)
        await send_all(poster, traffic.until(system_clock()), totals)
        on_progress(totals)


BATCH_RUNS: Final = 800
_SATURDAY: Final = 5


def history(now: datetime, days: int, seed: int) -> list[Batch]:
    """The batches of all calls that ended in the last `days` days, oldest first."""
    story = Story.ending(now.date())
    first = now - timedelta(days=days)
    batches: list[Batch] = []
    waiting: dict[str, list[OutgoingRun]] = {project.id: [] for project in PROJECTS}
    for back in range(days, -1, -1):
        day = now.date() - timedelta(days=back)
        for project in PROJECTS:
            calls = sorted(_day(project, story, day, seed), key=lambda call: call.ended_at)
            queue = waiting[project.id]
            queue += [call.run for call in calls if first <= call.ended_at <= now]
            while len(queue) >= BATCH_RUNS:
                batches.append(Batch(project.id, queue[:BATCH_RUNS]))
                del queue[:BATCH_RUNS]
    batches += [Batch(project_id, runs) for project_id, runs in waiting.items() if runs]
    return batches


def _day(project: Project, story: Story, day: date, seed: int) -> Iterator[Call]:
    source = f"-{project.agent}" if project.agent else ""
    rng = Random(f"{seed}/{project.id}{source}/{day}")  # noqa: S311  # Made-up traffic is no secret.
    usual = project.traces_per_workday * (project.weekend if day.weekday() >= _SATURDAY else 1)
    for number in range(round(usual * rng.uniform(0.88, 1.14))):
        hour = rng.choices(range(24), project.hours)[0]
        started_at = datetime.combine(day, time(hour), UTC) + timedelta(milliseconds=rng.randrange(3_600_000))
        trace = Random(rng.getrandbits(64))  # noqa: S311
        yield from trace_of(project, story, started_at, trace, f"demo-{seed}{source}-{day:%Y%m%d}-{number}")


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
