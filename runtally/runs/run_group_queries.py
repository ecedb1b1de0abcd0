"""SQL of sessions and of traces: which of them rank highest, the sums of some, and the runs of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from runtally.db.database import Connection
from runtally.usage.window import TimeSpan

MAX_LOOKED_UP = 5_000
"""Runs of one session or trace that are read for a list; of 50 in some 100 ms."""
SHOWN_NAMES = 2


class GroupKind(StrEnum):
    """The ids that join runs into groups: session or trace."""

    SESSION = "session"
    TRACE = "trace"

    @property
    def column(self) -> str:
        """The column of runs that has its id."""
        return f"{self.value}_id"


class GroupSort(StrEnum):
    """The sort orders of a list, highest first; each value is a column of these statements."""

    COST = "cost_usd"
    RUNS = "runs"
    DURATION = "duration_ms"
    FAILED = "failed"
    LATEST = "last_at"


@dataclass(frozen=True, slots=True)
class GroupNames:
    """The first few values of a field among the runs of a group, and how many there are."""

    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The sums of a session's or trace's runs; fields are None if the group has too many runs to read."""

    id: str
    runs: int | None = None
    failed: int | None = None
    unpriced: int | None = None
    cost_usd: Decimal | None = None
    """The cost of the runs of which it is known."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    """When its last run began."""
    duration_ms: int | None = None
    """From when its first run began until its last answer was there."""
    users: GroupNames | None = None
    models: GroupNames | None = None


# A latency of thousands of years is a unit error, and would exceed the calendar.
_YEAR_MS = 365 * 24 * 3600 * 1000
_ENDS = f"occurred_at + least(coalesce(latency_ms, 0), {_YEAR_MS}) * interval '1 millisecond'"
FIGURES = f"""count(*) AS runs,
         count(*) FILTER (WHERE status <> 'success') AS failed,
         count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         min(occurred_at) AS first_at,
         max(occurred_at) AS last_at,
         round(extract(epoch FROM max({_ENDS}) - min(occurred_at)) * 1000)::bigint AS duration_ms"""
NAMES = f"""count(DISTINCT nullif(user_id, '')) AS user_count,
         (array_agg(DISTINCT nullif(user_id, '')) FILTER (WHERE user_id <> ''))[1:{SHOWN_NAMES}] AS users,
         count(DISTINCT model) AS model_count,
         (array_agg(DISTINCT model))[1:{SHOWN_NAMES}] AS models"""

_SELECT_RANKED = """
  SELECT {column} AS id,
         {figures},
         count(*) OVER () AS groups
    FROM runs
   WHERE project_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND {column} <> ''
GROUP BY {column}
ORDER BY {sort} {way}, last_at DESC, id
   LIMIT $4
  OFFSET $5
"""

# Of failed runs alone, to which an index leads: none of the others can change this order.
_SELECT_BY_FAILED = """
  SELECT {column} AS id
    FROM runs
   WHERE project_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND status <> 'success' AND {column} <> ''
GROUP BY {column}
ORDER BY count(*) DESC, max(occurred_at) DESC, id
   LIMIT $4
  OFFSET $5
"""

# A session may have millions of runs, most of them at another time: the index alone counts them up to a limit.
_SELECT_FIGURES = """
  SELECT ids.id, found.*
    FROM unnest($4::text[]) AS ids (id)
         CROSS JOIN LATERAL (SELECT count(*) AS runs
                               FROM (SELECT
                                       FROM runs
                                      WHERE project_id = $1 AND {column} = ids.id
                                      LIMIT {most} + 1) AS counted) AS sized
         CROSS JOIN LATERAL (SELECT {figures},
                                    {names}
                               FROM runs
                              WHERE project_id = $1 AND {column} = ids.id AND occurred_at >= $2 AND occurred_at < $3
                                AND sized.runs <= {most}) AS found
   WHERE found.runs > 0
"""


def ranked_sql(kind: GroupKind, sort: GroupSort, *, is_ascending: bool) -> str:
    way = "ASC" if is_ascending else "DESC"
    return _SELECT_RANKED.format(column=kind.column, figures=FIGURES, sort=sort.value, way=way)


def by_failed_sql(kind: GroupKind) -> str:
    return _SELECT_BY_FAILED.format(column=kind.column)


def figures_sql(kind: GroupKind) -> str:
    return _SELECT_FIGURES.format(column=kind.column, figures=FIGURES, names=NAMES, most=MAX_LOOKED_UP)


async def select_ranked(  # noqa: PLR0913  # The parameters of the statement.
    connection: Connection,
    project_id: str,
    kind: GroupKind,
    span: TimeSpan,
    sort: GroupSort,
    *,
    is_ascending: bool,
    limit: int,
    offset: int,
) -> tuple[list[RunGroup], int]:
    """Add up all runs of a span, and return the groups of one page with the number of all."""
    sql = ranked_sql(kind, sort, is_ascending=is_ascending)
    rows = await connection.fetch(sql, project_id, *span, limit, offset)
    return [run_group(row) for row in rows], rows[0]["groups"] if rows else 0


async def select_by_failed(  # noqa: PLR0913  # The parameters of the statement.
    connection: Connection, project_id: str, kind: GroupKind, span: TimeSpan, *, limit: int, offset: int
) -> list[str]:
    """Return the ids of the groups with the most failed runs."""
    rows = await connection.fetch(by_failed_sql(kind), project_id, *span, limit, offset)
    return [row[0] for row in rows]


async def select_figures(
    connection: Connection, project_id: str, kind: GroupKind, span: TimeSpan, ids: Sequence[str]
) -> dict[str, RunGroup]:
    """Read the sums of these groups over a span, except groups with more than `MAX_LOOKED_UP` runs."""
    rows = await connection.fetch(figures_sql(kind), project_id, *span, ids)
    return {row["id"]: run_group(row, has_names=True) for row in rows}


def run_group(row: Any, *, has_names: bool = False) -> RunGroup:  # noqa: ANN401  # A row of the statements here.
    return RunGroup(
        id=row["id"],
        runs=row["runs"],
        failed=row["failed"],
        unpriced=row["unpriced"],
        cost_usd=row["cost_usd"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        duration_ms=row["duration_ms"],
        users=GroupNames(row["user_count"], tuple(row["users"] or ())) if has_names else None,
        models=GroupNames(row["model_count"], tuple(row["models"] or ())) if has_names else None,
    )
