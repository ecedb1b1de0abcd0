"""The cells of an installation: one, or several and a directory of their projects."""

from asyncio import gather
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn, Self, TypeVar

from runtally.alerts.registry import Channels
from runtally.cells.cell import Cell, Connections
from runtally.cells.request import AskedCells, asked, use
from runtally.clock import Clock
from runtally.db.combined import CombinedReads, gathered
from runtally.db.database import Connection, Database
from runtally.db.probe import Watch
from runtally.directory import Directory, Membership
from runtally.errors import CellRequired, StoreUnavailable, UnknownCell
from runtally.experiments.shared import Verdicts
from runtally.fields import is_of_several
from runtally.ingest.accept import Intake
from runtally.ingest.routed import RoutedIngest
from runtally.jobs import job, running
from runtally.otlp.clients import Tally
from runtally.otlp.receive import Receiver
from runtally.pricing.book import LivePrices
from runtally.runs.archived import RunSource, RunSources
from runtally.settings import MAIN, Settings
from runtally.usage.overview.project_queries import select_listed
from runtally.usage.report import ListedProject
from runtally.usage.snapshots import Snapshot, Snapshots

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class CellSnapshot(Snapshot):
    """A snapshot of a cell."""

    cell: Cell = field(kw_only=True)


class CellSnapshots(Snapshots):
    """Snapshots of the cell of a project, or of all cells that answer."""

    every: tuple[CellSnapshot, ...]

    @property
    def run_sources(self) -> RunSources:
        return [RunSource(snapshot.reads.connection, snapshot.cell.archived_runs) for snapshot in self.every]


class Cells:
    """The cells of an installation, by name: one, or several and a directory of their projects."""

    def __init__(
        self,
        cells: Mapping[str, Cell],
        directory: Directory | None,
        settings: Settings,
        watches: Mapping[str, Watch] = MappingProxyType({}),
    ) -> None:
        self._cells = cells
        self._watches = watches
        self.main = cells[MAIN]
        """The one in the database of control."""
        self.directory = directory
        """Where each project is; None for one cell."""
        self.ingest: Intake = self.main.ingest
        """Takes runs of any project."""
        self.otlp = self.main.otlp
        self.verdicts = Verdicts([cell.verdicts for cell in cells.values()])
        if directory is not None:
            self.ingest = RoutedIngest(self._place_of)
            self.otlp = Receiver(self.ingest, settings, self)

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._cells)

    @property
    def every(self) -> Sequence[Cell]:
        return tuple(self._cells.values())

    def named(self, name: str) -> Cell:
        """Return the cell of this name. Raises `StoreUnavailable` where this process has no URL of it."""
        cell = self._cells.get(name)
        if cell is None:
            raise StoreUnavailable(
                f"This server has no URL of cell {name}; its operator sets CELL_URLS and restarts it."
            )
        return cell

    def for_project(self, project_id: str | None) -> Cell:
        """Return the cell of a project, which is in any until it has runs; with None the one that the request names.

        Raises `CellRequired` where it names none, and `StoreUnavailable`.
        """
        if self.directory is None:
            return self.main
        if project_id is not None:
            return self.named(self.directory.known(project_id) or self.at_hand.name)
        if asked().named is None:
            names = ", ".join(self._cells)
            raise CellRequired(f"There are several cells: name a project, or one of {names} with cell=<name>.")
        return self.at_hand

    def of_owner(self, owner: str) -> Cell:
        """Return the cell with the budgets and alerts of a project; those of a team, and with a blank id of all, are in main."""
        return self.main if is_of_several(owner) else self.for_project(owner)

    @property
    def at_hand(self) -> Cell:
        """The cell of the request's project, or the one that it names, or else the main one."""
        return self.named(asked().of_project or asked().named or MAIN)

    def of_all(self, project_id: str | None) -> Sequence[Cell]:
        """Return the cell of a project; for all projects every cell, or the one that the request names."""
        if self.directory is None or project_id is not None or asked().named is not None:
            return (self.for_project(project_id),)
        return self.every

    @asynccontextmanager
    async def snapshots(self, project_id: str | None, *, is_current: bool = False) -> AsyncIterator[CellSnapshots]:
        """Open a snapshot of the cell of a project; for all projects one of each cell that answers.

        The others are `missing`. A current one is not of a replica. Raises `StoreUnavailable` where none answers.
        """
        async with AsyncExitStack() as stack:

            async def opened(cell: Cell) -> CellSnapshot:
                database = cell.database if is_current else cell.reading
                connection = await stack.enter_async_context(database.snapshot())
                return CellSnapshot(
                    CombinedReads.over(connection), cell.memo, cell.archived_groups, cell.database, cell=cell
                )

            # In one order, so that no two pages wait for a connection of each other. That of main is held for the shortest time.
            *further, main = reversed(self.of_all(project_id))
            found: list[CellSnapshot] = [one for cell in further for one in await self._answer_of(cell, opened(cell))]
            found += await self._answer_of(main, opened(main), is_only=not further)
            yield CellSnapshots(found[::-1] or _none_answers())

    async def ask_each(self, ask: Callable[[Cell], Coroutine[Any, Any, A]]) -> list[A]:
        """Ask each cell that answers, at the same time.

        The others are `missing`. Raises `StoreUnavailable` where none answers.
        """
        first, *others = self.of_all(None)
        if not others:
            return [await ask(first)]
        found = await gathered(self._answer_of(cell, ask(cell)) for cell in (first, *others))
        return [answer for one in found for answer in one] or _none_answers()

    async def list_projects(self, project_ids: Sequence[str] | None = None) -> tuple[ListedProject, ...]:
        """List these projects, or those of all cells, by name, hidden ones included."""

        async def of_cell(cell: Cell) -> tuple[ListedProject, ...]:
            async with cell.database.connection() as connection:
                return await select_listed(connection, project_ids)

        found = await self.ask_each(of_cell)
        return tuple(sorted((one for of_one in found for one in of_one), key=lambda one: (one.name, one.id)))

    @asynccontextmanager
    async def intake_of(self, name: str) -> AsyncIterator[Connection]:
        """Open a connection to the cell of this name, unless it is known to be away. Raises `StoreUnavailable`."""
        async with AsyncExitStack() as stack:
            if name in self._watches:
                async with self._watches[name].opening():
                    connection = await stack.enter_async_context(self.named(name).intake.connection())
            else:
                connection = await stack.enter_async_context(self.named(name).intake.connection())
            yield connection

    async def _answer_of(self, cell: Cell, asking: Coroutine[Any, Any, A], *, is_only: bool = False) -> Sequence[A]:
        """Return the answer of a cell; nothing, which the request notes, if it is one of several and away.

        Raises `StoreUnavailable` where it is only too busy: its part of a sum must not be missing.
        """
        if is_only:
            return (await asking,)
        watch = self._watches[cell.name]
        try:
            async with watch.opening():
                return (await asking,)
        except StoreUnavailable:
            if not await watch.is_away():
                raise
            asked().missing.add(cell.name)
            return ()
        finally:
            asking.close()

    async def choose(self, project_id: str | None, named: str | None) -> None:
        """Choose the cells of a request by its project and the cell that it names. Raises `UnknownCell` and `StoreUnavailable`."""
        if self.directory is None:
            return
        if named is not None and named not in self._cells:
            raise UnknownCell(f"There is no such cell; there are {', '.join(self._cells)}.")
        use(AskedCells(named, None if project_id is None else await self.directory.find(project_id)))

    def databases(self, project_id: str | None) -> Sequence[Database]:
        """Return the databases for jobs: that of a project's cell and those of the cells after it; with None all."""
        every = [cell.working for cell in self.every]
        if project_id is None or self.directory is None:
            return every
        return every[self.names.index(self.directory.known(project_id) or MAIN) :]

    def add(self, project_id: str, service: object, exporter: str, signal: str, tally: Tally) -> None:
        """Count the request of an OTLP client in the cell of its project."""
        name = self.directory.known(project_id) if self.directory is not None else None
        self.named(name or MAIN).clients.add(project_id, service, exporter, signal, tally)

    async def _place_of(self, project_id: str) -> tuple[str, Intake]:
        assert self.directory is not None  # noqa: S101  # One cell has no need of this.
        name = await self.directory.place(project_id)
        return name, self.named(name).ingest

    @classmethod
    @asynccontextmanager
    async def opened(  # noqa: PLR0913, PLR0917  # What every cell needs.
        cls,
        settings: Settings,
        control: Connections,
        main: Connections,
        prices: LivePrices,
        channels: Channels,
        clock: Clock,
    ) -> AsyncIterator[Self]:
        """Open the cells of the settings, and do their jobs while the block runs. One that is unavailable is no error."""
        async with AsyncExitStack() as opened:
            directory = Directory(control.working, settings.cell_urls, clock)
            of_cells = {MAIN: main}
            for name, url in settings.cell_urls.items():
                membership = Membership(name, directory)
                of_cells[name] = await opened.enter_async_context(Connections.opened(url, membership))
            watches = {name: Watch(cell.intake, cell.working, cell.every) for name, cell in of_cells.items()}
            for watch in watches.values():
                opened.callback(watch.close)
            further = [watch for name, watch in watches.items() if name != MAIN]
            if not further:
                cell = await opened.enter_async_context(
                    Cell.opened(settings, main, prices, channels, clock, (), control.working)
                )
                yield cls({MAIN: cell}, None, settings)
                return
            with suppress(Exception):
                await directory.refresh()
            # Then the opening of a cell that is away does not wait for it; the jobs check again, and log what is wrong.
            await gather(*(watch.check() for watch in watches.values()), return_exceptions=True)
            cells = dict[str, Cell]()
            for name, connections in of_cells.items():
                # Budgets and alerts over all projects are in main.
                own, others = (settings, further) if name == MAIN else (settings_of(name, settings), ())
                opening = Cell.opened(own, connections, prices, channels, clock, others, control.working)
                cells[name] = await opened.enter_async_context(opening)
            jobs = [job("directory", directory.refresh), *(job("watch", watch.check) for watch in watches.values())]
            await opened.enter_async_context(running(jobs))
            yield cls(cells, directory, settings, watches)


def _none_answers() -> NoReturn:
    raise StoreUnavailable


def settings_of(name: str, settings: Settings) -> Settings:
    """Return the settings of a further cell: it has an archive of its own below that of main, and no replica."""
    # Directly below, because a folder is made only where the one above it is there.
    archive_url = f"{settings.archive_url.rstrip('/')}/cell-{name}" if settings.archive_url else None
    return settings.model_copy(update={"archive_url": archive_url, "read_database_url": None})
