"""The runs of one session, step by step: what each cost, and what all up to it did."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.runs.queries import LISTED, listed_run
from runtally.runs.run_groups import FIGURES, NAMES, RunGroup, run_group
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
