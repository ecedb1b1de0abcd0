"""Read the version of a database's schema, and compare it with this code; what its server is, and which tables it closes.

Control, a cell and the reporting table have histories of their own, because each may be in another database; in a small
installation all are in one.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from runtally.db.database import Connection
from runtally.files import ROOT

SCRIPTS = ROOT / "alembic"


@dataclass(frozen=True, slots=True)
class History:
    """Migrations that build on each other, and the table that stores a database's version."""

    folder: Path
    version_table: str


CONTROL = History(SCRIPTS / "control", "alembic_version")
"""Its first ten migrations made the tables of a cell too: in the database of control there is always one."""
CELL = History(SCRIPTS / "cell", "cell_alembic_version")
REPORTING = History(SCRIPTS / "reporting", "reporting_alembic_version")
LIVE = (CONTROL, CELL)
"""The histories of the database that has everything but, maybe, the reporting table; in the order in which they are applied."""
HISTORIES = (*LIVE, REPORTING)


@cache
def newest(history: History) -> str:
    """Return the version that this code needs. Migration files begin with their version, in their order."""
    versions = [path.name.partition("_")[0] for path in history.folder.glob("[0-9]*_*.py")]
    if not versions:
        raise RuntimeError(f"{history.folder} holds no migration")
    return max(versions)


def version_name() -> str:
    """Return the version of the schema that this code needs, as people read it: that of control, and that of cells."""
    return f"{newest(CONTROL)}.{newest(CELL)}"


async def is_current(connection: Connection) -> bool:
    """Return whether the database has the schema that this code needs; the reporting table may be elsewhere."""
    reporting = await version_of(connection, REPORTING)
    return await are_current(connection, *LIVE) and reporting in {None, newest(REPORTING)}


async def are_current(connection: Connection, *histories: History) -> bool:
    """Return whether the database has the newest version of these histories."""
    return all([await version_of(connection, history) == newest(history) for history in histories])


async def is_pending(connection: Connection) -> bool:
    """Return whether the database waits for migrations that this code needs; the reporting table may be elsewhere."""
    reporting = await version_of(connection, REPORTING)
    return any([await is_behind(connection, one) for one in LIVE]) or (
        reporting is not None and reporting < newest(REPORTING)
    )


async def is_behind(connection: Connection, history: History) -> bool:
    """Return whether the database waits for migrations; during an update older servers go on with newer tables."""
    version = await version_of(connection, history)
    return version is None or version < newest(history)


async def advice(connection: Connection) -> str:
    """Return what to do about tables that are not those of this code, as the rest of a sentence."""
    found = [(await version_of(connection, history), newest(history)) for history in HISTORIES]
    if any(version is not None and version > needed for version, needed in found):
        return "tables are those of a newer version of Runtally; use that one, or restore a backup from before it"
    return "tables are not those of this version; run `runtally migrate`"


async def version_of(connection: Connection, history: History) -> str | None:
    """Return the database's version; None if the history's tables do not exist."""
    if await connection.fetchval("SELECT to_regclass($1)", history.version_table) is None:
        return None
    version: str | None = await connection.fetchval(f"SELECT version_num FROM {history.version_table}")
    return version


SELECT_SERVER = """
SELECT current_setting('server_version_num')::integer / 10000 AS major,
       current_setting('server_version') AS version,
       clock_timestamp() AS at
"""

# Other tables of the schema are somebody else's, and only `migrate` writes the versions of the schema.
SELECT_CLOSED_TABLES = """
  SELECT one.relname::text
    FROM pg_class AS one
         JOIN pg_class AS runs ON runs.oid = 'runs'::regclass
   WHERE one.relnamespace = runs.relnamespace
     AND one.relowner = runs.relowner
     AND one.relkind IN ('r', 'p')
     AND one.relname NOT LIKE '%alembic_version'
     AND NOT (has_table_privilege(one.oid, 'SELECT') AND has_table_privilege(one.oid, 'INSERT')
              AND has_table_privilege(one.oid, 'UPDATE') AND has_table_privilege(one.oid, 'DELETE'))
ORDER BY 1
"""


SELECT_MAY_MAKE_TABLES = "SELECT has_schema_privilege(current_schema(), 'CREATE')"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    major: int
    version: str
    at: datetime


async def select_server(connection: Connection) -> ServerInfo:
    row = await connection.fetchrow(SELECT_SERVER)
    if row is None:
        raise RuntimeError("a SELECT without FROM answered no row")
    return ServerInfo(**row)


async def select_closed_tables(connection: Connection) -> list[str]:
    """Return the names of our tables that the connection's user may not read and change."""
    return [name for (name,) in await connection.fetch(SELECT_CLOSED_TABLES)]
