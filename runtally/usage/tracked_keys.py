"""List tracked keys by name."""

from runtally.db.database import Connection
from runtally.models.dimension import EVERY_PROJECT
from runtally.usage.snapshots import Snapshots
from runtally.usage.sums.values import keys_of

SELECT_KEYS_OF_PROJECT = f"""
  SELECT key
    FROM ({keys_of("SELECT $1::text AS project_id")}) AS keys
ORDER BY key
"""
SELECT_KEYS_OF_ALL = f"""
  SELECT key
    FROM tracked_keys AS shared
   WHERE project_id = '{EVERY_PROJECT}'
     AND NOT EXISTS (SELECT
                       FROM tracked_keys AS own
                      WHERE own.project_id <> '{EVERY_PROJECT}'
                        AND own.key = shared.key
                        AND own.state IN ('dropping', 'untracked'))
ORDER BY key
"""


async def select_tracked_keys(connection: Connection, project_id: str | None) -> tuple[str, ...]:
    """Read the keys that a project tracks, or, for None, those that all projects track, by name."""
    if project_id is None:
        return tuple(row[0] for row in await connection.fetch(SELECT_KEYS_OF_ALL))
    return tuple(row[0] for row in await connection.fetch(SELECT_KEYS_OF_PROJECT, project_id))


async def read_tracked_keys(snapshots: Snapshots, project_id: str | None) -> tuple[str, ...]:
    """Read the keys that a project tracks, or, for None, those that all projects of all databases track, by name."""
    first, *others = await snapshots.of_each(lambda connection: select_tracked_keys(connection, project_id))
    return tuple(key for key in first if all(key in keys for keys in others))
