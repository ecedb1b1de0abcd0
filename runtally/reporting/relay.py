"""What relays have in common: they take runs off the queue, each until it is in the reporting table, and settle failures.

One pass is done here; `jobs` repeats it.
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
class Pass:
    """What one pass did with the runs that it took."""

    delivered: int = 0
    failed: list[Failure] = field(default_factory=list)
    released: int = 0
    """Not tried: for want of time, because the receiver is down, or because the relay is to stop."""

    receiver_failures: int = 0
    """How many of the failures say nothing of the run, because the receiver takes none."""

    more: bool = False
    """Whether the queue may hold more that is due."""

    @property
    def receiver_down(self) -> bool:
        return self.receiver_failures > 0 and not self.delivered

    @property
    def taken(self) -> int:
        return self.delivered + len(self.failed) + self.released


class Relay(ABC):
    """Brings queued runs into the reporting table. Any number of relays, here and elsewhere, share the queue."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @property
    @abstractmethod
    def receiver(self) -> str:
        """Where runs are brought, in words for the log."""

    @abstractmethod
    async def run_pass(self, stop: asyncio.Event | None = None) -> Pass:
        """Take some runs, bring them there, settle what became of them."""

    async def work(self, stop: asyncio.Event) -> bool:
        """One pass, and whether there is more to do at once.

        Raises `ReceiverUnavailable` when the receiver takes no runs, so that the pauses before the next pass grow; and
        `StoreUnavailable`.
        """
        done = await self.run_pass(stop)
        if done.receiver_down:
            raise ReceiverUnavailable(f"{self.receiver} did not take runs: {done.failed[-1].error}.")
        return done.more

    def _failure(self, claim: Claim, error: str) -> Failure:
        now = self._clock()
        pause = min(FIRST_PAUSE * 2**claim.attempts, MAX_PAUSE)
        # Runs that failed together are not tried together again.
        due_at = now + pause * random.uniform(0.5, 1.0)  # noqa: S311  # Chance, not a secret.
        is_last = claim.attempts + 1 >= MAX_ATTEMPTS
        return Failure(claim, due_at, now if is_last else None, error)

    async def _settle(
        self, *, delivered: Sequence[Claim], failed: Sequence[Failure], released: Sequence[Claim]
    ) -> None:
        """Tell the queue what became of runs that were claimed."""
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
