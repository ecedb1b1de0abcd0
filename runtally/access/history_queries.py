"""SQL of the audit log."""

from runtally.db.database import Connection

# Several, because a number is taken before its transaction ends: the last may be there before the one before it.
SELECT_LATEST = """
SELECT array_agg(id)
  FROM (SELECT id
          FROM audit_entries
      ORDER BY id DESC
         LIMIT 20) AS latest
"""


async def select_latest(connection: Connection) -> tuple[int, ...]:
    """The numbers of the latest entries: they differ whenever something that is no run was changed."""
    return tuple(await connection.fetchval(SELECT_LATEST) or ())
