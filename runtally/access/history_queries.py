"""SQL that reads the newest entries of the audit log."""

from dataclasses import dataclass

from runtally.db.database import Connection

# Several entries, because a number is taken before its transaction ends: the last may be there before the one before it.
_LATEST = """(SELECT array_agg(id)
          FROM (SELECT id
                  FROM audit_entries
              ORDER BY id DESC
                 LIMIT 20) AS entries)"""
SELECT_LATEST_CHANGES = f"SELECT {_LATEST} AS latest"
SELECT_RECENT_CHANGES = f"""
SELECT {_LATEST} AS latest,
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
    in_control: tuple[int, ...] = ()
    """The numbers of the latest entries of control, where that is another database."""


async def select_recent_changes(connection: Connection, project_id: str | None) -> RecentChanges:
    row = await connection.fetchrow(SELECT_RECENT_CHANGES, project_id)
    latest, embed_token = row or ((), None)
    return RecentChanges(tuple(latest or ()), embed_token)


async def select_latest_changes(connection: Connection) -> tuple[int, ...]:
    """Read the numbers of the latest audit entries of a database."""
    return tuple(await connection.fetchval(SELECT_LATEST_CHANGES) or ())
