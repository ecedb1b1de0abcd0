"""The background jobs of a process."""

import asyncio
from collections.abc import Awaitable, Callable

from runtally.alerts.evaluator import EXPIRED_AT_ONCE, AlertEvaluator, expire_alerts
from runtally.alerts.sender import AlertSender
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.jobs.loop import Job
from runtally.limits.queries import delete_idle
from runtally.otlp.clients import ClientCounts
from runtally.pricing.book import LivePrices
from runtally.pricing.repricing.repricer import Repricer
from runtally.pricing.repricing.unpriced import UnpricedRuns
from runtally.reporting.relay import Relay
from runtally.retention.dropping import Dropper
from runtally.retention.rules import LiveRetention
from runtally.usage.upkeep import dimensions, expiry, merge

# A run is in the reporting table about this long after it was stored.
RELAY_SECONDS = 1.0
# The longer, the more are merged at once, and the more are read that are not.
MERGE_SECONDS = 1.0
# Short buckets are kept for days, alerts for months; an hour more or less is nothing.
EXPIRE_SECONDS = 3600.0
# The page that a key was tracked on shows how far it is.
KEYS_SECONDS = 2.0
# A changed price counts about this long after; also after an outage, which must not make the pause much longer.
PRICES_SECONDS = 1.0
PRICES_MAX_SECONDS = 5.0
SWEEP_SECONDS = 60.0
# A rule that was changed holds about this long after, well before anything is dropped by it.
RULES_SECONDS = 5.0
# Days end once a day; what waited for the relay, and a rule that was changed, are seen to sooner.
RETENTION_SECONDS = 300.0
EVALUATE_SECONDS = 60.0
# The log of a test that was sent should not be waited for.
SEND_SECONDS = 2.0
REPLICA_SECONDS = 1.0
# Somebody who sets up an exporter looks a moment later.
OTLP_CLIENTS_SECONDS = 5.0


def relay_job(relay: Relay) -> Job:
    return Job("relay", relay.work, RELAY_SECONDS)


def merge_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await merge.merge_sketches(database, clock()) >= merge.MERGED_AT_ONCE

    return _short("merge", work, MERGE_SECONDS)


def merge_dimensions_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        # Never at once again: what ingest needs of the processor comes first.
        await dimensions.merge_dimensions(database, clock())
        return False

    return _short("merge dimensions", work, MERGE_SECONDS)


def tracked_keys_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await dimensions.change_key(database, clock())

    return _short("tracked keys", work, KEYS_SECONDS)


def expire_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await expiry.expire_buckets(database, clock()) >= expiry.EXPIRED_AT_ONCE

    return _short("expire buckets", work, EXPIRE_SECONDS, EXPIRE_SECONDS)


def expire_alerts_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await expire_alerts(database, clock()) >= EXPIRED_AT_ONCE

    return _short("expire alerts", work, EXPIRE_SECONDS, EXPIRE_SECONDS)


def prices_job(prices: LivePrices) -> Job:
    """While the database is away, the last good book serves."""
    return _short("prices", prices.refresh, PRICES_SECONDS, PRICES_MAX_SECONDS)


def unpriced_job(unpriced: UnpricedRuns) -> Job:
    return _short("unpriced", unpriced.work, PRICES_SECONDS)


def repricing_job(repricer: Repricer) -> Job:
    return _short("repricing", repricer.work, PRICES_SECONDS)


def evaluate_alerts_job(evaluator: AlertEvaluator) -> Job:
    """Evaluate alerts about a minute after the runs that make a difference."""
    return _short("evaluate alerts", evaluator.evaluate, EVALUATE_SECONDS)


def send_alerts_job(sender: AlertSender) -> Job:
    return _short("send alerts", sender.work, SEND_SECONDS)


def rules_job(retention: LiveRetention) -> Job:
    return _short("retention rules", retention.refresh, RULES_SECONDS, RULES_SECONDS)


def replica_job(reading: Reader) -> Job:
    return _short("replica", reading.check, REPLICA_SECONDS, REPLICA_SECONDS)


def retention_job(dropper: Dropper) -> Job:
    return Job("retention", dropper.work, RETENTION_SECONDS, RETENTION_SECONDS)


def otlp_clients_job(clients: ClientCounts, database: Database) -> Job:
    """Write down who sent what by OTLP. What came in the seconds before the end is not told of."""

    async def work() -> None:
        await clients.write(database)

    return _short("otlp clients", work, OTLP_CLIENTS_SECONDS)


def sweep_job(database: Database) -> Job:
    """Forget idle keys of the rate limits."""

    async def work() -> None:
        async with database.connection() as connection:
            await delete_idle(connection)

    return _short("sweep", work, SWEEP_SECONDS)


def _short(name: str, work: Callable[[], Awaitable[object]], *pauses: float) -> Job:
    """Of work that need not be told to stop; True says that there is more to do at once."""

    async def once(_stop: asyncio.Event) -> bool:
        return await work() is True

    return Job(name, once, *pauses)
