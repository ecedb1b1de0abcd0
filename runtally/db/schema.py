"""How far a database's schema is, and whether that is what this code wants. Alembic, which changes it, is not needed to ask.

The reporting table has a history of its own, because it may live in another database; it is in the same one otherwise.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runtally.db.database import Connection
from runtally.files import ROOT

SCRIPTS = ROOT / "alembic"


@dataclass(frozen=True, slots=True)
class History:
    """Migrations that build on each other, and the table that remembers how far a database is."""

    folder: Path
    version_table: str


MAIN = History(SCRIPTS / "versions", "alembic_version")
REPORTING = History(SCRIPTS / "reporting", "reporting_alembic_version")


@cache
def newest(history: History = MAIN) -> str:
    """The version that this code wants: files begin with theirs, in the order in which they build on each other."""
    versions = [path.name.partition("_")[0] for path in history.folder.glob("[0-9]*_*.py")]
    if not versions:
        raise RuntimeError(f"{history.folder} holds no migration")
    return max(versions)


async def is_current(connection: Connection) -> bool:
    """Whether the database has the schema that this code wants; the reporting table may be elsewhere."""
    reporting = await version_of(connection, REPORTING)
    return await version_of(connection) == newest() and reporting in {None, newest(REPORTING)}


async def version_of(connection: Connection, history: History = MAIN) -> str | None:
    """How far the database is; None when nothing of the history is there."""
    if await connection.fetchval("SELECT to_regclass($1)", history.version_table) is None:
        return None
    version: str | None = await connection.fetchval(f"SELECT version_num FROM {history.version_table}")
    return version
