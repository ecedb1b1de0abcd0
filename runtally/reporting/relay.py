"""The relay: takes runs off the queue and pushes them, each at least once. One pass is here; `jobs` repeats it."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import ReceiverUnavailable
from runtally.models.run import StoredRun
from runtally.reporting import outbox_queries as queries
from runtally.reporting.document import encode
from runtally.reporting.outbox_queries import Claim, Failure
from runtally.reporting.push import ANSWER_SECONDS, Fault, Pusher

BATCH: Final = 100
MAX_ATTEMPTS: Final = 10
FIRST_PAUSE: Final = timedelta(seconds=5)
MAX_PAUSE: Final = timedelta(minutes=15)
# No push begins later than this after its claim, so that every answer is in before the lease ends.
START_SECONDS: Final = 40.0
LEASE: Final = timedelta(seconds=START_SECONDS + 2 * ANSWER_SECONDS)

# A service that ends is first out of its own relay's reach, and tells the relay so a moment later.
END_SECONDS: Final = 0.5

log = structlog.get_logger()


@dataclass(slots=True)
class Pass:
    """What one pass did with the runs that it claimed."""

    delivered: list[Claim] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    released: list[Claim] = field(default_factory=list)
    """Not tried: for want of time, because nobody takes runs, or because the relay is to stop."""

    unwelcome: int = 0
    """How many of the failures say nothing of the run, because nobody takes any."""

    @property
    def is_futile(self) -> bool:
        return self.unwelcome > 0 and not self.delivered

    @property
    def claimed(self) -> int:
        return len(self.delivered) + len(self.failed) + len(self.released)

    @property
    def parked(self) -> int:
        return sum(failure.parked_at is not None for failure in self.failed)


class Relay:
    """Pushes queued runs. Any number of relays, here and elsewhere, share the queue."""

    def __init__(self, database: Database, pusher: Pusher, clock: Clock, concurrency: int) -> None:
        self._database = database
        self._pusher = pusher
        self._clock = clock
        self._concurrency = concurrency

    async def work(self, stop: asyncio.Event) -> bool:
        """One pass, and whether there is more to do at once.

        Raises `ReceiverUnavailable` when nobody takes runs, so that whoever repeats this waits longer and longer; and
        `StoreUnavailable`.
        """
        done = await self.run_pass(stop)
        if done.is_futile:
            raise ReceiverUnavailable(f"{self._pusher.receiver} did not take runs: {done.failed[-1].error}.")
        return done.claimed >= BATCH or bool(done.released)

    async def run_pass(self, stop: asyncio.Event | None = None) -> Pass:
        """Claim runs, push them, settle them. No transaction is open while a push is under way."""
        now = self._clock()
        async with self._database.connection() as connection:
            claims = await queries.claim(connection, now, now + LEASE, BATCH)
            runs = await queries.select_claimed(connection, claims) if claims else {}
        done = await self._push_all(claims, runs, stop or asyncio.Event())
        if claims:
            await self._settle(done)
        return done

    async def _push_all(
        self, claims: Sequence[Claim], runs: dict[tuple[str, str], tuple[StoredRun, str | None]], stop: asyncio.Event
    ) -> Pass:
        done = Pass()
        waiting = iter(claims)
        latest_start = asyncio.get_running_loop().time() + START_SECONDS

        async def push_some(claims: Iterator[Claim]) -> None:
            for claim in claims:
                # While nobody takes runs, few are tried: failures count against the run, not against the receiver.
                hopeless = done.is_futile and done.unwelcome >= self._concurrency
                if hopeless or stop.is_set() or asyncio.get_running_loop().time() > latest_start:
                    done.released.append(claim)
                    continue
                found = runs.get((claim.project_id, claim.run_id))
                # A run that was deleted has nothing to be pushed any more.
                refusal = await self._pusher.push(encode(*found)) if found else None
                if refusal is None:
                    done.delivered.append(claim)
                elif refusal.fault is Fault.UNREACHED and await _ends(stop):
                    done.released.append(claim)
                else:
                    done.failed.append(self._failure(claim, refusal.reason))
                    done.unwelcome += refusal.fault is not Fault.DOCUMENT

        # The workers draw from one iterator, so that a slow answer holds up nobody but itself.
        await asyncio.gather(*(push_some(waiting) for _ in range(min(self._concurrency, len(claims)))))
        return done

    def _failure(self, claim: Claim, error: str) -> Failure:
        now = self._clock()
        pause = min(FIRST_PAUSE * 2**claim.attempts, MAX_PAUSE)
        # Runs that failed together are not tried together again.
        due_at = now + pause * random.uniform(0.5, 1.0)  # noqa: S311  # Chance, not a secret.
        is_last = claim.attempts + 1 >= MAX_ATTEMPTS
        return Failure(claim, due_at, now if is_last else None, error)

    async def _settle(self, done: Pass) -> None:
        async with self._database.connection() as connection:
            if done.delivered:
                await queries.delete_delivered(connection, done.delivered)
            if done.failed:
                await queries.update_failed(connection, done.failed)
            if done.released:
                await queries.update_released(connection, done.released, self._clock())
        if done.parked:
            log.warning("runs_parked", runs=done.parked, last_error=done.failed[-1].error)


async def _ends(stop: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), END_SECONDS)
    return stop.is_set()
