"""The base class of relays, which take runs off the queue once they are in the reporting table, and record failures.

A relay makes one pass at a time; `jobs` repeats it.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import ReceiverUnavailable
from runtally.reporting import outbox_queries as queries
from runtally.reporting.outbox_queries import Claim, Failure

MAX_ATTEMPTS: Final = 10
FIRST_PAUSE: Final = timedelta(seconds=5)
MAX_PAUSE: Final = timedelta(minutes=15)

log = structlog.get_logger()


@dataclass(slots=True)
class RelayResult:
    """The result of one pass."""

    delivered: int = 0
    failed: list[Failure] = field(default_factory=list)
    released: int = 0
    """Runs that were not tried: out of time, the receiver is down, or the relay is stopping."""

    receiver_failures: int = 0
    """Failures that are not the run's fault, because the receiver accepts none."""

    more: bool = False
    """Whether the queue may hold more runs that are due."""

    @property
    def receiver_down(self) -> bool:
        return self.receiver_failures > 0 and not self.delivered

    @property
    def taken(self) -> int:
        return self.delivered + len(self.failed) + self.released


class Relay(ABC):
    """Moves queued runs into the reporting table. Any number of relays, in any process, share the queue."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @property
    @abstractmethod
    def receiver(self) -> str:
        """The destination of runs, in words for the log."""

    @abstractmethod
    async def run_pass(self, stop: asyncio.Event | None = None) -> RelayResult:
        """Take some runs, deliver them, and record the results."""

    async def work(self, stop: asyncio.Event) -> bool:
        """Make one pass, and return whether there is more to do at once.

        Raises `ReceiverUnavailable` when the receiver accepts no runs, so that the pauses between passes grow; and
        `StoreUnavailable`.
        """
        done = await self.run_pass(stop)
        if done.receiver_down:
            raise ReceiverUnavailable(f"{self.receiver} did not take runs: {done.failed[-1].error}.")
        return done.more

    def _failure(self, claim: Claim, error: str) -> Failure:
        now = self._clock()
        pause = min(FIRST_PAUSE * 2**claim.attempts, MAX_PAUSE)
        # Spread the retries, so that runs that failed together are not tried together again.
        due_at = now + pause * random.uniform(0.5, 1.0)  # noqa: S311  # Chance, not a secret.
        is_last = claim.attempts + 1 >= MAX_ATTEMPTS
        return Failure(claim, due_at, now if is_last else None, error)

    async def _record_results(
        self, *, delivered: Sequence[Claim], failed: Sequence[Failure], released: Sequence[Claim]
    ) -> None:
        """Record the results of claimed runs in the queue."""
        async with self._database.connection() as connection:
            if delivered:
                await queries.delete_delivered(connection, delivered)
            if failed:
                await queries.update_failed(connection, failed)
            if released:
                await queries.update_released(connection, released, self._clock())
        parked = sum(failure.parked_at is not None for failure in failed)
        if parked:
            log.warning("runs_parked", runs=parked, last_error=failed[-1].error)
