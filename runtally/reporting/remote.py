"""The relay to another service's reporting table.

It pushes runs to SERVICE_SYNC_URL, each at least once, many in a request.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import islice
from typing import Any, Final

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import NotConfigured
from runtally.models.run import StoredRun
from runtally.privacy import ContentRule
from runtally.reporting import outbox_queries as queries
from runtally.reporting.direct import DirectRelay
from runtally.reporting.document import MAX_DOCUMENTS, encode
from runtally.reporting.outbox_queries import Claim, Failure
from runtally.reporting.push import ANSWER_SECONDS, Fault, Pusher, Refusal
from runtally.reporting.relay import Pass, Relay
from runtally.settings import Settings

BATCH: Final = 1_000
"""The most runs in one pass."""
# Documents in one request; their bytes stay below a server's default limit of a body.
DOCUMENTS: Final = min(250, MAX_DOCUMENTS)
BATCH_BYTES: Final = 1024 * 1024
# No push begins later than this after its claim, so that every answer arrives before the lease ends.
START_SECONDS: Final = 40.0
LEASE: Final = timedelta(seconds=START_SECONDS + 2 * ANSWER_SECONDS)

_Found = dict[tuple[str, str], tuple[StoredRun, str | None]]


class RemoteRelay(Relay):
    """Pushes queued runs to another service."""

    def __init__(
        self, database: Database, pusher: Pusher, clock: Clock, concurrency: int, *, batch: int = BATCH
    ) -> None:
        super().__init__(database, clock)
        self._batch = batch
        self._pusher = pusher
        self._concurrency = concurrency

    @property
    def receiver(self) -> str:
        return self._pusher.receiver

    async def run_pass(self, stop: asyncio.Event | None = None) -> Pass:
        """Claim runs, push them, and record the results. No transaction is open during a push."""
        now = self._clock()
        async with self._database.connection() as connection:
            claims = await queries.claim(connection, now, now + LEASE, self._batch)
            found = await queries.select_claimed(connection, claims) if claims else {}
        pushing = _Pushing(self._pusher, self._concurrency, stop or asyncio.Event(), self._failure)
        await pushing.push_all(claims, found)
        if claims:
            await self._record_results(delivered=pushing.delivered, failed=pushing.failed, released=pushing.released)
        return Pass(
            delivered=len(pushing.delivered),
            failed=pushing.failed,
            released=len(pushing.released),
            receiver_failures=pushing.receiver_failures,
            more=len(claims) >= self._batch or bool(pushing.released),
        )


class _Pushing:
    """The pushes of one pass and their results."""

    def __init__(
        self, pusher: Pusher, concurrency: int, stop: asyncio.Event, failure: Callable[[Claim, str], Failure]
    ) -> None:
        self.delivered: list[Claim] = []
        self.failed: list[Failure] = []
        self.released: list[Claim] = []
        self.receiver_failures = 0
        self._pusher = pusher
        self._concurrency = concurrency
        self._single = asyncio.Semaphore(concurrency)
        self._stop = stop
        self._failure = failure
        self._latest_start = asyncio.get_running_loop().time() + START_SECONDS

    async def push_all(self, claims: Sequence[Claim], found: _Found) -> None:
        # The workers share one iterator, so that a slow answer delays only itself.
        waiting = iter(claims)
        await self._together(self._push_some(waiting, found) for _ in claims[::DOCUMENTS])

    async def _push_some(self, waiting: Iterator[Claim], found: _Found) -> None:
        while claims := list(islice(waiting, DOCUMENTS)):
            live = [claim for claim in claims if claim[:2] in found]
            # A run that was deleted need not be pushed.
            self.delivered += (claim for claim in claims if claim[:2] not in found)
            if self._is_over:
                self.released += live
                continue
            documents = [(claim, encode(*found[claim[:2]])) for claim in live]
            for batch in _batches(documents):
                await self._push_batch(batch)

    async def _push_batch(self, documents: Sequence[tuple[Claim, bytes]]) -> None:
        """Push a batch in one request if the receiver takes batches, else one by one.

        One by one finds the document that breaks a batch.
        """
        if len(documents) > 1 and self._pusher.takes_batches and not self._is_over:
            refusals = await self._pusher.push_batch([document for _, document in documents])
            if refusals is not None:
                for (claim, _), refusal in zip(documents, refusals, strict=True):
                    self._record(claim, refusal)
                return
        waiting = iter(documents)
        await self._together(self._push_singly(waiting) for _ in documents)

    async def _together(self, workers: Iterable[Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*islice(workers, self._concurrency))

    async def _push_singly(self, waiting: Iterator[tuple[Claim, bytes]]) -> None:
        for claim, document in waiting:
            async with self._single:
                if self._is_over:
                    self.released.append(claim)
                else:
                    self._record(claim, await self._pusher.push(document))

    def _record(self, claim: Claim, refusal: Refusal | None) -> None:
        if refusal is None:
            self.delivered.append(claim)
            return
        self.failed.append(self._failure(claim, refusal.reason))
        self.receiver_failures += refusal.fault is not Fault.DOCUMENT

    @property
    def _is_over(self) -> bool:
        """Return whether to stop: time is up, or the receiver is down, in which case a failure would count against the run."""
        receiver_down = self.receiver_failures >= self._concurrency and not self.delivered
        return receiver_down or self._stop.is_set() or asyncio.get_running_loop().time() > self._latest_start


def _batches(documents: Iterable[tuple[Claim, bytes]]) -> Iterator[list[tuple[Claim, bytes]]]:
    """Group documents into batches of limited bytes."""
    batch: list[tuple[Claim, bytes]] = []
    size = 0
    for claim, document in documents:
        if batch and size + len(document) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((claim, document))
        size += len(document)
    if batch:
        yield batch


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
