"""The places of projects, as a process knows them. A place never changes, so what is known is right for ever."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from runtally.clock import Clock
from runtally.db.connecting import OpenConnection
from runtally.db.database import Connection, Database
from runtally.directory import queries
from runtally.errors import AwaitedCell, NoOpenCell, SettingsError, WrongCell
from runtally.settings import MAIN, Settings


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
            self._ids = await queries.select_ids(connection)
            if await queries.count_places(connection) != len(self._places):
                self._places |= await queries.select_places(connection)

    def known(self, project_id: str) -> str | None:
        """Return the cell of a project, as far as this process knows."""
        return self._places.get(project_id)

    async def find(self, project_id: str) -> str | None:
        """Return the cell of a project; None if it has no runs yet. Raises `StoreUnavailable`."""
        if project_id not in self._places:
            async with self._control.connection() as connection:
                cell = await queries.select_place(connection, project_id)
            if cell is None:
                return None
            self._places[project_id] = cell
        return self._places[project_id]

    async def place(self, project_id: str) -> str:
        """Return the cell of a project, which may be new. Raises `NoOpenCell` and `StoreUnavailable`."""
        cell = await self.find(project_id)
        if cell is None:
            async with self._control.durable() as connection:
                await queries.insert_place(connection, project_id, self.names, self._clock())
            # Another process may have been quicker.
            cell = await self.find(project_id)
        if cell is None:
            raise NoOpenCell
        return cell

    def demand_identity(self, name: str, found: queries.Identity | None) -> None:
        """Raise `AwaitedCell` for a cell that was not added, and `WrongCell` unless this is what its database says."""
        known = self._ids.get(name)
        if known is None:
            raise AwaitedCell(f"Cell {name} was not added yet; its operator runs `runtally cells add {name}`.")
        if found is None or found.id != known:
            raise WrongCell(f"Cell {name}: {wrong_database(found)}")


@dataclass(frozen=True, slots=True)
class Membership:
    """Checks each new connection to the database of a cell."""

    name: str
    directory: Directory

    async def check(self, connection: OpenConnection) -> None:
        """Raise `WrongCell` where it is the database of another cell, or of none."""
        self.directory.demand_identity(self.name, await queries.select_identity(connection))


def wrong_database(found: queries.Identity | None) -> str:
    """Return what is wrong with a database that is not the cell that was asked for."""
    if found is None:
        return "its URL in CELL_URLS leads to a database that is no cell; correct it."
    return f"its URL in CELL_URLS leads to the database of another cell, called {found.name}; correct it."


async def refuse_cell(connection: Connection) -> None:
    """Raise `SettingsError` where the database of people and keys should be, and is that of a cell."""
    found = await queries.select_identity(connection)
    if found is not None and found.name != MAIN:
        raise SettingsError(
            f"DATABASE_URL leads to the database of the cell {found.name}, which has no people, keys and prices: correct it, and "
            "name the cell in CELL_URLS. Nothing was written."
        )


async def refuse_unnamed_cells(control: Database, settings: Settings) -> None:
    """Raise `SettingsError` where there are cells of which CELL_URLS has no URL. Raises `StoreUnavailable`."""
    async with control.connection() as connection:
        unnamed = sorted(set(await queries.select_ids(connection)) - {MAIN, *settings.cell_urls})
    if unnamed:
        raise SettingsError(
            f"CELL_URLS has no URL of the {'cell' if len(unnamed) == 1 else 'cells'} {', '.join(unnamed)}: set it as on the "
            "other servers. Nothing was written."
        )
