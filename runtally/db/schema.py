"""Read the version of a database's schema, and compare it with this code. Alembic is not needed for that.

The reporting table has a history of its own, because it may live in another database; else it is in the same one.
"""

from dataclasses import dataclass
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


MAIN = History(SCRIPTS / "versions", "alembic_version")
REPORTING = History(SCRIPTS / "reporting", "reporting_alembic_version")


@cache
def newest(history: History = MAIN) -> str:
    """Return the version that this code needs. Migration files begin with their version, in their order."""
    versions = [path.name.partition("_")[0] for path in history.folder.glob("[0-9]*_*.py")]
    if not versions:
        raise RuntimeError(f"{history.folder} holds no migration")
    return max(versions)


async def is_current(connection: Connection) -> bool:
    """Return whether the database has the schema that this code needs; the reporting table may be elsewhere."""
    reporting = await version_of(connection, REPORTING)
    return await version_of(connection) == newest() and reporting in {None, newest(REPORTING)}


async def version_of(connection: Connection, history: History = MAIN) -> str | None:
    """Return the database's version; None if the history's tables do not exist."""
    if await connection.fetchval("SELECT to_regclass($1)", history.version_table) is None:
        return None
    version: str | None = await connection.fetchval(f"SELECT version_num FROM {history.version_table}")
    return version
