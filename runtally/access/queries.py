"""SQL of recent changes, and of who sees badges: one statement per check, without a SQLModel session, as every request waits."""

from dataclasses import dataclass

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.db.database import Connection

SELECT_BADGE_ACCESS = """
SELECT has_public_badges,
       embed_token
  FROM projects
 WHERE id = $1
"""


@dataclass(frozen=True, slots=True)
class BadgeAccess:
    """The readers of a project's metric badges: everybody, or those with the token of its embedded charts."""

    is_public: bool
    token: str | None


async def select_badge_access(connection: Connection, project_id: str) -> BadgeAccess | None:
    """None without such a project."""
    row = await connection.fetchrow(SELECT_BADGE_ACCESS, project_id)
    return BadgeAccess(*row) if row else None


# Several entries, because a number is taken before its transaction ends: the last may be there before the one before it.
_LATEST = """(SELECT array_agg(id)
          FROM (SELECT id
                  FROM audit_entries
              ORDER BY id DESC
                 LIMIT 20) AS entries)"""
SELECT_LATEST_CHANGES = f"SELECT {_LATEST} AS latest"
SELECT_RECENT_CHANGES = f"""
SELECT {_LATEST} AS latest,
       projects.embed_token,
       coalesce(projects.has_public_badges, FALSE) AS has_public_badges
  FROM (SELECT) AS always
       LEFT JOIN projects ON projects.id = $1
"""


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """Recent changes that a page must not show late."""

    latest: tuple[int, ...]
    """The numbers of the latest audit entries: they differ whenever something that is no run was changed."""
    embed_token: str | None
    """The public token of the requested project, if it has one."""
    has_public_badges: bool
    """Whether badges of the project's metrics need no token."""
    in_control: tuple[int, ...] = ()
    """The numbers of the latest entries of control, where that is another database."""


async def select_recent_changes(connection: Connection, project_id: str | None) -> RecentChanges:
    row = await connection.fetchrow(SELECT_RECENT_CHANGES, project_id)
    latest, embed_token, has_public_badges = row or ((), None, False)
    return RecentChanges(tuple(latest or ()), embed_token, has_public_badges)


async def select_latest_changes(connection: Connection) -> tuple[int, ...]:
    """Read the numbers of the latest audit entries of a database."""
    return tuple(await connection.fetchval(SELECT_LATEST_CHANGES) or ())


# Held until the transaction ends. A lock on each link is not enough: the first to use one ends the others.
LOCK_JOINING = "SELECT pg_advisory_xact_lock(hashtext('runtally joining'))"


async def lock_joining(session: AsyncSession) -> None:
    """Wait until no other transaction creates the first admin's link or uses a link."""
    await (await session.connection()).exec_driver_sql(LOCK_JOINING)
