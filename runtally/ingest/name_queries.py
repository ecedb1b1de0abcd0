"""SQL of the names that have rows of their own: models in the sums of a day, and experiments."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TypeAlias

from runtally.db.database import Connection
from runtally.models.rollup import GRAINS
from runtally.usage.dimensions import OTHER_NAME
from runtally.usage.sums.tables import SLICES

Place: TypeAlias = tuple[str, int]
"""A project and a day (UTC), counted from the year 1: that is read from a moment faster than its midnight."""
Pair: TypeAlias = tuple[str, str]
"""A provider and a model, or a project and an experiment."""

_LASTING = GRAINS[-1]
_OF_DAY = f"project_id = $1 AND grain = {_LASTING.minutes} AND bucket = ANY ($2::timestamptz[])"
COUNT_MODELS = f"""
SELECT count(*)
  FROM (SELECT DISTINCT provider, model FROM {SLICES.rows_of_projects} AS held WHERE {_OF_DAY} LIMIT $3) AS known
"""
SELECT_KNOWN_MODELS = f"""
SELECT provider, model
  FROM unnest($3::text[], $4::text[]) AS asked (provider, model)
 WHERE EXISTS (SELECT
                 FROM {SLICES.rows_of_projects} AS held
                WHERE {_OF_DAY}
                  AND held.provider = asked.provider
                  AND held.model = asked.model)
"""
COUNT_NEW_EXPERIMENTS = """
SELECT count(*)
  FROM (SELECT FROM experiments WHERE project_id = $1 AND created_at >= $2 LIMIT $3) AS begun
"""
SELECT_KNOWN_EXPERIMENTS = "SELECT project_id, id FROM experiments WHERE project_id = $1 AND id = ANY ($2::text[])"
SELECT_CAPPED = f"""
  SELECT id, 'models', count(DISTINCT (bucket AT TIME ZONE 'UTC')::date)
    FROM projects
         CROSS JOIN unnest($1::timestamptz[]) AS buckets (bucket)
         JOIN {SLICES.rows_of_projects} AS held USING (bucket)
   WHERE held.project_id = projects.id
     AND grain = {_LASTING.minutes}
     AND provider = '{OTHER_NAME}'
     AND model = '{OTHER_NAME}'
GROUP BY id
   UNION ALL
  SELECT project_id, 'experiments', count(*)
    FROM (SELECT project_id
            FROM experiments
           WHERE created_at >= $2
        GROUP BY project_id, (created_at AT TIME ZONE 'UTC')::date
          HAVING count(*) >= $3) AS days
GROUP BY project_id
ORDER BY 1, 2
   LIMIT $4
"""


async def count_models(connection: Connection, place: Place, most: int) -> int:
    """Count the models that the sums of a project's day tell apart, up to a limit."""
    project_id, day = place
    return int(await connection.fetchval(COUNT_MODELS, project_id, _buckets(day), most))


async def select_known_models(connection: Connection, place: Place, asked: Collection[Pair]) -> set[Pair]:
    """Read which of these models the sums of a project's day tell apart."""
    project_id, day = place
    columns = map(list, zip(*asked, strict=True))
    rows = await connection.fetch(SELECT_KNOWN_MODELS, project_id, _buckets(day), *columns)
    return {(provider, model) for provider, model in rows}


async def count_new_experiments(connection: Connection, place: Place, most: int) -> int:
    """Count the experiments of a project that began on a day or later, up to a limit."""
    project_id, day = place
    return int(await connection.fetchval(COUNT_NEW_EXPERIMENTS, project_id, _midnight(day), most))


async def select_known_experiments(connection: Connection, place: Place, asked: Collection[Pair]) -> set[Pair]:
    """Read which of these experiments a project has, since whatever day."""
    rows = await connection.fetch(SELECT_KNOWN_EXPERIMENTS, place[0], [id_ for _, id_ in asked])
    return {(project_id, id_) for project_id, id_ in rows}


async def select_capped(
    connection: Connection, now: datetime, days: int, names: int, most: int
) -> list[tuple[str, str, int]]:
    """Read the first projects that had too many names on some of the last days: which kind of names, and on how many days."""
    today = now.toordinal()
    asked = range(today - days + 1, today + 1)
    buckets = [bucket for day in asked for bucket in _buckets(day)]
    rows = await connection.fetch(SELECT_CAPPED, buckets, _midnight(asked[0]), names, most)
    return [(project_id, kind, number) for project_id, kind, number in rows]


def _midnight(day: int) -> datetime:
    return datetime.fromordinal(day).replace(tzinfo=UTC)


def _buckets(day: int) -> list[datetime]:
    """Return the buckets of the longest length, of which each day has a few, and which are kept for ever."""
    return [_midnight(day) + number * _LASTING.length for number in range(24 * 60 // _LASTING.minutes)]
