"""Control and a cell as two databases, for applications in the process of the tests.

They are one in fact, where each is used by a role that may only touch its own tables, so that all else about a test stays as
it is. `APART=1` does so for every application.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from runtally.db.schema import HISTORIES
from runtally.models.databases import DATABASE_ROLES, DatabaseRole
from runtally.services import Services
from runtally.settings import Settings

IS_ASKED = "APART" in os.environ
ROLES = {
    "only_control": {DatabaseRole.CONTROL, DatabaseRole.EVERY},
    "only_cell": {DatabaseRole.CELL, DatabaseRole.EVERY, DatabaseRole.REPORTING},
}
GRANT = """
DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role};
GRANT SELECT ON {versions} TO {role};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role};
"""


@contextmanager
def opened_apart() -> Iterator[None]:
    """Let services that are opened while the block runs have two databases."""
    together = Services.opened

    @asynccontextmanager
    async def apart(settings: Settings, database_url: str) -> AsyncIterator[Services]:
        try:
            control_url, cell_url = await urls_of(database_url)
        except (OSError, asyncpg.PostgresError):
            # It is away, or has no tables.
            control_url = cell_url = database_url
        async with together(settings, control_url, cell_url=cell_url) as services:
            yield services

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Services, "opened", apart)
        yield


async def urls_of(database_url: str) -> tuple[str, str]:
    """Return the URLs of a database for control and for a cell."""
    versions = ", ".join(history.version_table for history in HISTORIES)
    connection = await asyncpg.connect(database_url)
    try:
        for role, homes in ROLES.items():
            tables = ", ".join(name for name, home in DATABASE_ROLES.items() if home in homes)
            await connection.execute(GRANT.format(role=role, tables=tables, versions=versions))
    finally:
        await connection.close()
    control, cell = (make_url(database_url).set(username=role) for role in ROLES)
    return control.render_as_string(hide_password=False), cell.render_as_string(hide_password=False)
