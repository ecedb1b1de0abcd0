"""Remember for a moment whose a project key is: one that sends run after run is not looked up for each of them."""

import hashlib
from collections.abc import Callable
from time import monotonic

from runtally.access.keys import verify
from runtally.audit import Actor
from runtally.clock import Clock
from runtally.db.database import Database

REMEMBERED_SECONDS = 0.9
"""With the look-up itself, a key that was revoked or expired is refused within a second, by every worker."""
MAX_REMEMBERED = 10_000


class KnownKeys:
    """The holders of keys that were looked up within `REMEMBERED_SECONDS`; one per process."""

    def __init__(self, database: Database, clock: Clock, seconds: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._clock = clock
        self._seconds = seconds
        self._holders: dict[bytes, tuple[Actor, float]] = {}

    async def holder_of(self, secret: str) -> Actor:
        """Return the holder of this key. Raises what `verify` does; a wrong key is looked up each time."""
        known = self.remembered(secret)
        if known is not None:
            return known
        digest, asked_at = _digest(secret), self._seconds()
        self._holders.pop(digest, None)
        async with self._database.connection() as connection:
            holder = await verify(connection, self._clock(), secret)
        if len(self._holders) >= MAX_REMEMBERED:
            self._holders.clear()
        # What is known is as old as the question.
        self._holders[digest] = holder, asked_at
        return holder

    def remembered(self, secret: str) -> Actor | None:
        """Return the holder of this key if it was looked up a moment ago, and else None."""
        holder, known_at = self._holders.get(_digest(secret), (None, 0.0))
        return holder if self._seconds() - known_at < REMEMBERED_SECONDS else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
