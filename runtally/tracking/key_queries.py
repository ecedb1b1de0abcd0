"""SQL of the keys that a project tracks."""

from datetime import date, datetime
from typing import NamedTuple

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.models.dimension import EVERY_PROJECT
from runtally.usage.sums.values import keys_of

SELECT_KEYS = f"""
  SELECT keys.key,
         keys.id,
         keys.names,
         coalesce(own.state, 'tracked') AS state,
         own.filled_until,
         own.complete_since,
         (SELECT min(bucket)::date FROM rollup_totals WHERE project_id = $1 AND grain = 1440 AND runs > 0) AS first_day
    FROM ({keys_of("SELECT $1::text AS project_id", "('tracked', 'filling', 'dropping')")}) AS keys
         LEFT JOIN tracked_keys AS own
                ON own.project_id = $1 AND own.key = keys.key
ORDER BY keys.key
"""
# A key that is tracked anew has another number, as its sums begin anew.
TRACK = """
INSERT INTO tracked_keys (project_id, key, names, state, changed_at)
     VALUES ($1, $2, $3, 'filling', $4)
ON CONFLICT (project_id, key) DO UPDATE
        SET id = excluded.id, names = excluded.names, state = 'filling', changed_at = $4, filled_until = NULL,
            complete_since = NULL
"""
UNTRACK = """
INSERT INTO tracked_keys (project_id, key, id, names, state, changed_at)
     VALUES ($1, $2, $3, $4, 'dropping', $5)
ON CONFLICT (project_id, key) DO UPDATE
        SET state = 'dropping', changed_at = $5
"""
SELECT_DEFAULT_NAMES = f"SELECT names FROM tracked_keys WHERE project_id = '{EVERY_PROJECT}' AND key = $1"


# Lists and objects are hardly what anybody groups by.
SELECT_SEEN = """
  SELECT key, count(DISTINCT value #>> '{}') AS values, count(*) AS runs
    FROM (SELECT metadata
            FROM runs
           WHERE project_id = $1
        ORDER BY occurred_at DESC
           LIMIT $2) AS newest
         CROSS JOIN LATERAL jsonb_each(metadata) AS each (key, value)
   WHERE jsonb_typeof(metadata) = 'object' AND jsonb_typeof(value) IN ('string', 'number', 'boolean')
GROUP BY key
ORDER BY runs DESC, key
   LIMIT $3
"""


class SeenKey(NamedTuple):
    """A key of metadata, how many values of it were seen, and in how many runs."""

    key: str
    values: int
    runs: int


class KeyRow(NamedTuple):
    """A key that a project tracks, or whose sums it still has."""

    key: str
    id: int
    names: list[str]
    state: str
    filled_until: date | None
    complete_since: date | None
    first_day: date | None


async def select_keys(session: AsyncSession, project_id: str) -> list[KeyRow]:
    """The keys of a project by name: its own, and those of all projects."""
    rows = await (await session.connection()).exec_driver_sql(SELECT_KEYS, (project_id,))
    return [KeyRow(*row) for row in rows]


async def select_default_names(session: AsyncSession, key: str) -> list[str] | None:
    """The names that a key of all projects is read from."""
    connection = await session.connection()
    names: list[str] | None = (await connection.exec_driver_sql(SELECT_DEFAULT_NAMES, (key,))).scalar()
    return names


async def track(session: AsyncSession, project_id: str, key: str, names: list[str], now: datetime) -> None:
    """Count the runs that come by a key from now on, and have those of before counted."""
    await (await session.connection()).exec_driver_sql(TRACK, (project_id, key, names, now))


async def untrack(session: AsyncSession, project_id: str, row: KeyRow, now: datetime) -> None:
    """Count no more runs by a key, and have its sums deleted."""
    await (await session.connection()).exec_driver_sql(UNTRACK, (project_id, row.key, row.id, row.names, now))


async def select_seen(session: AsyncSession, project_id: str, runs: int, limit: int) -> list[SeenKey]:
    """The keys of metadata that the newest runs of a project have, those that most of them have first."""
    rows = await (await session.connection()).exec_driver_sql(SELECT_SEEN, (project_id, runs, limit))
    return [SeenKey(*row) for row in rows]
