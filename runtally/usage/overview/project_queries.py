"""SQL that lists projects and the times of their runs: with ids those projects, with None all."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS, RollupScope
from runtally.usage.report import KnownProject, ListedProject
from runtally.usage.sums.tables import TOTALS, last_bucket
from runtally.usage.sums.values import keys_of

Ids: TypeAlias = Sequence[str] | None

OF_IDS = "($1::text[] IS NULL OR projects.id = ANY ($1))"

_NEWEST = """SELECT created_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at DESC
                             LIMIT 1"""
SELECT_LISTED = f"""
  SELECT id,
         name,
         archived_at IS NOT NULL AS is_hidden
    FROM projects
   WHERE {OF_IDS}
"""

# Runs that were dropped are known by the bucket they were in.
SELECT_REACHING_BACK = f"""
SELECT id
  FROM projects
 WHERE {OF_IDS}
   AND CASE WHEN dropped_before IS NULL
            THEN EXISTS (SELECT FROM runs WHERE project_id = projects.id AND occurred_at < $2)
            ELSE EXISTS (SELECT
                           FROM {TOTALS.rows_of_projects} AS held
                          WHERE project_id = projects.id
                            AND grain = {GRAINS[-1].minutes}
                            AND bucket < $2) END
"""
# Where no bucket of all together is so old, no project is asked.
SELECT_DO_ANY_REACH_BACK = f"""
SELECT EXISTS (SELECT
                 FROM {TOTALS.rows} AS held
                WHERE project_id = '{ALL_PROJECTS_KEY}'
                  AND grain = {GRAINS[-1].minutes}
                  AND bucket < $2)
       AND EXISTS ({SELECT_REACHING_BACK.strip()})
"""
# By when the newest run was received: of runs that were made long ago and imported, the server says when they came. There is no
# index over the time alone: each project is looked into. Not so for what is recent.
SELECT_LAST_RECEIVED_AT = f"""
  SELECT CASE WHEN ends.recent >= $2 THEN ends.recent
              ELSE coalesce((SELECT max(found.created_at)
                               FROM projects
                                    CROSS JOIN LATERAL ({_NEWEST}) AS found
                              WHERE ($1 = '{ALL_PROJECTS_KEY}' OR projects.id = $1)), ends.last) END
    FROM (SELECT ({last_bucket("$1", GRAINS[0])}) AS recent,
                 ({last_bucket("$1", GRAINS[-1])}) AS last) AS ends
"""

# First and last run are one short index look-up each for every project; there is no index over the time alone. Runs that were
# dropped are known by the bucket they were in.
_BUCKET = f"""(SELECT bucket
            FROM {TOTALS.rows_of_projects} AS held
           WHERE project_id = projects.id
             AND grain = {GRAINS[-1].minutes}
        ORDER BY bucket {{way}}
           LIMIT 1)"""
_AGENT_KEY = f"""SELECT id FROM ({keys_of("SELECT $1::text AS project_id")}) AS keys WHERE key = 'agent'"""
SELECT_PROJECTS = f"""
  SELECT projects.id,
         projects.name,
         projects.archived_at IS NOT NULL AS is_hidden,
         CASE WHEN dropped_before IS NULL THEN first.occurred_at
              ELSE {_BUCKET.format(way="ASC")} END AS first_run_at,
         coalesce(last.created_at, {_BUCKET.format(way="DESC")}) AS last_received_at,
         projects.dropped_before,
         CASE WHEN $1::text IS NOT NULL THEN EXISTS (SELECT
                                                 FROM dimension_sums
                                                WHERE project_id = $1 AND key_id = ({_AGENT_KEY}) AND detail = 'day')
              ELSE FALSE END AS has_agents
    FROM projects
         LEFT JOIN LATERAL (SELECT occurred_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at
                             LIMIT 1) AS first ON TRUE
         LEFT JOIN LATERAL ({_NEWEST}) AS last ON TRUE
   WHERE ($1::text IS NULL OR projects.id = $1)
ORDER BY projects.name, projects.id
"""


SELECT_DROPPED_BEFORE = """
SELECT max(dropped_before)
  FROM projects
 WHERE ($1::text IS NULL OR id = $1)
"""


async def select_dropped_before(connection: Connection, project_id: str | None) -> datetime | None:
    """Read the time before which the project, or any project, dropped its runs, so that only later ones can be read."""
    dropped_before: datetime | None = await connection.fetchval(SELECT_DROPPED_BEFORE, project_id)
    return dropped_before


async def select_listed(connection: Connection, ids: Ids) -> tuple[ListedProject, ...]:
    """Read the projects, in any order."""
    return tuple(ListedProject(*row) for row in await connection.fetch(SELECT_LISTED, ids))


async def select_reaching_back(connection: Connection, before: datetime, ids: Ids) -> frozenset[str]:
    """Read the projects with runs before that time."""
    return frozenset(row[0] for row in await connection.fetch(SELECT_REACHING_BACK, ids, before))


async def do_any_reach_back(connection: Connection, before: datetime) -> bool:
    return bool(await connection.fetchval(SELECT_DO_ANY_REACH_BACK, None, before))


async def select_last_received_at(connection: Connection, project_id: str | None, recent: datetime) -> datetime | None:
    """Read when the newest run of the project or of all was received; of dropped runs, the start of their bucket."""
    at: datetime | None = await connection.fetchval(SELECT_LAST_RECEIVED_AT, RollupScope(project_id).key, recent)
    return at


async def select_projects(connection: Connection, project_id: str | None) -> tuple[KnownProject, ...]:
    """All projects, or the one with this id, by name."""
    rows = await connection.fetch(SELECT_PROJECTS, project_id)
    return tuple(KnownProject(**row) for row in rows)
