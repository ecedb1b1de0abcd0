"""The history of the demo. Pure: time and seed come from the caller.

Times and ids of the calls depend on the seed and the calendar day alone. So a second demo on the same day adds nothing
but what has happened since, and one on a later day adds the days between.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import Final

from runtally.client.demo.calls import Call, trace_of
from runtally.client.demo.projects import PROJECTS, Project
from runtally.client.demo.story import Story
from runtally.client.run import OutgoingRun
from runtally.client.send import Batch

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
