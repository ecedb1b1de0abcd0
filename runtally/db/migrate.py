"""Alembic from code: upgrade, what is pending, whether models and migrations agree.

The reporting table has a history of its own, because it may live in another database; it is in the same one otherwise.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from runtally.db.database import Connection
from runtally.settings import CHECKOUT

SCRIPTS = CHECKOUT / "alembic"


@dataclass(frozen=True, slots=True)
class History:
    """Migrations that build on each other, and the table that remembers how far a database is."""

    folder: Path
    version_table: str


MAIN = History(SCRIPTS / "versions", "alembic_version")
REPORTING = History(SCRIPTS / "reporting", "reporting_alembic_version")


def config(database_url: str, history: History = MAIN) -> Config:
    options = Config(toml_file=CHECKOUT / "pyproject.toml")
    options.set_main_option("path_separator", "os")
    options.set_main_option("version_locations", str(history.folder))
    options.attributes["database_url"] = database_url
    options.attributes["version_table"] = history.version_table
    return options


def upgrade(database_url: str, *histories: History) -> None:
    """Bring the schema to the newest version, by default all of it.

    Blocking, with an event loop of its own: not for a running loop.
    """
    for history in histories or (MAIN, REPORTING):
        command.upgrade(config(database_url, history), "head")


def models_differ(database_url: str) -> str | None:
    """What the migrations lack of the models, or None. Blocking, like `upgrade`."""
    try:
        for history in (MAIN, REPORTING):
            command.check(config(database_url, history))
    except CommandError as error:
        return str(error)
    return None


@cache
def newest(history: History = MAIN) -> str:
    """The version that this code wants."""
    head = ScriptDirectory(str(SCRIPTS), version_locations=[history.folder]).get_current_head()
    if head is None:
        raise RuntimeError(f"{history.folder} holds no migration")
    return head


async def is_current(connection: Connection) -> bool:
    """Whether the database has the schema that this code wants; the reporting table may be elsewhere."""
    reporting = await version_of(connection, REPORTING)
    return await version_of(connection) == newest() and reporting in {None, newest(REPORTING)}


async def version_of(connection: Connection, history: History = MAIN) -> str | None:
    """How far the database is; None when nothing of the history is there."""
    if await connection.fetchval("SELECT to_regclass($1)", history.version_table) is None:
        return None
    version: str | None = await connection.fetchval(f"SELECT version_num FROM {history.version_table}")  # noqa: S608  # A name of ours.
    return version
