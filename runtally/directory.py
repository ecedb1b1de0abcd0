"""Which cells there are, and where each project is. A place never changes, so what a process knows is right for ever.

Each step of adding a cell can be done again after it broke off.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import asyncpg

from runtally.audit import Actor, Change, record
from runtally.clock import Clock
from runtally.db.connecting import OpenConnection
from runtally.db.database import Connection, Database
from runtally.errors import AwaitedCell, NoOpenCell, SettingsError, UnknownCell, WrongCell
from runtally.ids import uuid7
from runtally.models.cell import KnownCell
from runtally.settings import MAIN, Settings

SELECT_CELLS = """
  SELECT name,
         id,
         is_open,
         (SELECT count(*) FROM project_places WHERE cell = cells.name) AS projects
    FROM cells
ORDER BY name <> 'main', name
"""

SELECT_IDS = """
SELECT name, id
  FROM cells
"""

INSERT_CELL = """
INSERT INTO cells (name, id, is_open, added_at)
     VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
"""

SELECT_PLACES = """
SELECT project_id, cell
  FROM project_places
"""

SELECT_PLACE = """
SELECT cell
  FROM project_places
 WHERE project_id = $1
"""

COUNT_PLACES = """
SELECT count(*)
  FROM project_places
"""

# To the cell with the fewest projects, of those that the process knows.
INSERT_PLACE = """
INSERT INTO project_places (project_id, cell, placed_at)
     SELECT $1::text, name, $3::timestamptz
       FROM cells
      WHERE name = ANY ($2::text[])
        AND is_open
   ORDER BY (SELECT count(*) FROM project_places WHERE cell = cells.name), name
      LIMIT 1
ON CONFLICT DO NOTHING
"""

INSERT_PLACES = """
INSERT INTO project_places (project_id, cell, placed_at)
     SELECT project_id, $2::text, $3::timestamptz
       FROM unnest($1::text[]) AS found (project_id)
ON CONFLICT DO NOTHING
"""

# The cell has these projects, and the directory says that they are elsewhere.
SELECT_ELSEWHERE = """
  SELECT project_id
    FROM project_places
   WHERE project_id = ANY ($1::text[])
     AND cell <> $2
ORDER BY project_id
   LIMIT 10
"""

SELECT_PROJECTS = """
SELECT id
  FROM projects
"""

SELECT_IDENTITY = """
SELECT id, name
  FROM cell_identity
"""

INSERT_IDENTITY = """
INSERT INTO cell_identity (number, id, name)
     VALUES (1, $1, $2)
ON CONFLICT DO NOTHING
"""


class ListedCell(NamedTuple):
    """A cell that was added, and how many projects are or were there."""

    name: str
    id: uuid.UUID
    is_open: bool
    projects: int


class Identity(NamedTuple):
    """What a cell's database says that it is."""

    id: uuid.UUID
    name: str


async def select_cells(connection: Connection) -> list[ListedCell]:
    return [ListedCell(*row) for row in await connection.fetch(SELECT_CELLS)]


async def select_ids(connection: Connection) -> dict[str, uuid.UUID]:
    """Read the identity of each cell, by its name."""
    return {row["name"]: row["id"] for row in await connection.fetch(SELECT_IDS)}


async def insert_places(connection: Connection, project_ids: Sequence[str], cell: str, now: datetime) -> list[str]:
    """Say that these projects are in a cell, and return some that are said to be elsewhere."""
    await connection.execute(INSERT_PLACES, project_ids, cell, now)
    return [row["project_id"] for row in await connection.fetch(SELECT_ELSEWHERE, project_ids, cell)]


async def select_projects(connection: Connection) -> list[str]:
    return [row["id"] for row in await connection.fetch(SELECT_PROJECTS)]


async def select_identity(connection: "Connection | OpenConnection") -> Identity | None:
    """Read what a database says that it is; None for one that is no cell yet, or has no tables."""
    try:
        row = await connection.fetchrow(SELECT_IDENTITY)
    except asyncpg.UndefinedTableError:
        return None
    return Identity(*row) if row else None


class Directory:
    """The cells of an installation that has several, and the cell of each project; one per process."""

    def __init__(self, control: Database, names: Collection[str], clock: Clock) -> None:
        self._control = control
        self._clock = clock
        self.names = (MAIN, *names)
        """The cells that this process has a URL of."""
        self._ids: Mapping[str, uuid.UUID] = {}
        self._places: dict[str, str] = {}

    async def refresh(self) -> None:
        """Read which cells there are, and the places that other processes gave. Raises `StoreUnavailable`."""
        async with self._control.connection() as connection:
            self._ids = await select_ids(connection)
            if await connection.fetchval(COUNT_PLACES) != len(self._places):
                self._places |= {row["project_id"]: row["cell"] for row in await connection.fetch(SELECT_PLACES)}

    def known(self, project_id: str) -> str | None:
        """Return the cell of a project, as far as this process knows."""
        return self._places.get(project_id)

    async def find(self, project_id: str) -> str | None:
        """Return the cell of a project; None if it has no runs yet. Raises `StoreUnavailable`."""
        if project_id not in self._places:
            async with self._control.connection() as connection:
                cell: str | None = await connection.fetchval(SELECT_PLACE, project_id)
            if cell is None:
                return None
            self._places[project_id] = cell
        return self._places[project_id]

    async def place(self, project_id: str) -> str:
        """Return the cell of a project, which may be new. Raises `NoOpenCell` and `StoreUnavailable`."""
        cell = await self.find(project_id)
        if cell is None:
            async with self._control.durable() as connection:
                await connection.execute(INSERT_PLACE, project_id, self.names, self._clock())
            # Another process may have been quicker.
            cell = await self.find(project_id)
        if cell is None:
            raise NoOpenCell
        return cell

    def demand_identity(self, name: str, identity: Identity | None) -> None:
        """Raise `AwaitedCell` for a cell that was not added, and `WrongCell` unless this is what its database says."""
        known = self._ids.get(name)
        if known is None:
            raise AwaitedCell(f"Cell {name} was not added yet; its operator runs `runtally cells add {name}`.")
        if identity is None or identity.id != known:
            raise WrongCell(f"Cell {name}: {wrong_database(identity)}")


@dataclass(frozen=True, slots=True)
class Membership:
    """Checks each new connection to the database of a cell."""

    name: str
    directory: Directory

    async def check(self, connection: OpenConnection) -> None:
        """Raise `WrongCell` where it is the database of another cell, or of none."""
        self.directory.demand_identity(self.name, await select_identity(connection))


def wrong_database(identity: Identity | None) -> str:
    """Return what is wrong with a database that is not the cell that was asked for."""
    if identity is None:
        return "its URL in CELL_URLS leads to a database that is no cell; correct it."
    return f"its URL in CELL_URLS leads to the database of another cell, called {identity.name}; correct it."


async def refuse_cell(connection: Connection) -> None:
    """Raise `SettingsError` where the database of people and keys should be, and is that of a cell."""
    identity = await select_identity(connection)
    if identity is not None and identity.name != MAIN:
        raise SettingsError(
            f"DATABASE_URL leads to the database of the cell {identity.name}, which has no people, keys and prices: correct it, and "
            "name the cell in CELL_URLS. Nothing was written."
        )


async def refuse_unnamed_cells(control: Database, settings: Settings) -> None:
    """Raise `SettingsError` where there are cells of which CELL_URLS has no URL. Raises `StoreUnavailable`."""
    async with control.connection() as connection:
        unnamed = sorted(set(await select_ids(connection)) - {MAIN, *settings.cell_urls})
    if unnamed:
        raise SettingsError(
            f"CELL_URLS has no URL of the {'cell' if len(unnamed) == 1 else 'cells'} {', '.join(unnamed)}: set it as on the "
            "other servers. Nothing was written."
        )


async def refuse_foreign(control: Database, name: str, cell: Database) -> None:
    """Raise `SettingsError` unless a database can become this cell, or is it already; it has the tables of one.

    Raises `StoreUnavailable`.
    """
    async with control.connection() as connection:
        known = (await select_ids(connection)).get(name)
    async with cell.connection() as connection:
        identity = await select_identity(connection)
        has_projects = bool(await select_projects(connection))
    if identity is not None and (identity.name != name or known not in {None, identity.id}):
        raise SettingsError(f"Cell {name}: {wrong_database(identity)} Nothing was written.")
    if known is not None and identity is None:
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
        await connection.execute(INSERT_IDENTITY, uuid7(), name)
        identity = await select_identity(connection)
    assert identity is not None  # noqa: S101  # It was just inserted, and nothing deletes it.
    async with control.durable() as connection:
        await connection.execute(INSERT_CELL, name, identity.id, name == MAIN, now)


async def record_projects(control: Database, name: str, cell: Database, now: datetime) -> list[str]:
    """Note the projects that a cell has and control lacks: those of main, from before there were several cells.

    Returns some that are said to be in another cell. Raises `StoreUnavailable`.
    """
    async with cell.connection() as connection:
        project_ids = await select_projects(connection)
    async with control.durable() as connection:
        return await insert_places(connection, project_ids, name, now)


async def let_take(control: Database, by: Actor, name: str, *, is_open: bool) -> None:
    """Let a cell take new projects, or none. Raises `UnknownCell` and `StoreUnavailable`."""
    async with control.session() as session:
        cell = await session.get(KnownCell, name, with_for_update=True)
        if cell is None:
            raise UnknownCell(f"There is no cell {name}; `runtally cells add` adds one that CELL_URLS names.")
        action = "cell.opened" if is_open else "cell.drained"
        record(session, by, Change(action, name, before={"isOpen": cell.is_open}, after={"isOpen": is_open}))
        cell.is_open = is_open
