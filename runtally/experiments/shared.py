"""Verdicts for whoever asks, however many do: a README may be looked at by a thousand people at once."""

import asyncio

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.experiments.read import Question, public_verdict
from runtally.experiments.verdict import Verdict


class SharedVerdicts:
    """Never reads one question's runs twice at a time; one per process.

    Those who ask while an answer is being read share the next one. They can't share the one under way: it may not have seen
    runs that were acknowledged before they asked. So an answer is never older than its question, and nothing is kept.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._reading: dict[Question, asyncio.Task[Verdict | None]] = {}
        self._next: dict[Question, asyncio.Task[Verdict | None]] = {}

    async def verdict(self, question: Question) -> Verdict | None:
        """As `public_verdict`. Raises `StoreUnavailable`."""
        if question not in self._next:
            task = asyncio.create_task(self._read_after(self._reading.get(question), question))
            # An error is everybody's who waits; if nobody does any more it is nobody's.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._next[question] = task
        # A client that goes away takes the answer from nobody else.
        return await asyncio.shield(self._next[question])

    async def _read_after(self, previous: asyncio.Task[Verdict | None] | None, question: Question) -> Verdict | None:
        if previous:
            await asyncio.wait([previous])
        task = self._next.pop(question)
        self._reading[question] = task
        try:
            async with self._database.connection() as connection:
                return await public_verdict(connection, self._clock(), question)
        finally:
            if self._reading[question] is task:
                del self._reading[question]
