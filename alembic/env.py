"""Runs migrations: one at a time, each in a transaction of its own, never waiting long for a lock."""

import asyncio

from alembic import context
from sqlalchemy import Connection, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from runtally.db import schema
from runtally.db.connecting import OpenConnection, connect, engine_options
from runtally.db.dsn import CONNECT_SECONDS, Dsn
from runtally.models import metadata
from runtally.models.databases import DATABASE_ROLES, DatabaseRole
from runtally.settings import load_settings

# A migration that cannot get its lock gives up instead of queueing all traffic behind it.
LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "10min"
# Any number will do, as long as nothing else in the database uses it.
ADVISORY_LOCK = 7_214_026_101
LOCK_POLL_SECONDS = 0.2


def _database_url() -> str:
    given = context.config.attributes.get("database_url") or load_settings().database_url
    if not given:
        message = "Set DATABASE_URL, or use `runtally migrate`, which knows the embedded Postgres."
        raise SystemExit(message)
    return str(given)


version_table = context.config.attributes.get("version_table", schema.CONTROL.version_table)
# A table that no model has any more was in the database before there was a second one.
_ROLES: set[DatabaseRole | None] = {
    schema.CONTROL.version_table: {DatabaseRole.CONTROL, None},
    schema.CELL.version_table: {DatabaseRole.CELL, DatabaseRole.EVERY},
    schema.REPORTING.version_table: {DatabaseRole.REPORTING},
}[version_table]
_VERSIONS = {history.version_table for history in schema.HISTORIES}


def _belongs(_object: object, name: str | None, kind: str, _reflected: bool, _compared: object) -> bool:  # noqa: FBT001  # Alembic's hook.
    """Return whether a table is this history's, as others are in a shared database too."""
    if kind != "table" or name is None:
        return True
    return name not in _VERSIONS and DATABASE_ROLES.get(name) in _ROLES


def _run(connection: Connection) -> None:
    event.listen(connection, "begin", _limit)
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=version_table,
        include_object=_belongs,
        transaction_per_migration=True,
        compare_server_default=True,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def _limit(connection: Connection) -> None:
    """Limit the transaction, not the session, which a pooler may hand on. A statement outside of one has no limit."""
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'")


async def _take_turn(guard: AsyncConnection) -> None:
    """Two machines that start at once: the second waits here and then finds nothing to do.

    Its transaction stays open, and does nothing, until the migrations are done. It asks again and again, because a statement
    that waits is one that CREATE INDEX CONCURRENTLY waits for: a deadlock.
    """
    while not await guard.scalar(text(f"SELECT pg_try_advisory_xact_lock({ADVISORY_LOCK})")):
        await guard.rollback()
        await asyncio.sleep(LOCK_POLL_SECONDS)
    await guard.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))


async def _migrate() -> None:
    dsn = Dsn.parse(_database_url())
    options = {"timeout": CONNECT_SECONDS}

    async def connect_to_one(*_: object, **_given: object) -> OpenConnection:
        connection, _number = await connect(dsn, options)
        return connection

    engine = create_async_engine(dsn.url, poolclass=NullPool, **engine_options(dsn, options, connect_to_one))
    async with engine.connect() as guard, engine.connect() as connection:
        await _take_turn(guard)
        await connection.run_sync(_run)
    await engine.dispose()


if context.is_offline_mode():
    offline = "Migrations need a database to look at; run them online."
    raise SystemExit(offline)
asyncio.run(_migrate())
