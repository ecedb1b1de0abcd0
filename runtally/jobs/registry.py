"""The background jobs of a process."""

import asyncio
from collections.abc import Awaitable, Callable

from runtally.access.erasures import Eraser
from runtally.alerts.evaluator import EXPIRED_AT_ONCE, AlertEvaluator, expire_alerts
from runtally.alerts.sender import AlertSender
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.db.probe import Watch
from runtally.db.replica import Reader
from runtally.directory.directory import Directory
from runtally.jobs.loop import Job
from runtally.limits.queries import delete_idle_keys
from runtally.names.live import LiveNames
from runtally.otlp.clients import ClientCounts
from runtally.pricing.book import LivePrices
from runtally.pricing.repricing.repricer import Repricer
from runtally.pricing.repricing.unpriced import UnpricedRuns
from runtally.reporting.relay import Relay
from runtally.retention.dropping import Dropper
from runtally.retention.rules import LiveRetention
from runtally.usage.upkeep import dimensions
from runtally.usage.upkeep import queries as upkeep

# A run is in the reporting table about this long after it was stored.
RELAY_SECONDS = 1.0
# With a longer pause more is merged at once, and more that waits is read.
MERGE_SECONDS = 1.0
# Short buckets are kept for days, alerts for months; an hour does not matter.
EXPIRE_SECONDS = 3600.0
# The page that a key was tracked on shows the progress.
KEYS_SECONDS = 2.0
# A changed price is used about this long after. After an outage the pause must not grow much longer.
PRICES_SECONDS = 1.0
PRICES_MAX_SECONDS = 5.0
EXPIRE_LIMITS_SECONDS = 60.0
# A changed rule is known to a process about this long after, well before anything is dropped by it.
RULES_SECONDS = 5.0
# A request that names a project looks it up itself; only a form that names another one waits for this.
DIRECTORY_SECONDS = 2.0
# Runs become due once a day. Runs that waited for the relay, and changed rules, should be handled sooner.
RETENTION_SECONDS = 300.0
EVALUATE_SECONDS = 60.0
# A person who sent a test waits for its result.
SEND_SECONDS = 2.0
REPLICA_SECONDS = 1.0
# A person who sets up an exporter looks at the page a moment later.
OTLP_CLIENTS_SECONDS = 5.0


def relay_job(relay: Relay) -> Job:
    return Job("relay", relay.work, RELAY_SECONDS)


def merge_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await upkeep.merge_waiting(database, clock()) >= upkeep.MERGED_AT_ONCE

    return _short("merge", work, MERGE_SECONDS)


def merge_dimensions_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        # Return False even if there is more: ingest needs the processor first.
        await dimensions.merge_dimensions(database, clock())
        return False

    return _short("merge dimensions", work, MERGE_SECONDS)


def tracked_keys_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await dimensions.change_key(database, clock())

    return _short("tracked keys", work, KEYS_SECONDS)


def expire_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await upkeep.expire_buckets(database, clock()) >= upkeep.EXPIRED_AT_ONCE

    return _short("expire buckets", work, EXPIRE_SECONDS, EXPIRE_SECONDS)


def expire_alerts_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await expire_alerts(database, clock()) >= EXPIRED_AT_ONCE

    return _short("expire alerts", work, EXPIRE_SECONDS, EXPIRE_SECONDS)


def prices_job(prices: LivePrices) -> Job:
    """Refresh the prices. While the database is unavailable, the last good book is used."""
    return _short("prices", prices.refresh, PRICES_SECONDS, PRICES_MAX_SECONDS)


def unpriced_job(unpriced: UnpricedRuns) -> Job:
    return _short("unpriced", unpriced.work, PRICES_SECONDS)


def repricing_job(repricer: Repricer) -> Job:
    return _short("repricing", repricer.work, PRICES_SECONDS)


def erasing_job(eraser: Eraser) -> Job:
    return _short("erasing", eraser.work, PRICES_SECONDS)


def evaluate_alerts_job(evaluator: AlertEvaluator) -> Job:
    """Evaluate alerts, about a minute after the runs that cause them."""
    return _short("evaluate alerts", evaluator.evaluate, EVALUATE_SECONDS)


def send_alerts_job(sender: AlertSender) -> Job:
    return _short("send alerts", sender.work, SEND_SECONDS)


def names_job(names: LiveNames) -> Job:
    async def work() -> bool:
        await names.refresh()
        return False

    return _short("names", work, RULES_SECONDS)


def rules_job(retention: LiveRetention) -> Job:
    return _short("retention rules", retention.refresh, RULES_SECONDS, RULES_SECONDS)


def replica_job(reading: Reader) -> Job:
    return _short("replica", reading.check, REPLICA_SECONDS, REPLICA_SECONDS)


def watch_job(watch: Watch) -> Job:
    """Check whether a cell answers, of several."""
    return _short("watch", watch.check, REPLICA_SECONDS, REPLICA_SECONDS)


def retention_job(dropper: Dropper) -> Job:
    return Job("retention", dropper.work, RETENTION_SECONDS, RETENTION_SECONDS)


def directory_job(directory: Directory) -> Job:
    return _short("directory", directory.refresh, DIRECTORY_SECONDS, DIRECTORY_SECONDS)


def otlp_clients_job(clients: ClientCounts, database: Database) -> Job:
    """Write counts of OTLP requests by client. Counts of the last seconds before a process ends are lost."""

    async def work() -> None:
        await clients.write(database)

    return _short("otlp clients", work, OTLP_CLIENTS_SECONDS)


def expire_limits_job(database: Database) -> Job:
    """Delete rate-limit keys that are idle."""

    async def work() -> None:
        async with database.connection() as connection:
            await delete_idle_keys(connection)

    return _short("expire limits", work, EXPIRE_LIMITS_SECONDS)


def _short(name: str, work: Callable[[], Awaitable[object]], *pauses: float) -> Job:
    """Return a job whose work is too short to be stopped early; True means that there is more to do at once."""

    async def once(_stop: asyncio.Event) -> bool:
        return await work() is True

    return Job(name, once, *pauses)
