"""The background jobs of a process."""

import asyncio
from collections.abc import Awaitable, Callable

from runtally.budgets.courier import Courier
from runtally.budgets.forgetting import FORGOTTEN_AT_ONCE, forget_alerts
from runtally.budgets.watch import Watch
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.jobs.loop import Job
from runtally.limits.queries import delete_idle
from runtally.pricing.book import LivePrices
from runtally.pricing.repricing import Repricer
from runtally.pricing.unpriced import UnpricedRuns
from runtally.reporting.relay import Relay
from runtally.retention.dropping import Dropper
from runtally.retention.rules import LiveRetention
from runtally.rollups import upkeep

# A run is in the reporting table about this long after it was stored.
RELAY_SECONDS = 1.0
# The longer, the more are folded at once, and the more are read that are not.
FOLD_SECONDS = 1.0
# Short buckets are kept for days, alerts for months; an hour more or less is nothing.
PRUNE_SECONDS = 3600.0
# A changed price counts about this long after; also after an outage, which must not make the pause much longer.
PRICES_SECONDS = 1.0
PRICES_MAX_SECONDS = 5.0
SWEEP_SECONDS = 60.0
# A rule that was changed holds about this long after, well before anything is dropped by it.
RULES_SECONDS = 5.0
# Days end once a day; what waited for the relay, and a rule that was changed, are seen to sooner.
RETENTION_SECONDS = 300.0
WATCH_SECONDS = 60.0
# Who sends a test waits for it.
COURIER_SECONDS = 2.0
REPLICA_SECONDS = 1.0


def relay_job(relay: Relay) -> Job:
    return Job("relay", relay.work, RELAY_SECONDS)


def fold_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await upkeep.fold(database, clock()) >= upkeep.FOLDED_AT_ONCE

    return _short("fold", work, FOLD_SECONDS)


def prune_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await upkeep.prune(database, clock()) >= upkeep.PRUNED_AT_ONCE

    return _short("prune", work, PRUNE_SECONDS, PRUNE_SECONDS)


def forget_alerts_job(database: Database, clock: Clock) -> Job:
    async def work() -> bool:
        return await forget_alerts(database, clock()) >= FORGOTTEN_AT_ONCE

    return _short("forget alerts", work, PRUNE_SECONDS, PRUNE_SECONDS)


def prices_job(prices: LivePrices) -> Job:
    """While the database is away, the last good book serves."""
    return _short("prices", prices.refresh, PRICES_SECONDS, PRICES_MAX_SECONDS)


def unpriced_job(unpriced: UnpricedRuns) -> Job:
    return _short("unpriced", unpriced.work, PRICES_SECONDS)


def repricing_job(repricer: Repricer) -> Job:
    return _short("repricing", repricer.work, PRICES_SECONDS)


def watch_job(watch: Watch) -> Job:
    """Runs are told of about a minute after they make a difference."""
    return _short("watch", watch.look, WATCH_SECONDS)


def courier_job(courier: Courier) -> Job:
    return _short("courier", courier.work, COURIER_SECONDS)


def rules_job(retention: LiveRetention) -> Job:
    return _short("retention rules", retention.refresh, RULES_SECONDS, RULES_SECONDS)


def replica_job(reading: Reader) -> Job:
    return _short("replica", reading.check, REPLICA_SECONDS, REPLICA_SECONDS)


def retention_job(dropper: Dropper) -> Job:
    return Job("retention", dropper.work, RETENTION_SECONDS, RETENTION_SECONDS)


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
