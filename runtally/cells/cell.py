"""A cell: a database that holds projects with all their data, and what a process keeps and does for it.

Control has what is there once: people, keys and prices. In a small installation one database is both, over the same
connections.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Self

from runtally.alerts.evaluator import AlertEvaluator
from runtally.alerts.registry import Channels
from runtally.alerts.sender import AlertSender
from runtally.alerts.targets import TargetEditor
from runtally.archive.archive import Archive
from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.clock import Clock, ClockWatch
from runtally.db.database import Database, reporting_database
from runtally.db.probe import Watch
from runtally.db.replica import Reader
from runtally.directory import Membership
from runtally.experiments.shared import SharedVerdicts
from runtally.ingest.accept import Ingest
from runtally.ingest.writer import Writer
from runtally.jobs import chores, deleting, job, long_job, running
from runtally.names import LiveNames
from runtally.otlp.clients import ClientCounts
from runtally.otlp.receive import Receiver
from runtally.pricing.book import LivePrices
from runtally.pricing.repricing.recost import UnpricedRuns
from runtally.privacy import ContentRule
from runtally.reporting.remote import opened_relay
from runtally.reporting.sync import ReportingSync
from runtally.retention import Dropper, LiveRetention
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

    @property
    def every(self) -> Sequence[Database]:
        return (self.database, self.intake, self.working, self.downloading)

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
    def name(self) -> str:
        return self.database.cell or MAIN

    @property
    def archived_groups(self) -> ArchivedGroupReader | None:
        """Sums of archived runs."""
        return ArchivedGroupReader(self.archived_runs) if self.archived_runs else None

    @classmethod
    @asynccontextmanager
    async def opened(  # noqa: PLR0913, PLR0917  # What every cell needs.
        cls,
        settings: Settings,
        connections: Connections,
        prices: LivePrices,
        channels: Channels,
        clock: Clock,
        further: Sequence[Watch] = (),
        control: Database | None = None,
    ) -> AsyncIterator[Self]:
        """Open what a process keeps for a cell, and do its jobs while the block runs. One that is unavailable is no error.

        The projects of further cells count for its alerts over all projects; the keys are in `control`.
        """
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
            watch = ClockWatch(clock)
            dropper = Dropper(working, settings.retention_days, clock, archive)
            jobs = [
                *chores(working, clock, watch),
                job("unpriced", unpriced.work),
                job("retention rules", retention.refresh),
                job("names", names.refresh),
                job("otlp clients", partial(clients.write, working)),
                deleting(long_job("retention", dropper.work), watch),
                job(
                    "evaluate alerts",
                    AlertEvaluator(working, clock, settings.public_url, further, names, control).evaluate,
                ),
                job("send alerts", AlertSender(working, channels, clock).work),
                *([job("replica", reading.check)] if reading.has_replica else []),
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


@asynccontextmanager
async def _relaying(settings: Settings, database: Database, reporting: Database, clock: Clock) -> AsyncIterator[None]:
    """Run the relay while the block runs, unless another process does or no runs are queued."""
    if settings.relay is RelayMode.OFF or not settings.service_sync_sign:
        yield
        return
    async with opened_relay(settings, database, reporting, clock) as relay, running([long_job("relay", relay.work)]):
        yield
