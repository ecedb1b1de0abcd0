"""The background jobs of a process."""

import asyncio

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.jobs.loop import Job
from runtally.reporting.relay import Relay
from runtally.rollups import upkeep

# A run is in the reporting table about this long after it was stored.
RELAY_SECONDS = 1.0
# Short buckets are kept for days; an hour more or less is nothing.
PRUNE_SECONDS = 3600.0


def relay_job(relay: Relay) -> Job:
    return Job("relay", relay.work, RELAY_SECONDS)


def prune_job(database: Database, clock: Clock) -> Job:
    async def work(_stop: asyncio.Event) -> bool:
        return await upkeep.prune(database, clock()) >= upkeep.PRUNED_AT_ONCE

    return Job("prune", work, PRUNE_SECONDS, max_pause_seconds=PRUNE_SECONDS)
