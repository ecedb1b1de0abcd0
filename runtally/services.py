"""The long-lived objects of one process, opened and closed together. Web, command line and tests use them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.erasure import Places
from runtally.access.erasures import Eraser
from runtally.access.keys import KnownKeys
from runtally.access.openid import OpenIdProvider
from runtally.alerts.channels.mail import Mailer
from runtally.alerts.confirming import ConfirmationLinks
from runtally.alerts.registry import Channels
from runtally.cells.cell import Cell, Connections
from runtally.cells.cells import Cells
from runtally.clock import Clock, seconds_passed, system_clock
from runtally.db import pair
from runtally.db.database import Connection, Database
from runtally.directory import refuse_unnamed_cells
from runtally.errors import StoreUnavailable
from runtally.ingest.accept import Intake
from runtally.jobs import Job, expire_limits_job, job, running
from runtally.limits.downloads import Downloads
from runtally.limits.limiter import Limiter
from runtally.names import LiveNames
from runtally.otlp.receive import Receiver
from runtally.pricing.book import LivePrices
from runtally.pricing.catalogue import Comparison
from runtally.pricing.repricing.repricer import Repricer
from runtally.settings import Settings
from runtally.usage.colour_queries import Colours
from runtally.usage.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class Services:
    """The composition root; no module below knows it."""

    settings: Settings
    control: Connections
    """The database of people, keys and prices."""
    keys: KnownKeys
    """The project keys that send runs."""
    cells: Cells
    """The databases of projects."""
    downloads: Downloads
    colours: Colours
    """The colours of models and other values in charts."""
    prices: LivePrices
    comparison: Comparison
    limiter: Limiter
    channels: Channels
    openid: OpenIdProvider | None
    clock: Clock
    opened_after: float

    @property
    def uptime(self) -> timedelta:
        """Return how long they have been open, whatever the clock was set to meanwhile."""
        return timedelta(seconds=seconds_passed() - self.opened_after)

    def sessions_of(self, project_id: str | None) -> AbstractAsyncContextManager[tuple[AsyncSession, AsyncSession]]:
        """Open sessions of control and of a project's cell, which is committed first. Raises `StoreUnavailable`."""
        return pair.sessions(self.control.database, self._cell_of(project_id).database)

    def granting(self, project_id: str | None) -> AbstractAsyncContextManager[tuple[AsyncSession, AsyncSession]]:
        """Open sessions of a project's cell and of control, which is committed first. Raises `StoreUnavailable`."""
        return pair.sessions(self._cell_of(project_id).database, self.control.database)

    def _cell_of(self, project_id: str | None) -> Cell:
        return self.cells.at_hand if project_id is None else self.cells.of_owner(project_id)

    @asynccontextmanager
    async def open_control(self, snapshots: Snapshots) -> AsyncIterator[Connection]:
        """Open a connection to control in addition to those to cells: the same one where one of them is its database."""
        for snapshot in snapshots.every:
            if snapshot.database is not None and self.control.database.is_same(snapshot.database):
                yield snapshot.reads.connection
                return
        async with self.control.database.connection() as other:
            yield other

    def is_apart(self, project_id: str | None) -> bool:
        """Return whether a project is in another database than control; of all projects, whether all are."""
        return not any(self.control.database.is_same(cell.database) for cell in self.cells.of_all(project_id))

    @property
    def ingest(self) -> Intake:
        return self.cells.ingest

    @property
    def otlp(self) -> Receiver:
        return self.cells.otlp

    @property
    def names(self) -> LiveNames:
        return self.cells.at_hand.names

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, settings: Settings, database_url: str, clock: Clock = system_clock, *, cell_url: str | None = None
    ) -> AsyncIterator["Services"]:
        """Open everything. An unavailable database is no error: prices are loaded once it answers.

        The projects of the main cell are in the same database, or in that of `cell_url`. Raises `SettingsError` where
        CELL_URLS lacks a cell.
        """
        openid = OpenIdProvider(settings.openid) if settings.openid else None
        async with (
            Connections.opened(database_url) as control,
            _of_cell(control, cell_url) as connections,
            Limiter.opened(control.intake) as limiter,
            Channels.opened(
                Mailer.of(settings),
                ConfirmationLinks.of(settings),
                allow_private=settings.alerts_allow_private_addresses,
            ) as channels,
        ):
            prices = LivePrices(control.working)
            # A run that comes at once is priced; what is wrong is logged by the job, which tries again.
            with suppress(Exception):
                await prices.refresh()
            with suppress(StoreUnavailable):
                await refuse_unnamed_cells(control.working, settings)
            async with (
                Cells.opened(settings, control, connections, prices, channels, clock) as cells,
                running(_jobs(settings, control.working, cells, prices, clock)),
            ):
                yield cls(
                    settings=settings,
                    control=control,
                    keys=KnownKeys(control.intake, clock),
                    cells=cells,
                    downloads=Downloads(),
                    colours=Colours(control.intake, clock),
                    prices=prices,
                    comparison=Comparison(),
                    limiter=limiter,
                    channels=channels,
                    openid=openid,
                    clock=clock,
                    opened_after=seconds_passed(),
                )


def _jobs(settings: Settings, control: Database, cells: Cells, prices: LivePrices, clock: Clock) -> list[Job]:
    """Return what is done once, not for each cell."""
    repricer = Repricer(control, cells.databases, prices, clock, queued=bool(settings.service_sync_sign))
    eraser = Eraser(control, lambda: [(cell.name, _places(control, cell)) for cell in cells.every], clock)
    return [
        job("prices", prices.refresh),
        job("repricing", repricer.work),
        job("erasing", eraser.work),
        expire_limits_job(control),
    ]


def _places(control: Database, cell: Cell) -> Places:
    return Places(control, cell.working, cell.reporting.database, cell.archive)


@asynccontextmanager
async def _of_cell(control: Connections, cell_url: str | None) -> AsyncIterator[Connections]:
    """Open a database of projects; with None it is that of control."""
    if cell_url is None:
        yield control
        return
    async with Connections.opened(cell_url) as connections:
        yield connections
