"""Do the same work for several requests at once: in one statement, and with one commit.

Further requests are refused while such a statement is stuck, by a lock or by a disk: a database that hangs then costs no memory
for each of them, and clients learn of it at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Generic, TypeVar, cast

import asyncpg

from runtally.errors import StoreBusy, StoreUnavailable

# Such a statement takes milliseconds, under the heaviest load a tenth of a second.
STUCK_SECONDS = 2.0
CAREFUL_SECONDS = 60.0


class StallBreaker:
    """Remembers whether a call is under way, and since when."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began: float | None = None

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Wrap one call."""
        self._began = self._clock()
        try:
            yield
        finally:
            self._began = None

    @property
    def is_stuck(self) -> bool:
        """Return whether the call takes so long that something must be wrong."""
        return self._began is not None and self._clock() - self._began > STUCK_SECONDS

    def refuse_if_stuck(self) -> None:
        """Raise `StoreBusy` if the call under way is stuck."""
        if self.is_stuck:
            raise StoreBusy


Item = TypeVar("Item")
Answer = TypeVar("Answer")


class UsuallyNew:
    """Stores rows that are nearly always new, without looking first for each whether its table has it.

    To look takes a seventh of all that Postgres does for a run of a batch. After a row that was there, all are looked for until a minute is over: a
    statement that failed was in vain, and a line in the log of the server.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._careful_until = clock()

    async def store(self, storing: Callable[..., Awaitable[Answer]]) -> Answer:
        """Call this, which fails with `are_new` where a row is known, and then again without."""
        if self._clock() >= self._careful_until:
            try:
                return await storing(are_new=True)
            except asyncpg.UniqueViolationError:
                self._careful_until = self._clock() + CAREFUL_SECONDS
        return await storing(are_new=False)


class Batcher(Generic[Item, Answer]):
    """Batches items: those that arrive while one batch is under way go together in the next.

    There is no timer: a lone item is done at once, and the busier the service, the larger the batches.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], *, at_most: int) -> None:
        """`work` returns an answer for each of at most `at_most` items, in their order."""
        self._work = work
        self._at_most = at_most
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None
        self._breaker = StallBreaker()

    async def submit(self, item: Item) -> Answer:
        """Return the answer of `work` for the item, or raise its error. Raises `StoreBusy` when `work` is stuck."""
        return await self._enter(item)

    async def submit_all(self, items: Sequence[Item]) -> Sequence[Answer | Exception]:
        """Return for each item the answer of `work`, or its error. Raises `StoreBusy` when `work` is stuck."""
        answers = [self._enter(item) for item in items]
        if answers:
            await asyncio.wait(answers)
        return [cast(Exception | None, answer.exception()) or answer.result() for answer in answers]

    def _enter(self, item: Item) -> asyncio.Future[Answer]:
        self._breaker.refuse_if_stuck()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[: self._at_most], self._waiting[self._at_most :]
                with self._breaker.calling():
                    await self._run_batch(taken)
        finally:
            self._task = None

    async def _run_batch(self, taken: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._work([item for item, _ in taken])
        except StoreUnavailable:
            for _, answer in taken:
                _refuse(answer, StoreUnavailable())
        except Exception as error:  # noqa: BLE001  # Any error is passed to the request that waits for the answer.
            if len(taken) == 1:
                _refuse(taken[0][1], error)
                return
            # One bad item must not fail its neighbours, so each is tried on its own.
            for one in taken:
                await self._run_batch([one])
        else:
            for (_, answer), found in zip(taken, answers, strict=True):
                if not answer.done():
                    answer.set_result(found)


def _refuse(answer: asyncio.Future[Answer], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
