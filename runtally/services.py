"""The long-lived objects of one process, opened and closed together. Web, command line and tests use them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from runtally.access.openid import OpenIdProvider
from runtally.alerts.channels.mail import Mailer
from runtally.alerts.evaluator import AlertEvaluator
from runtally.alerts.registry import Channels
from runtally.alerts.sender import AlertSender
from runtally.alerts.targets import TargetEditor
from runtally.archive.archive import Archive
from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.clock import Clock, system_clock
from runtally.db.database import Database, reporting_database
from runtally.db.replica import Reader
from runtally.experiments.shared import SharedVerdicts
from runtally.ingest.accept import Ingest
from runtally.ingest.writer import Writer
from runtally.jobs.loop import running
from runtally.jobs.registry import (
    evaluate_alerts_job,
    expire_alerts_job,
    expire_job,
    expire_limits_job,
    merge_dimensions_job,
    merge_job,
    names_job,
    otlp_clients_job,
    prices_job,
    relay_job,
    replica_job,
    repricing_job,
    retention_job,
    rules_job,
    send_alerts_job,
    tracked_keys_job,
    unpriced_job,
)
from runtally.limits.downloads import Downloads
from runtally.limits.limiter import Limiter
from runtally.names.live import LiveNames
from runtally.otlp.receive import Receiver
from runtally.pricing.book import LivePrices
from runtally.pricing.comparison import Comparison
from runtally.pricing.repricing.repricer import Repricer
from runtally.pricing.repricing.unpriced import UnpricedRuns
from runtally.privacy import ContentRule
from runtally.reporting.opening import opened_relay
from runtally.reporting.sync import ReportingSync
from runtally.retention.dropping import Dropper
from runtally.retention.rules import LiveRetention
from runtally.settings import RelayMode, Settings
from runtally.usage.colours import Colours
from runtally.usage.memo import DayMemo

# Connections to DATABASE_URL that one process opens, at most. Neither readers nor jobs, which may hold one for long, can take those
# that ingest needs.
INTAKE_CONNECTIONS = 4
JOB_CONNECTIONS = 3
PAGE_CONNECTIONS = 4
PAGE_SESSIONS = 4
# Taken for a page of runs each, and given back before that is sent.
DOWNLOAD_CONNECTIONS = 1
CONNECTIONS = INTAKE_CONNECTIONS + JOB_CONNECTIONS + PAGE_CONNECTIONS + PAGE_SESSIONS + DOWNLOAD_CONNECTIONS


@dataclass(frozen=True, slots=True)
class Services:
    """The composition root; no module below knows it."""

    settings: Settings
    database: Database
    """The database for pages and forms."""
    intake: Database
    """The database for requests that must be answered under any load: ingest, keys, limits, health."""
    reading: Reader
    """The database for data that may be a little late: metrics, pages without forms, files."""
    downloads: Downloads

    memo: DayMemo
    names: LiveNames
    """What runs of closed days came to."""
    colours: Colours
    """The colours of models and other values in charts."""
    prices: LivePrices
    comparison: Comparison
    archive: Archive | None
    """The archive of runs that are no longer in the database; None without one."""
    archived_runs: ArchivedRuns | None
    """These runs, for pages and files."""
    ingest: Ingest
    otlp: Receiver
    reporting: ReportingSync
    limiter: Limiter
    channels: Channels
    alert_targets: TargetEditor
    verdicts: SharedVerdicts
    openid: OpenIdProvider | None
    clock: Clock
    opened_at: datetime

    @property
    def archived_groups(self) -> ArchivedGroupReader | None:
        """What archived runs come to."""
        return ArchivedGroupReader(self.archived_runs) if self.archived_runs else None

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, settings: Settings, database_url: str, clock: Clock = system_clock
    ) -> AsyncIterator["Services"]:
        """Open everything. A database that is away is no error: prices are loaded once it answers."""
        openid = OpenIdProvider(settings.openid) if settings.openid else None
        redis_url = settings.rate_limit_redis_url.get_secret_value() if settings.rate_limit_redis_url else None
        async with (
            Database(database_url, connections=INTAKE_CONNECTIONS, sessions=0) as intake,
            Database(database_url, connections=JOB_CONNECTIONS, sessions=0) as working,
            Database(database_url, connections=PAGE_CONNECTIONS, sessions=PAGE_SESSIONS) as database,
            Database(database_url, connections=DOWNLOAD_CONNECTIONS, sessions=0) as downloading,
            Reader.opened(database, settings.read_database_url, downloading) as reading,
            reporting_database(settings.reporting_database_url, intake) as reporting,
            Limiter.opened(intake, redis_url) as limiter,
            _relaying(settings, working, working if reporting.is_same(working) else reporting, clock),
            # Without a secret no relay could push runs, and the queue would only grow.
            Writer.opened(intake, queued=bool(settings.service_sync_sign)) as writer,
            _alerting(settings, working, clock) as channels,
        ):
            prices = LivePrices(working)
            # A run that comes at once is priced; what is wrong is logged by the job, which tries again.
            with suppress(Exception):
                await prices.refresh()
            retention = LiveRetention(working, settings.retention_days)
            with suppress(Exception):
                await retention.refresh()
            names = LiveNames.of(settings, working)
            with suppress(Exception):
                await names.refresh()
            unpriced = UnpricedRuns(working, prices, clock, queued=bool(settings.service_sync_sign))
            repricer = Repricer(working, prices, clock, queued=bool(settings.service_sync_sign))
            ingest = Ingest(writer, prices, retention, names, settings, clock)
            otlp = Receiver(ingest, settings, clock)
            archive = Archive.of(settings, working, clock)
            jobs = [
                merge_job(working, clock),
                merge_dimensions_job(working, clock),
                tracked_keys_job(working, clock),
                expire_job(working, clock),
                prices_job(prices),
                unpriced_job(unpriced),
                repricing_job(repricer),
                rules_job(retention),
                names_job(names),
                otlp_clients_job(otlp.clients, working),
                retention_job(Dropper(working, settings.retention_days, clock, archive)),
                *([replica_job(reading)] if reading.has_replica else []),
            ]
            async with running(jobs if redis_url else [*jobs, expire_limits_job(working)]):
                yield cls(
                    settings=settings,
                    database=database,
                    intake=intake,
                    reading=reading,
                    downloads=Downloads(),
                    memo=DayMemo(settings.usage_memo_bytes),
                    names=names,
                    colours=Colours(intake, clock),
                    prices=prices,
                    comparison=Comparison(),
                    archive=archive,
                    archived_runs=ArchivedRuns.of(settings, database, clock),
                    ingest=ingest,
                    otlp=otlp,
                    reporting=ReportingSync(
                        reporting, ContentRule.of(settings.privacy_mode, settings.content_keys), clock
                    ),
                    limiter=limiter,
                    channels=channels,
                    alert_targets=TargetEditor(database, channels, clock),
                    verdicts=SharedVerdicts(database, clock),
                    openid=openid,
                    clock=clock,
                    opened_at=clock(),
                )


@asynccontextmanager
async def _alerting(settings: Settings, database: Database, clock: Clock) -> AsyncIterator[Channels]:
    """Evaluate and send alerts while the block runs. All processes do, and share the work."""
    async with Channels.opened(Mailer.of(settings), allow_private=settings.alerts_allow_private_addresses) as channels:
        evaluator = AlertEvaluator(database, clock, settings.public_url)
        sender = AlertSender(database, channels, clock)
        async with running(
            [evaluate_alerts_job(evaluator), send_alerts_job(sender), expire_alerts_job(database, clock)]
        ):
            yield channels


@asynccontextmanager
async def _relaying(settings: Settings, database: Database, reporting: Database, clock: Clock) -> AsyncIterator[None]:
    """Run the relay while the block runs, unless another process does or no runs are queued."""
    if settings.relay is RelayMode.OFF or not settings.service_sync_sign:
        yield
        return
    async with opened_relay(settings, database, reporting, clock) as relay, running([relay_job(relay)]):
        yield
