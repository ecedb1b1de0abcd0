"""Add cells, and let them take new projects or none. Each step can be done again after it broke off."""

from datetime import datetime

from runtally.audit import Actor, Change, record
from runtally.db.database import Database
from runtally.directory import queries
from runtally.directory.directory import wrong_database
from runtally.directory.queries import Identity
from runtally.errors import SettingsError, UnknownCell
from runtally.ids import uuid7
from runtally.models.cell import KnownCell
from runtally.settings import MAIN


async def refuse_foreign(control: Database, name: str, cell: Database) -> None:
    """Raise `SettingsError` unless a database can become this cell, or is it already; it has the tables of one.

    Raises `StoreUnavailable`.
    """
    async with control.connection() as connection:
        known = (await queries.select_ids(connection)).get(name)
    async with cell.connection() as connection:
        found = await queries.select_identity(connection)
        has_projects = bool(await queries.select_projects(connection))
    if found is not None and (found.name != name or known not in {None, found.id}):
        raise SettingsError(f"Cell {name}: {wrong_database(found)} Nothing was written.")
    if known is not None and found is None:
        raise SettingsError(f"Cell {name}: {wrong_database(None)} Nothing was written.")
    if known is None and name != MAIN and has_projects:
        raise SettingsError(
            f"Cell {name}: its database has projects already, as of another installation; use an empty one. Nothing was written."
        )


async def add(control: Database, name: str, cell: Database, now: datetime) -> None:
    """Give a database the identity of this cell, and note it in control: closed, except for the first one.

    Raises `SettingsError` as `refuse_foreign` does, and `StoreUnavailable`.
    """
    await refuse_foreign(control, name, cell)
    async with cell.durable() as connection:
        await queries.insert_identity(connection, Identity(uuid7(), name))
        found = await queries.select_identity(connection)
    assert found is not None  # noqa: S101  # It was just inserted, and nothing deletes it.
    async with control.durable() as connection:
        await queries.insert_cell(connection, name, found.id, now, is_open=name == MAIN)


async def record_projects(control: Database, name: str, cell: Database, now: datetime) -> list[str]:
    """Note the projects that a cell has and control lacks: those of main, from before there were several cells.

    Returns some that are said to be in another cell. Raises `StoreUnavailable`.
    """
    async with cell.connection() as connection:
        project_ids = await queries.select_projects(connection)
    async with control.durable() as connection:
        return await queries.insert_places(connection, project_ids, name, now)


async def let_take(control: Database, by: Actor, name: str, *, is_open: bool) -> None:
    """Let a cell take new projects, or none. Raises `UnknownCell` and `StoreUnavailable`."""
    async with control.session() as session:
        cell = await session.get(KnownCell, name, with_for_update=True)
        if cell is None:
            raise UnknownCell(f"There is no cell {name}; `runtally cells add` adds one that CELL_URLS names.")
        action = "cell.opened" if is_open else "cell.drained"
        record(session, by, Change(action, name, before={"isOpen": cell.is_open}, after={"isOpen": is_open}))
        cell.is_open = is_open
