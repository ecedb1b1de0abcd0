"""SQL of experiments: their rules, and the totals of the runs in their windows."""

from array import array
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import NamedTuple, TypeAlias

import asyncpg

from runtally.db.database import Connection
from runtally.experiments.verdict import MAX_WINDOW_RUNS, Measured, Rule, Stats, Thresholds, Window
from runtally.models.measures import columns_over_runs, measures_named
from runtally.usage.totals import Totals, totals_reader

# Runs of the same time are ordered by id, so that the same runs always give the same verdict.
_JUDGED = f"""
  CROSS JOIN LATERAL (
    SELECT count(*) AS runs,
           count(*) FILTER (WHERE status <> 'success') AS failed,
           count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced,
           coalesce(sum(cost_usd), 0) AS cost_usd,
           percentile_disc(0.95) WITHIN GROUP (ORDER BY latency_ms) AS p95_latency_ms
      FROM (SELECT status, cost_usd, latency_ms
              FROM runs
             WHERE runs.project_id = experiment.project_id
               AND runs.experiment_id = experiment.id
               AND runs.occurred_at > coalesce($1::timestamptz - make_interval(hours => experiment.window_hours), '-infinity')
          ORDER BY runs.occurred_at DESC, runs.id DESC
             LIMIT coalesce(experiment.window_runs, {MAX_WINDOW_RUNS})) AS last
  ) AS judged
"""

# A private experiment is invisible without its token. Digests are compared, so that the time reveals nothing of the
# token, and its runs are not read. Two projects are enough to know that the id is ambiguous.
SELECT_VISIBLE = """
    SELECT asked.number,
           found.project_id,
           found.is_private
      FROM unnest($1::text[], $2::text[], $3::bytea[])
           WITH ORDINALITY AS asked (experiment_id, project_id, token_sha256, number)
CROSS JOIN LATERAL (
             SELECT project_id,
                    badge_token IS NOT NULL AS is_private
               FROM experiments
              WHERE id = asked.experiment_id
                AND (asked.project_id IS NULL OR project_id = asked.project_id)
                AND (badge_token IS NULL OR sha256(convert_to(badge_token, 'UTF8')) = asked.token_sha256)
           ORDER BY badge_token IS NULL
              LIMIT 2
           ) AS found
"""

# Bytewise, as Python sorts the keys of several databases.
SELECT_KEYS = """
  SELECT project_id, id
    FROM experiments
   WHERE ($1::text[] IS NULL OR project_id = ANY ($1))
     AND (project_id COLLATE "C", id COLLATE "C") > ($2, $3)
ORDER BY project_id COLLATE "C", id COLLATE "C"
   LIMIT $4
"""

SELECT_NEWEST_KEYS = """
  SELECT project_id, id
    FROM experiments
   WHERE ($1::text[] IS NULL OR project_id = ANY ($1))
ORDER BY (project_id, id) IN (SELECT * FROM unnest($2::text[], $3::text[])) DESC, created_at DESC, project_id, id
   LIMIT $4
"""

_RULE = f"""experiment.project_id, experiment.id, badge_token, window_runs, window_hours,
       {", ".join(field.name for field in fields(Thresholds))}"""

SELECT_EXPERIMENTS = f"""
SELECT {_RULE}, judged.*
  FROM unnest($2::text[], $3::text[]) AS asked (project_id, id)
       JOIN experiments AS experiment USING (project_id, id)
{_JUDGED}
ORDER BY experiment.project_id, experiment.id
"""

SELECT_LARGE = f"""
  SELECT {_RULE}
    FROM unnest($1::text[], $2::text[]) AS asked (project_id, id)
         JOIN experiments AS experiment USING (project_id, id)
   WHERE coalesce(window_runs, {MAX_WINDOW_RUNS}) > $3
ORDER BY project_id, id
   LIMIT $4
"""

# Latencies are kept one by one, because percentiles cannot be combined.
_MEASURES = ("runs", "errors", "timeouts", "unpriced", "cost_usd")
_SUMMED = f"""coalesce(array_agg(latency_ms) FILTER (WHERE latency_ms IS NOT NULL), '{{}}') AS latencies,
           count(*) AS runs,
           {columns_over_runs(measures_named(*_MEASURES[1:]))}"""
_totals_of = totals_reader(_MEASURES)

SELECT_SPANS = f"""
    SELECT summed.*
      FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[])
           WITH ORDINALITY AS asked (project_id, experiment_id, since, until, most, number)
CROSS JOIN LATERAL (
    SELECT {_SUMMED}
      FROM (SELECT status, cost_usd, latency_ms
              FROM runs
             WHERE runs.project_id = asked.project_id
               AND runs.experiment_id = asked.experiment_id
               AND runs.occurred_at > coalesce(asked.since, '-infinity')
               AND runs.occurred_at < coalesce(asked.until, 'infinity')
          ORDER BY runs.occurred_at DESC, runs.id DESC
             LIMIT asked.most) AS last
           ) AS summed
  ORDER BY asked.number
"""

SELECT_DAYS = f"""
    SELECT date_trunc('day', occurred_at, 'UTC') AS day,
           {_SUMMED}
      FROM (SELECT occurred_at, status, cost_usd, latency_ms
              FROM runs
             WHERE project_id = $1
               AND experiment_id = $2
               AND occurred_at > coalesce($3::timestamptz, '-infinity')
               AND occurred_at < $4
          ORDER BY occurred_at DESC, id DESC
             LIMIT $5) AS last
  GROUP BY 1
  ORDER BY 1 DESC
"""

Key: TypeAlias = tuple[str, str]
"""The project and the id of an experiment."""


class RunSpan(NamedTuple):
    """The last `most` runs of an experiment between two times, both excluded; None means no limit."""

    project_id: str
    experiment_id: str
    since: datetime | None
    until: datetime | None
    most: int


class ExactTotals(NamedTuple):
    """Totals of runs, with each of their latencies: a verdict's percentile is exact."""

    totals: Totals
    latencies: Sequence[int]


class Day(NamedTuple):
    """The runs of an experiment on one day."""

    begins: datetime
    exact: ExactTotals


async def select_visible(
    connection: Connection, asked: Sequence[tuple[str, str | None, bytes | None]]
) -> list[dict[str, bool]]:
    """Read for each question the projects whose experiment the caller may see, and whether it is private.

    A question is an experiment id, a project and the hash of a token. At most two projects are returned, and a private
    one is never left out.
    """
    found: list[dict[str, bool]] = [{} for _ in asked]
    for row in await connection.fetch(SELECT_VISIBLE, *map(list, zip(*asked, strict=True))):
        found[row["number"] - 1][row["project_id"]] = row["is_private"]
    return found


async def select_keys(
    connection: Connection, project_ids: Sequence[str] | None, after: Key = ("", ""), limit: int | None = None
) -> tuple[Key, ...]:
    """Read project and id of experiments, private ones too, of all projects or of some, in this order."""
    return tuple((row[0], row[1]) for row in await connection.fetch(SELECT_KEYS, project_ids, *after, limit))


async def select_newest_keys(
    connection: Connection, project_ids: Sequence[str] | None, chosen: Sequence[Key], limit: int
) -> tuple[Key, ...]:
    """Read project and id of the newest experiments and, before them, of the chosen ones that there are."""
    rows = await connection.fetch(SELECT_NEWEST_KEYS, project_ids, *_columns(chosen), limit)
    return tuple((row[0], row[1]) for row in rows)


def _columns(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [project_id for project_id, _ in keys], [id_ for _, id_ in keys]


async def select_experiments(connection: Connection, now: datetime, keys: Sequence[Key]) -> tuple[Measured, ...]:
    """Read these experiments, private ones too, by project and id."""
    rows = await connection.fetch(SELECT_EXPERIMENTS, now, *_columns(keys))
    return tuple(_measured(row, has_stats=True) for row in rows)


async def select_large(connection: Connection, keys: Sequence[Key], *, few: int, most: int) -> tuple[Measured, ...]:
    """Read the first `most` of these experiments whose window may hold more than `few` runs, without statistics."""
    rows = await connection.fetch(SELECT_LARGE, *_columns(keys), few, most)
    return tuple(_measured(row, has_stats=False) for row in rows)


async def select_spans(connection: Connection, asked: Sequence[RunSpan]) -> list[ExactTotals]:
    """Read the totals of each span."""
    rows = await connection.fetch(SELECT_SPANS, *map(list, zip(*asked, strict=True)))
    return [ExactTotals(_totals_of(values), latencies) for latencies, *values in rows]


async def select_days(connection: Connection, span: RunSpan) -> tuple[Day, ...]:
    """Read the days that lie completely within the span, newest first."""
    days = [
        Day(day, ExactTotals(_totals_of(values), array("q", sorted(latencies))))
        for day, latencies, *values in await connection.fetch(SELECT_DAYS, *span)
    ]
    # The last day may have more runs than the span.
    return tuple(days[:-1])


def _measured(row: asyncpg.Record, *, has_stats: bool) -> Measured:
    window = Window(row["window_runs"], row["window_hours"])
    thresholds = Thresholds(**{field.name: row[field.name] for field in fields(Thresholds)})
    stats = _stats(row, has_run_limit=window.runs is not None) if has_stats else Stats()
    return Measured(row["project_id"], row["id"], Rule(window, thresholds), stats, row["badge_token"])


def _stats(row: asyncpg.Record, *, has_run_limit: bool) -> Stats:
    return Stats(
        runs=row["runs"],
        failed=row["failed"],
        unpriced=row["unpriced"],
        cost_usd=row["cost_usd"],
        p95_latency_ms=row["p95_latency_ms"],
        is_partial=not has_run_limit and row["runs"] >= MAX_WINDOW_RUNS,
    )
