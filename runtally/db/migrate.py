"""Alembic from code: upgrade, what is pending, whether models and migrations agree."""

from functools import cache

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from runtally.db.database import Connection
from runtally.settings import CHECKOUT

SELECT_VERSION = """
SELECT version_num
  FROM alembic_version
"""


def config(database_url: str) -> Config:
    options = Config(CHECKOUT / "pyproject.toml", toml_file=CHECKOUT / "pyproject.toml")
    options.attributes["database_url"] = database_url
    return options


def upgrade(database_url: str) -> None:
    """Bring the schema to the newest version. Blocking, with an event loop of its own: not for a running loop."""
    command.upgrade(config(database_url), "head")


def models_differ(database_url: str) -> str | None:
    """What the migrations lack of the models, or None. Blocking, like `upgrade`."""
    try:
        command.check(config(database_url))
    except CommandError as error:
        return str(error)
    return None


@cache
def newest() -> str:
    """The version that this code wants."""
    head = ScriptDirectory(str(CHECKOUT / "alembic")).get_current_head()
    if head is None:
        raise RuntimeError("alembic/versions holds no migration")
    return head


async def is_current(connection: Connection) -> bool:
    """Whether the database has the schema that this code wants."""
    if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
        return False
    return bool(await connection.fetchval(SELECT_VERSION) == newest())
