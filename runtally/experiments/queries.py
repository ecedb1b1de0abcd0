"""SQL of experiments: what the runs in an experiment's window came to, beside its rule."""

from datetime import datetime

import asyncpg

from runtally.db.database import Connection
from runtally.experiments.rule import MAX_WINDOW_RUNS, Measured, Rule, Window
from runtally.experiments.verdict import Stats, Thresholds

# Runs of one time are taken by id, so that the same runs always have the same verdict.
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
"""  # noqa: S608  # A constant of ours.

# A private experiment is none at all without its token. Digests are compared, so that the time tells nothing of the token, and
# its runs are not even looked at. Two are as good as more: the id is ambiguous.
SELECT_VISIBLE = f"""
SELECT *
  FROM (SELECT *
          FROM experiments
         WHERE id = $2
           AND ($3::text IS NULL OR project_id = $3)
           AND (badge_token IS NULL OR sha256(convert_to(badge_token, 'UTF8')) = $4::bytea)
      ORDER BY badge_token IS NULL
         LIMIT 2) AS experiment
{_JUDGED}
"""  # noqa: S608  # Constants of ours.

SELECT_EXPERIMENTS = f"""
SELECT *
  FROM experiments AS experiment
{_JUDGED}
   WHERE ($2::text IS NULL OR experiment.project_id = $2)
     AND ($3::text IS NULL OR experiment.id = $3)
ORDER BY experiment.project_id, experiment.id
"""  # noqa: S608  # Constants of ours.


async def select_visible(
    connection: Connection, now: datetime, experiment_id: str, project_id: str | None, token_sha256: bytes | None
) -> tuple[Measured, ...]:
    """Experiments of this id that a caller with this token may see, at most two of them; a private one is never left out."""
    rows = await connection.fetch(SELECT_VISIBLE, now, experiment_id, project_id, token_sha256)
    return tuple(_measured(row) for row in rows)


async def select_experiments(
    connection: Connection, now: datetime, project_id: str | None, experiment_id: str | None = None
) -> tuple[Measured, ...]:
    """All experiments, private ones too, or those of a project, or of an id, by project and id."""
    rows = await connection.fetch(SELECT_EXPERIMENTS, now, project_id, experiment_id)
    return tuple(_measured(row) for row in rows)


def _measured(row: asyncpg.Record) -> Measured:
    window = Window(row["window_runs"], row["window_hours"])
    thresholds = Thresholds(
        row["max_error_rate"],
        row["max_p95_latency_ms"],
        row["max_cost_per_run_usd"],
        row["max_total_cost_usd"],
        row["min_runs"],
    )
    stats = Stats(
        runs=row["runs"],
        failed=row["failed"],
        unpriced=row["unpriced"],
        cost_usd=row["cost_usd"],
        p95_latency_ms=row["p95_latency_ms"],
        is_partial=window.runs is None and row["runs"] >= MAX_WINDOW_RUNS,
    )
    return Measured(row["project_id"], row["id"], Rule(window, thresholds), stats, row["badge_token"] is not None)
