"""SQL that reads the newest entries of the audit log."""

from dataclasses import dataclass

from runtally.db.database import Connection

# Several entries, because a number is taken before its transaction ends: the last may be there before the one before it.
SELECT_RECENT_CHANGES = """
SELECT (SELECT array_agg(id)
          FROM (SELECT id
                  FROM audit_entries
              ORDER BY id DESC
                 LIMIT 20) AS entries) AS latest,
       (SELECT embed_token
          FROM projects
         WHERE id = $1) AS embed_token
"""


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """Recent changes that a page must not show late."""

    latest: tuple[int, ...]
    """The numbers of the latest audit entries: they differ whenever something that is no run was changed."""
    embed_token: str | None
    """The public token of the requested project, if it has one."""


async def select_recent_changes(connection: Connection, project_id: str | None) -> RecentChanges:
    row = await connection.fetchrow(SELECT_RECENT_CHANGES, project_id)
    latest, embed_token = row or ((), None)
    return RecentChanges(tuple(latest or ()), embed_token)
