"""The runs of all projects by which a time before is cut off at the same moment as now.

It ends within a stored bucket, and to look into each of a thousand projects for a few runs takes as long as all the rest of
a page. So a process remembers them up to the next quarter of an hour, and asks each time whether a run of their day came,
changed or went since.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime

from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.metrics import moment_queries
from runtally.metrics.moment_queries import MetRun
from runtally.metrics.project_queries import Ids
from runtally.metrics.report import Sums
from runtally.metrics.sketch import Sketch, sketch_of_counts
from runtally.metrics.values import Tally
from runtally.metrics.window import Window, ceil
from runtally.models.rollup import GRAINS
from runtally.rollups.remembered import Remembered

_QUARTER = GRAINS[0].length
_HOUR = GRAINS[1].length
# Of one hour. More are some megabytes, and are added up faster where they are.
MAX_RUNS = 5_000
# One for each range.
MAX_REMEMBERED = 4


class PastRuns:
    """The runs of the last part of some windows of days that are over, by when it begins and up to when they are read."""

    def __init__(self) -> None:
        self._known: Remembered[tuple[datetime, datetime], Sequence[MetRun]] = Remembered(MAX_REMEMBERED)

    async def read(self, connection: Connection, window: Window, since: datetime) -> Sequence[MetRun] | None:
        """All from then to the end of the window; None where it is not worth it. The connection must be that of a snapshot."""
        now, until = window.now, window.until
        if until - since > _HOUR or until > start_of_day(now):
            return None
        version = await moment_queries.select_version(connection, since, MAX_RUNS)
        if version is None:
            return None
        ends = ceil(until, _QUARTER)
        runs = self._known.get((since, ends), version, now)
        if runs is None:
            runs = await moment_queries.select_runs(connection, since, ends)
            self._known.keep((since, ends), version, now, runs)
        return runs[: bisect_left(runs, until, key=lambda run: run.occurred_at)]


def tallies_by_model(runs: Sequence[MetRun]) -> dict[tuple[str, str], Tally]:
    """Of each provider's model."""
    of_model: dict[tuple[str, str], list[Tally]] = defaultdict(list)
    for run in runs:
        of_model[run.provider, run.model].append(run.tally)
    return {model: Tally.sum(tallies) for model, tallies in of_model.items()}


def sums_by_project(runs: Sequence[MetRun], ids: Ids) -> dict[str, Sums]:
    """Of these projects, or with None of all."""
    wanted = None if ids is None else set(ids)
    found: dict[str, Sums] = {}
    for run in runs:
        project_id, tally = run.project_id, run.tally
        if wanted is None or project_id in wanted:
            more = Sums(tally.runs, tally.failed, tally.unpriced, tally.cost_usd)
            known = found.get(project_id)
            found[project_id] = more if known is None else known.plus(more)
    return found


def sketch_of(runs: Sequence[MetRun]) -> Sketch:
    """Of their latencies; empty where none has any."""
    counts: Counter[int] = Counter()
    for run in runs:
        if run.latency is not None:
            counts[run.latency] += run.tally.runs
    return sketch_of_counts(counts)
