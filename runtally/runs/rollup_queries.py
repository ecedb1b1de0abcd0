"""SQL that reads from the rollups how many runs there are, of which models, and when."""

from datetime import datetime

from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS, GRAINS, Grain, RollupScope
from runtally.runs.values import Direction, Presence, Totals
from runtally.usage.filter import RunFilter
from runtally.usage.sums.tables import SLICES, TOTALS

MAX_BUCKETS = 1_000

# What runs of a status cost is kept; how many of them have no price is not, so with any there is no cost to tell.
SELECT_ROLLED_UP_TOTALS = f"""
SELECT coalesce(sum(CASE $7::text WHEN 'success' THEN runs - errors - timeouts
                                   WHEN 'failed' THEN errors + timeouts
                                   WHEN 'error' THEN errors
                                   WHEN 'timeout' THEN timeouts
                                   ELSE runs END), 0)::bigint AS runs,
       CASE WHEN $7 IS NULL OR coalesce(sum(unpriced), 0) = 0
            THEN coalesce(sum(CASE $7 WHEN 'success' THEN cost_usd - error_cost_usd - timeout_cost_usd
                                      WHEN 'failed' THEN error_cost_usd + timeout_cost_usd
                                      WHEN 'error' THEN error_cost_usd
                                      WHEN 'timeout' THEN timeout_cost_usd
                                      ELSE cost_usd END), 0) END AS cost_usd,
       CASE WHEN $7 IS NULL THEN coalesce(sum(unpriced), 0)::bigint ELSE 0 END AS unpriced
  FROM {SLICES.rows} AS held
 WHERE project_id = $1
   AND grain = $2
   AND bucket >= coalesce($3::timestamptz, '-infinity')
   AND bucket < coalesce($4::timestamptz, 'infinity')
   AND ($5::text IS NULL OR provider = $5)
   AND ($6::text IS NULL OR model = $6)
"""

SELECT_DROPPED_BEFORE = """
SELECT max(dropped_before)
  FROM projects
 WHERE ($1::text IS NULL OR id = $1)
"""

SELECT_NAMES = f"""
  SELECT provider,
         model
    FROM {SLICES.rows} AS held
   WHERE project_id = $1
     AND grain = {GRAINS[-1].minutes}
     AND ($2 = '' OR strpos(lower(model), $2) > 0)
GROUP BY provider, model
  HAVING sum(runs) > 0
ORDER BY sum(runs) DESC, provider, model
   LIMIT $3
"""

# Buckets of the longest grain: they are the fewest, and kept for ever.
SELECT_PRESENCE = f"""
SELECT coalesce(sum(runs), 0)::bigint AS runs,
       coalesce(array_agg(DISTINCT model), '{{}}') AS models,
       max(bucket) FILTER (WHERE bucket <= $4) AS last,
       min(bucket) FILTER (WHERE bucket > $4::timestamptz - interval '{GRAINS[-1].minutes} minutes') AS next
  FROM (SELECT bucket, model, sum(runs) AS runs
          FROM {SLICES.rows} AS held
         WHERE project_id = $1
           AND grain = {GRAINS[-1].minutes}
           AND ($2::text IS NULL OR provider = $2)
           AND ($3::text IS NULL OR model = $3)
      GROUP BY bucket, model
        HAVING sum(runs) > 0) AS used
"""

SELECT_ENDS = f"""
SELECT min(bucket),
       max(bucket)
  FROM (SELECT bucket
          FROM {SLICES.rows} AS held
         WHERE project_id = $1
           AND grain = $2
           AND bucket >= $3
           AND bucket < $4
           AND ($5::text IS NULL OR provider = $5)
           AND ($6::text IS NULL OR model = $6)
      GROUP BY bucket
        HAVING sum(runs) > 0) AS used
"""

_SELECT_BUCKETS = f"""
  SELECT bucket,
         sum({{counted}})::bigint AS runs
    FROM {TOTALS.rows} AS held
   WHERE project_id = $1
     AND grain = $2
     AND {{side}}
GROUP BY bucket
ORDER BY bucket {{way}}
   LIMIT $4
"""
SELECT_BUCKETS_BEFORE = _SELECT_BUCKETS.format(counted="runs", side="bucket <= $3", way="DESC")
SELECT_BUCKETS_AFTER = _SELECT_BUCKETS.format(
    counted="runs", side="bucket > $3::timestamptz - make_interval(mins => $2::int)", way="ASC"
)
_FAILED = "sum(errors + timeouts)"
SELECT_FAILED_BEFORE = SELECT_BUCKETS_BEFORE.replace("sum(runs)", _FAILED)
SELECT_FAILED_AFTER = SELECT_BUCKETS_AFTER.replace("sum(runs)", _FAILED)


async def select_rolled_up_totals(
    connection: Connection, run_filter: RunFilter, minutes: int, since: datetime | None, until: datetime | None
) -> Totals:
    """Add up whole buckets for a filter that names no more than project, provider, model and status."""
    [row] = await connection.fetch(
        SELECT_ROLLED_UP_TOTALS,
        RollupScope(run_filter.project_id).key,
        minutes,
        since,
        until,
        run_filter.provider,
        run_filter.model,
        run_filter.status,
    )
    return Totals(*row)


async def select_dropped_before(connection: Connection, project_id: str | None) -> datetime | None:
    """Read the time before which the project, or any project, dropped runs: rollups still include them."""
    dropped_before: datetime | None = await connection.fetchval(SELECT_DROPPED_BEFORE, project_id)
    return dropped_before


async def select_names(
    connection: Connection, project_id: str | None, most: int, text: str = ""
) -> tuple[tuple[str, str], ...]:
    """Read provider and model of the project's runs, or those of all projects: so many, those with most runs, by name.

    With a text, which is in lower case, only of models whose name has it.
    """
    rows = await connection.fetch(SELECT_NAMES, RollupScope(project_id).key, text, most)
    return tuple(sorted((row[0], row[1]) for row in rows))


async def select_presence(connection: Connection, run_filter: RunFilter, at: datetime) -> Presence:
    [row] = await connection.fetch(
        SELECT_PRESENCE, RollupScope(run_filter.project_id).key, run_filter.provider, run_filter.model, at
    )
    return Presence(*row)


async def select_ends(
    connection: Connection, run_filter: RunFilter, grain: Grain, since: datetime, until: datetime
) -> tuple[datetime | None, datetime | None]:
    """Read the first and the last bucket in which a provider or model was used."""
    project_id = RollupScope(run_filter.project_id).key
    [row] = await connection.fetch(
        SELECT_ENDS, project_id, grain.minutes, since, until, run_filter.provider, run_filter.model
    )
    return row[0], row[1]


async def select_buckets(  # noqa: PLR0913  # The parameters of the statement, and which of four it is.
    connection: Connection, minutes: int, at: datetime, direction: Direction, limit: int, *, only_failed: bool
) -> list[tuple[datetime, int]]:
    """Read the next buckets of all projects together, from a time on, and how many runs are in each."""
    if direction is Direction.OLDER:
        sql = SELECT_FAILED_BEFORE if only_failed else SELECT_BUCKETS_BEFORE
    else:
        sql = SELECT_FAILED_AFTER if only_failed else SELECT_BUCKETS_AFTER
    rows = await connection.fetch(sql, ALL_PROJECTS.key, minutes, at, limit)
    return [(row["bucket"], row["runs"]) for row in rows]
