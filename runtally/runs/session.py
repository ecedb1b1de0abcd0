"""The runs of one session, step by step: what each cost, and what all up to it did. Those of one trace, as steps in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.models.run import Status, StoredRun
from runtally.runs.queries import LISTED, listed_run
from runtally.runs.run_groups import FIGURES, NAMES, YEAR_MS, RunGroup, run_group
from runtally.runs.values import ListedRun

SELECT_COUNT = """
SELECT count(*) FROM (SELECT FROM runs WHERE project_id = $1 AND session_id = $2 LIMIT $3) AS counted
"""
SELECT_WHOLE = f"""
SELECT $2 AS id,
       {FIGURES},
       {NAMES},
       coalesce(sum(input_tokens), 0) AS input_tokens,
       coalesce(sum(output_tokens), 0) AS output_tokens,
       coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens,
       count(DISTINCT nullif(trace_id, '')) AS traces
  FROM runs
 WHERE project_id = $1
   AND session_id = $2
"""
SELECT_STEPS = f"""
  SELECT {LISTED},
         coalesce(sum(cost_usd) OVER in_time, 0) AS total_usd
    FROM runs
   WHERE project_id = $1
     AND session_id = $2
  WINDOW in_time AS (ORDER BY occurred_at, id)
ORDER BY occurred_at, id
   LIMIT $3
  OFFSET $4
"""
SELECT_POINTS = """
  SELECT number, occurred_at, total_usd
    FROM (SELECT row_number() OVER in_time AS number,
                 count(*) OVER () AS steps,
                 occurred_at,
                 coalesce(sum(cost_usd) OVER in_time, 0) AS total_usd
            FROM runs
           WHERE project_id = $1
             AND session_id = $2
          WINDOW in_time AS (ORDER BY occurred_at, id)) AS every_step
   WHERE number % (1 + (steps - 1) / $3) = 0
      OR number IN (1, steps)
ORDER BY number
"""


MAX_STEPS = 10_000
"""The longest session that is added up, in some 50 ms."""
PAGE_STEPS = 50
MAX_POINTS = 300
"""Points of a line; of more steps, it has as many that lie evenly."""


@dataclass(frozen=True, slots=True)
class SessionStep:
    """A run of a session, and what it and all before it cost as far as that is known."""

    run: ListedRun
    total_usd: Decimal


@dataclass(frozen=True, slots=True)
class Point:
    """The cost of a session after some of its steps."""

    number: int
    at: datetime
    total_usd: Decimal


@dataclass(frozen=True, slots=True)
class SessionTokens:
    """The tokens of a session."""

    input: int
    output: int
    cached_input: int


@dataclass(frozen=True, slots=True)
class Session:
    """A session: the sums of all of its runs, and one page of them, oldest first."""

    group: RunGroup
    tokens: SessionTokens
    traces: int
    steps: tuple[SessionStep, ...]
    first_number: int
    """The number of the first step of the page, from 1."""
    points: tuple[Point, ...]


async def count_steps(connection: Connection, project_id: str, session_id: str) -> int:
    """Count the runs of a session, up to one more than can be added up. Raises `NotFound`."""
    count: int = await connection.fetchval(SELECT_COUNT, project_id, session_id, MAX_STEPS + 1)
    if not count:
        raise NotFound(
            "This project has no run of that session; it may have been deleted, or be older than runs are kept."
        )
    return count


async def read_session(connection: Connection, project_id: str, session_id: str, page: int) -> Session:
    """Read a page of a session with at most `MAX_STEPS` runs; the first page is 1."""
    [row] = await connection.fetch(SELECT_WHOLE, project_id, session_id)
    offset = (max(page, 1) - 1) * PAGE_STEPS
    rows = await connection.fetch(SELECT_STEPS, project_id, session_id, PAGE_STEPS, offset)
    return Session(
        group=run_group(row, has_names=True),
        tokens=SessionTokens(int(row["input_tokens"]), int(row["output_tokens"]), int(row["cached_input_tokens"])),
        traces=row["traces"],
        steps=tuple(SessionStep(listed_run(each), each["total_usd"]) for each in rows),
        first_number=offset + 1,
        points=await read_points(connection, project_id, session_id),
    )


async def read_points(connection: Connection, project_id: str, session_id: str) -> tuple[Point, ...]:
    """Read what a session of at most `MAX_STEPS` runs had cost after each step, or after evenly chosen ones."""
    rows: Sequence[object] = await connection.fetch(SELECT_POINTS, project_id, session_id, MAX_POINTS)
    return tuple(Point(*row) for row in rows)  # type: ignore[misc]  # A row has these three.


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
        return round((max(_end(step.run) for step in self.steps) - self.starts_at) / timedelta(milliseconds=1))

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
    return run.occurred_at + timedelta(milliseconds=min(run.latency_ms or 0, YEAR_MS))
