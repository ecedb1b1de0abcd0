"""Run Alembic from code: upgrade the schema, and compare models with migrations.

Import this only where a schema is changed: Alembic takes a tenth of a second and 10 MB.
"""

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError

from runtally.db.database import as_unavailable
from runtally.db.schema import HISTORIES, SCRIPTS, History
from runtally.errors import RuntallyError


def config(database_url: str, history: History) -> Config:
    options = Config()
    options.set_main_option("script_location", str(SCRIPTS))
    # File names give the order: 0001_runs.py, 0002_...; the revision id is the number.
    options.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    options.set_main_option("path_separator", "os")
    options.set_main_option("version_locations", str(history.folder))
    options.attributes["database_url"] = database_url
    options.attributes["version_table"] = history.version_table
    return options


def upgrade(database_url: str, *histories: History) -> None:
    """Upgrade the schema to the newest version, by default of all migration histories.

    Blocking, with an event loop of its own: do not call it in a running loop. Raises a plain `RuntallyError` when the
    tables are those of a newer version or locked for long, and `StoreUnavailable`, also where the role may not make tables.
    """
    for history in histories or HISTORIES:
        try:
            with as_unavailable():
                command.upgrade(config(database_url, history), "head")
        except CommandError as error:
            raise RuntallyError(
                f"The database was migrated by another version of Runtally; use that one. ({error}.)"
            ) from error
        except DBAPIError as error:
            if error.orig is None or not isinstance(error.orig.__cause__, asyncpg.LockNotAvailableError):
                raise
            raise RuntallyError(
                "The schema was not upgraded, because another session uses its tables: a backup, a long query or an older "
                "version of Runtally. Run it again when that has ended."
            ) from error


def models_differ(database_url: str, *histories: History) -> str | None:
    """Return the difference between models and migrations, or None. Blocking, like `upgrade`."""
    try:
        for history in histories or HISTORIES:
            command.check(config(database_url, history))
    except CommandError as error:
        return str(error)
    return None
