"""Group commit: runs that arrive while one flush is under way are flushed together in the next one.

There is no timer: a lone request is flushed at once, and the busier the service, the larger the flushes. A process has
one flush under way at a time, which leaves the processor to decoding meanwhile.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Self

from runtally.db.batcher import StallBreaker, UsuallyNew
from runtally.db.database import Database
from runtally.errors import StoreBusy, StoreUnavailable
from runtally.ingest.new_names import NewNames
from runtally.ingest.queries import insert_runs
from runtally.models.run import StoredRun
from runtally.telemetry import WAITING_RUNS, count_runs
from runtally.waiter import Waiter

# Large enough that the fixed cost of a statement does not matter, small enough that nobody waits long behind it.
FLUSHED_AT_ONCE = 2_000
# Some seconds of work. When so many runs wait, a request is refused and its client retries: memory stays bounded and
# answers quick.
MAX_WAITING = 50_000
# Leaves room for the other projects.
MAX_WAITING_OF_PROJECT = MAX_WAITING // 2


class _Request(NamedTuple):
    """The runs of one request, which are committed together. The answer is how many of them were new."""

    project_id: str
    runs: Sequence[StoredRun]
    answer: Waiter[int]


class Writer:
    """Stores runs in batches; one per process."""

    def __init__(self, database: Database, *, queued: bool) -> None:
        self._database = database
        self._queued = queued
        # Each project has a queue of its own, and the queues take turns.
        self._waiting: dict[str, deque[_Request]] = {}
        self._waiting_of: dict[str, int] = {}
        self._runs_waiting = 0
        self._flushing: asyncio.Task[None] | None = None
        self._breaker = StallBreaker()
        self._names = NewNames()
        self._new = UsuallyNew()

    @classmethod
    @asynccontextmanager
    async def opened(cls, database: Database, *, queued: bool) -> AsyncIterator[Self]:
        """Open a writer; leaving the block stores all runs that were accepted.

        `queued` says whether runs are queued for the relay.
        """
        writer = cls(database, queued=queued)
        try:
            yield writer
        finally:
            if writer._flushing is not None:
                await writer._flushing

    def put(self, runs: Sequence[StoredRun], new: Waiter[int]) -> None:
        """Begin to store runs of one project, all or none; `new` receives how many were new, once they are committed.

        Raises `StoreBusy` without having tried when too many runs wait already, or when they wait for a database that
        is stuck; `new` receives all else.
        """
        if not runs:
            new.set_result(0)
            return
        project_id = runs[0].project_id
        self._refuse_if_full(project_id, len(runs))
        self._breaker.refuse_if_stuck()
        self._waiting.setdefault(project_id, deque()).append(_Request(project_id, runs, new))
        self._waiting_of[project_id] = self._waiting_of.get(project_id, 0) + len(runs)
        self._runs_waiting += len(runs)
        WAITING_RUNS.inc(len(runs))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())

    def _refuse_if_full(self, project_id: str, runs: int) -> None:
        of_project = self._waiting_of.get(project_id, 0)
        if self._runs_waiting and self._runs_waiting + runs > MAX_WAITING:
            raise StoreBusy
        if of_project and of_project + runs > MAX_WAITING_OF_PROJECT:
            raise StoreBusy

    def _uncount(self, project_id: str, runs: int) -> None:
        left = self._waiting_of[project_id] - runs
        if left:
            self._waiting_of[project_id] = left
        else:
            del self._waiting_of[project_id]

    async def _flush(self) -> None:
        try:
            while requests := self._next():
                with self._breaker.calling():
                    await self._store(requests)
        finally:
            self._flushing = None

    def _next(self) -> list[_Request]:
        """Take one request of each project in turn, until there are enough runs; at least one request if any waits."""
        taken: list[_Request] = []
        runs = 0
        while self._waiting and runs < FLUSHED_AT_ONCE:
            project_id, requests = next(iter(self._waiting.items()))
            request = requests.popleft()
            # Move the project to the end of the line.
            del self._waiting[project_id]
            if requests:
                self._waiting[project_id] = requests
            taken.append(request)
            runs += len(request.runs)
            self._uncount(project_id, len(request.runs))
        self._runs_waiting -= runs
        WAITING_RUNS.dec(runs)
        return taken

    async def _store(self, requests: Sequence[_Request]) -> None:
        try:
            known = await self._insert(requests)
        except StoreUnavailable as error:
            for request in requests:
                _refuse(request, StoreUnavailable(error.message))
            if self._breaker.is_stuck:
                self._refuse_waiting()
        except Exception as error:  # noqa: BLE001  # Any error is passed to the request that waits for the answer.
            if len(requests) == 1:
                _refuse(requests[0], error)
                return
            # One bad row must not fail its neighbours, so each request is tried on its own.
            for request in requests:
                await self._store([request])
        else:
            # The next flush begins first, so that the database works meanwhile.
            asyncio.get_running_loop().call_soon(_answer, requests, known)

    def _refuse_waiting(self) -> None:
        """Refuse all waiting requests: each flush of them would otherwise wait as long as the one that failed."""
        while requests := self._next():
            for request in requests:
                _refuse(request, StoreBusy())

    async def _insert(self, requests: Sequence[_Request]) -> Counter[tuple[str, str]]:
        runs = [run for request in requests for run in request.runs]

        async def insert(*, are_new: bool) -> Counter[tuple[str, str]]:
            async with self._database.durable() as connection:
                beyond = await self._names.mark(connection, runs)
                return await insert_runs(connection, runs, queued=self._queued, beyond=beyond, are_new=are_new)

        return await self._new.store(insert)


def _answer(requests: Sequence[_Request], known: Counter[tuple[str, str]]) -> None:
    """Count the runs, and answer each request. Of several runs with the same id, the first one is new and the others are duplicates."""
    runs = [run for request in requests for run in request.runs]
    unpriced = sum([run.cost_usd is None for run in runs])
    count_runs(stored=len(runs) - known.total(), duplicate=known.total(), unpriced=unpriced)
    for request in reversed(requests):
        duplicates = 0
        # Duplicates are rare.
        for run in reversed(request.runs) if known else ():
            key = run.project_id, run.id
            if known[key]:
                known[key] -= 1
                duplicates += 1
        if not request.answer.done():
            request.answer.set_result(len(request.runs) - duplicates)


def _refuse(request: _Request, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
