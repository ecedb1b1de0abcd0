"""A cell: a database that holds projects with all their data, and what a process keeps and does for it.

Control has what is there once: people, keys and prices. In a small installation one database is both, over the same
connections.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

from runtally.alerts.evaluator import AlertEvaluator
from runtally.alerts.registry import Channels
from runtally.alerts.sender import AlertSender
from runtally.alerts.targets import TargetEditor
from runtally.archive.archive import Archive
from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.clock import Clock
from runtally.db.database import Database, reporting_database
from runtally.db.replica import Reader
from runtally.directory.directory import Directory, Membership
from runtally.errors import CellRequired, StoreUnavailable, UnknownCell
from runtally.experiments.shared import SharedVerdicts, Verdicts, VerdictsOfSeveral
from runtally.ingest.accept import Ingest, Intake
from runtally.ingest.routed import RoutedIngest
from runtally.ingest.writer import Writer
from runtally.jobs.loop import running
from runtally.jobs.registry import (
    directory_job,
    evaluate_alerts_job,
    expire_alerts_job,
    expire_job,
    merge_dimensions_job,
    merge_job,
    names_job,
    otlp_clients_job,
    relay_job,
    replica_job,
    retention_job,
    rules_job,
    send_alerts_job,
    tracked_keys_job,
    unpriced_job,
)
from runtally.names.live import LiveNames
from runtally.otlp.clients import ClientCounts, Tally
from runtally.otlp.receive import Receiver
from runtally.pricing.book import LivePrices
from runtally.pricing.repricing.unpriced import UnpricedRuns
from runtally.privacy import ContentRule
from runtally.reporting.opening import opened_relay
from runtally.reporting.sync import ReportingSync
from runtally.retention.dropping import Dropper
from runtally.retention.rules import LiveRetention
from runtally.settings import MAIN, RelayMode, Settings
from runtally.usage.memo import DayMemo

# Connections to one database that one process opens, at most. Neither readers nor jobs, which may hold one for long, can take
# those that ingest needs.
INTAKE_CONNECTIONS = 4
JOB_CONNECTIONS = 3
PAGE_CONNECTIONS = 4
PAGE_SESSIONS = 4
# Taken for a page of runs each, and given back before that is sent.
DOWNLOAD_CONNECTIONS = 1
CONNECTIONS = INTAKE_CONNECTIONS + JOB_CONNECTIONS + PAGE_CONNECTIONS + PAGE_SESSIONS + DOWNLOAD_CONNECTIONS


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections of one process to one database."""

    database: Database
    """The database for pages and forms."""
    intake: Database
    """The database for requests that must be answered under any load: ingest, keys, limits, health."""
    working: Database
    """The database for jobs."""
    downloading: Database

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str, membership: Membership | None = None) -> AsyncIterator[Self]:
        async with (
            Database(url, connections=INTAKE_CONNECTIONS, sessions=0, membership=membership) as intake,
            Database(url, connections=JOB_CONNECTIONS, sessions=0, membership=membership) as working,
            Database(url, connections=PAGE_CONNECTIONS, sessions=PAGE_SESSIONS, membership=membership) as database,
            Database(url, connections=DOWNLOAD_CONNECTIONS, sessions=0, membership=membership) as downloading,
        ):
            yield cls(database, intake, working, downloading)


@dataclass(frozen=True, slots=True)
class Cell:
    """A database that holds projects."""

    database: Database
    """The database for pages and forms."""
    intake: Database
    """The database for requests that must be answered under any load."""
    working: Database
    """The database for jobs."""
    reading: Reader
    """The database for data that may be a little late: metrics, pages without forms, files."""
    memo: DayMemo
    """Answers about closed days."""
    names: LiveNames
    archive: Archive | None
    """The archive of runs that are no longer in the database; None without one."""
    archived_runs: ArchivedRuns | None
    """These runs, for pages and files."""
    ingest: Ingest
    otlp: Receiver
    clients: ClientCounts
    """The OTLP clients that sent runs of its projects."""
    reporting: ReportingSync
    alert_targets: TargetEditor
    verdicts: SharedVerdicts

    @property
    def archived_groups(self) -> ArchivedGroupReader | None:
        """Sums of archived runs."""
        return ArchivedGroupReader(self.archived_runs) if self.archived_runs else None

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, settings: Settings, connections: Connections, prices: LivePrices, channels: Channels, clock: Clock
    ) -> AsyncIterator[Self]:
        """Open what a process keeps for a cell, and do its jobs while the block runs. One that is unavailable is no error."""
        database, intake, working = connections.database, connections.intake, connections.working
        async with (
            Reader.opened(database, settings.read_database_url, connections.downloading) as reading,
            reporting_database(settings.reporting_database_url, intake) as reporting,
            _relaying(settings, working, working if reporting.is_same(working) else reporting, clock),
            # Without a secret no relay could push runs, and the queue would only grow.
            Writer.opened(intake, queued=bool(settings.service_sync_sign)) as writer,
        ):
            retention = LiveRetention(working, settings.retention_days)
            names = LiveNames.of(settings, working)
            # An unavailable one is tried once here; their jobs try again.
            with suppress(Exception):
                await retention.refresh()
                await names.refresh()
            unpriced = UnpricedRuns(working, prices, clock, queued=bool(settings.service_sync_sign))
            ingest = Ingest(writer, prices, retention, names, settings, clock)
            clients = ClientCounts(clock)
            archive = Archive.of(settings, working, clock)
            jobs = [
                merge_job(working, clock),
                merge_dimensions_job(working, clock),
                tracked_keys_job(working, clock),
                expire_job(working, clock),
                unpriced_job(unpriced),
                rules_job(retention),
                names_job(names),
                otlp_clients_job(clients, working),
                retention_job(Dropper(working, settings.retention_days, clock, archive)),
                evaluate_alerts_job(AlertEvaluator(working, clock, settings.public_url)),
                send_alerts_job(AlertSender(working, channels, clock)),
                expire_alerts_job(working, clock),
                *([replica_job(reading)] if reading.has_replica else []),
            ]
            async with running(jobs):
                yield cls(
                    database=database,
                    intake=intake,
                    working=working,
                    reading=reading,
                    memo=DayMemo(settings.usage_memo_bytes),
                    names=names,
                    archive=archive,
                    archived_runs=ArchivedRuns.of(settings, database, clock),
                    ingest=ingest,
                    otlp=Receiver(ingest, settings, clients),
                    clients=clients,
                    reporting=ReportingSync(
                        reporting, ContentRule.of(settings.privacy_mode, settings.content_keys), clock
                    ),
                    alert_targets=TargetEditor(database, channels, clock),
                    verdicts=SharedVerdicts(database, clock),
                )


_chosen: ContextVar[str | None] = ContextVar("cell", default=None)


def choose(name: str | None) -> None:
    """Let what is asked about all projects be about those of this cell for the rest of this request; None demands a project."""
    _chosen.set(name)


def chosen() -> str | None:
    """Return the cell that was chosen for this request."""
    return _chosen.get()


class Cells:
    """The cells of an installation, by name: one, or several and a directory of their projects."""

    def __init__(self, cells: Mapping[str, Cell], directory: Directory | None, settings: Settings) -> None:
        self._cells = cells
        self.main = cells[MAIN]
        """The one in the database of control."""
        self.directory = directory
        """Where each project is; None for one cell."""
        self.ingest: Intake = self.main.ingest
        """Takes runs of any project."""
        self.otlp = self.main.otlp
        self.verdicts: Verdicts = self.main.verdicts
        if directory is not None:
            self.verdicts = VerdictsOfSeveral([cell.verdicts for cell in cells.values()])
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

    def of(self, project_id: str | None) -> Cell:
        """Return the cell of a project; with None the one that was chosen for this request.

        A project that has no runs is in any. Raises `CellRequired` where no cell was chosen, and `StoreUnavailable`.
        """
        if self.directory is None:
            return self.main
        if project_id is not None:
            return self.named(self.directory.known(project_id) or _chosen.get() or MAIN)
        name = _chosen.get()
        if name is None:
            names = ", ".join(self._cells)
            raise CellRequired(f"There are several cells: name a project, or one of {names} with cell=<name>.")
        return self.named(name)

    @property
    def at_hand(self) -> Cell:
        """The cell that was chosen for this request, or else the main one: for what is the same in each, or not asked for."""
        return self.named(_chosen.get() or MAIN)

    def of_all(self, project_id: str | None) -> Sequence[Cell]:
        """Return the cell of a project or the one that was chosen; else all, of which a sum is to be made."""
        if self.directory is None or project_id is not None or _chosen.get() is not None:
            return (self.of(project_id),)
        return self.every

    async def choose_for(self, project_id: str | None, named: str | None, otherwise: str | None) -> None:
        """Choose the cell of a request: that of its project, the one that it names, or another.

        Raises `UnknownCell` and `StoreUnavailable`.
        """
        if self.directory is None:
            return
        if named is not None and named not in self._cells:
            raise UnknownCell(f"There is no such cell; there are {', '.join(self._cells)}.")
        if project_id is not None:
            choose(await self.directory.find(project_id) or named or otherwise or MAIN)
        else:
            choose(named or otherwise)

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
            cells = {MAIN: await opened.enter_async_context(Cell.opened(settings, main, prices, channels, clock))}
            if not settings.cell_urls:
                yield cls(cells, None, settings)
                return
            directory = Directory(control.working, settings.cell_urls, clock)
            with suppress(Exception):
                await directory.refresh()
            for name, url in settings.cell_urls.items():
                connections = await opened.enter_async_context(Connections.opened(url, Membership(name, directory)))
                cell = Cell.opened(settings_of(name, settings), connections, prices, channels, clock)
                cells[name] = await opened.enter_async_context(cell)
            await opened.enter_async_context(running([directory_job(directory)]))
            yield cls(cells, directory, settings)


def settings_of(name: str, settings: Settings) -> Settings:
    """Return the settings of a further cell: it has an archive of its own below that of main, and no replica."""
    archive_url = f"{settings.archive_url.rstrip('/')}/cells/{name}" if settings.archive_url else None
    return settings.model_copy(update={"archive_url": archive_url, "read_database_url": None})


@asynccontextmanager
async def _relaying(settings: Settings, database: Database, reporting: Database, clock: Clock) -> AsyncIterator[None]:
    """Run the relay while the block runs, unless another process does or no runs are queued."""
    if settings.relay is RelayMode.OFF or not settings.service_sync_sign:
        yield
        return
    async with opened_relay(settings, database, reporting, clock) as relay, running([relay_job(relay)]):
        yield
