"""Everything long-lived of one process, opened and closed as one. What the web, the command line and tests are given."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from runtally.access.openid import OpenIdProvider
from runtally.budgets.courier import Courier
from runtally.budgets.mail import Mailer
from runtally.budgets.watch import Watch
from runtally.budgets.webhook import Webhooks
from runtally.clock import Clock, system_clock
from runtally.db.database import Database, reporting_database
from runtally.db.replica import Reader
from runtally.experiments.past import PastVerdicts
from runtally.experiments.shared import SharedVerdicts
from runtally.ingest.accept import Ingest
from runtally.ingest.writer import Writer
from runtally.jobs.loop import running
from runtally.jobs.registry import (
    courier_job,
    fold_job,
    forget_alerts_job,
    prices_job,
    prune_job,
    relay_job,
    replica_job,
    repricing_job,
    retention_job,
    rules_job,
    sweep_job,
    unpriced_job,
    watch_job,
)
from runtally.limits.limiter import Limiter
from runtally.metrics.past import Past
from runtally.pricing.book import LivePrices
from runtally.pricing.comparison import Comparison
from runtally.pricing.repricing import Repricer
from runtally.pricing.unpriced import UnpricedRuns
from runtally.reporting.push import Pusher
from runtally.reporting.relay import Relay
from runtally.reporting.sync import ReportingSync
from runtally.retention.dropping import Dropper
from runtally.retention.rules import LiveRetention
from runtally.settings import RelayMode, Settings


@dataclass(frozen=True, slots=True)
class Services:
    """The composition root; nothing below it knows it."""

    settings: Settings
    database: Database
    reading: Reader
    """For what may be a little late: metrics, pages without forms, files."""

    past: Past
    past_verdicts: PastVerdicts
    prices: LivePrices
    comparison: Comparison
    ingest: Ingest
    reporting: ReportingSync
    limiter: Limiter
    verdicts: SharedVerdicts
    openid: OpenIdProvider | None
    clock: Clock
    opened_at: datetime

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, settings: Settings, database_url: str, clock: Clock = system_clock
    ) -> AsyncIterator["Services"]:
        """Open everything; a database that is away is no error yet, the prices come when it does."""
        openid = OpenIdProvider(settings.openid) if settings.openid else None
        redis_url = settings.rate_limit_redis_url.get_secret_value() if settings.rate_limit_redis_url else None
        async with (
            Database(database_url) as database,
            Reader.opened(database, settings.read_database_url) as reading,
            reporting_database(settings.reporting_database_url, database) as reporting,
            Limiter.opened(database, redis_url) as limiter,
            _relaying(settings, database, clock),
            # Without a secret no relay could push them, and the queue would only grow.
            Writer.opened(database, queued=bool(settings.service_sync_sign)) as writer,
            _alerting(settings, database, clock),
        ):
            prices = LivePrices(database)
            # A run that comes at once is priced; what is wrong is logged by the job, which tries again.
            with suppress(Exception):
                await prices.refresh()
            retention = LiveRetention(database, settings.retention_days)
            with suppress(Exception):
                await retention.refresh()
            unpriced = UnpricedRuns(database, prices, clock, queued=bool(settings.service_sync_sign))
            repricer = Repricer(database, prices, clock, queued=bool(settings.service_sync_sign))
            jobs = [
                fold_job(database, clock),
                prune_job(database, clock),
                prices_job(prices),
                unpriced_job(unpriced),
                repricing_job(repricer),
                rules_job(retention),
                retention_job(Dropper(database, settings.retention_days, clock)),
                *([replica_job(reading)] if reading.has_replica else []),
            ]
            async with running(jobs if redis_url else [*jobs, sweep_job(database)]):
                yield cls(
                    settings=settings,
                    database=database,
                    reading=reading,
                    past=Past(),
                    past_verdicts=PastVerdicts(),
                    prices=prices,
                    comparison=Comparison(),
                    ingest=Ingest(writer, prices, retention, settings, clock),
                    reporting=ReportingSync(reporting, settings, clock),
                    limiter=limiter,
                    verdicts=SharedVerdicts(database, clock),
                    openid=openid,
                    clock=clock,
                    opened_at=clock(),
                )


@asynccontextmanager
async def _alerting(settings: Settings, database: Database, clock: Clock) -> AsyncIterator[None]:
    """Look for what there is to tell meanwhile, and tell it; every process does, and they share the work."""
    async with Webhooks(allow_private=settings.alerts_allow_private_addresses) as webhooks:
        watch = Watch(database, clock, settings.public_url)
        courier = Courier(database, webhooks, Mailer.of(settings), clock)
        async with running([watch_job(watch), courier_job(courier), forget_alerts_job(database, clock)]):
            yield


@asynccontextmanager
async def _relaying(settings: Settings, database: Database, clock: Clock) -> AsyncIterator[None]:
    """Push queued runs meanwhile, unless another process does or there is no secret to sign with."""
    if settings.relay is RelayMode.OFF or not settings.service_sync_sign:
        yield
        return
    async with Pusher(settings) as pusher:
        relay = Relay(database, pusher, clock, settings.relay_concurrency)
        async with running([relay_job(relay)]):
            yield
