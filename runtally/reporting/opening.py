"""Open the relay: to SERVICE_SYNC_URL if that is set, else directly into the reporting table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import NotConfigured
from runtally.privacy import ContentRule
from runtally.reporting.direct import DirectRelay
from runtally.reporting.push import Pusher
from runtally.reporting.relay import Relay
from runtally.reporting.remote import RemoteRelay
from runtally.settings import Settings


@asynccontextmanager
async def opened_relay(
    settings: Settings, database: Database, reporting: Database, clock: Clock
) -> AsyncIterator[Relay]:
    """Open a relay of the runs in `database`; `reporting` has the reporting table of this service.

    Raises `NotConfigured` without SERVICE_SYNC_SIGN, as nothing is queued then.
    """
    if not settings.service_sync_sign:
        raise NotConfigured("Set SERVICE_SYNC_SIGN; without it no runs are queued for the reporting table.")
    if settings.service_sync_url:
        async with Pusher(settings) as pusher:
            yield RemoteRelay(database, pusher, clock, settings.relay_concurrency)
        return
    rule = ContentRule.of(settings.privacy_mode, settings.content_keys)
    yield DirectRelay(database, reporting, rule, clock)
