"""Work that many requests ask for, done for several of them at once: in one statement, and with one commit."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

from runtally.db.turn import Turn
from runtally.errors import StoreUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Grouped(Generic[Item, Answer]):
    """What arrives while one statement is under way goes together in the next, so that the busier, the fewer.

    There is no timer: a lone item is done at once.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], *, at_most: int) -> None:
        """`work` answers for each of at most so many items, in their order."""
        self._work = work
        self._at_most = at_most
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None
        self._turn = Turn()

    async def do(self, item: Item) -> Answer:
        """What `work` answers for the item, and raises for it; also `StoreBusy`, when it is stuck."""
        return await self._enter(item)

    async def do_all(self, items: Sequence[Item]) -> Sequence[Answer | Exception]:
        """What `work` answers for each of the items, or raises for it. Raises `StoreBusy` when it is stuck."""
        answers = [self._enter(item) for item in items]
        if answers:
            await asyncio.wait(answers)
        return [cast(Exception | None, answer.exception()) or answer.result() for answer in answers]

    def _enter(self, item: Item) -> asyncio.Future[Answer]:
        self._turn.refuse_if_stuck()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._do_all())
        return answer

    async def _do_all(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[: self._at_most], self._waiting[self._at_most :]
                with self._turn.taken():
                    await self._settle(taken)
        finally:
            self._task = None

    async def _settle(self, taken: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._work([item for item, _ in taken])
        except StoreUnavailable:
            for _, answer in taken:
                _refuse(answer, StoreUnavailable())
        except Exception as error:  # noqa: BLE001  # Whatever it is belongs to the request that waits for the answer.
            if len(taken) == 1:
                _refuse(taken[0][1], error)
                return
            # One that cannot be done must not fail its neighbours: each is tried on its own.
            for one in taken:
                await self._settle([one])
        else:
            for (_, answer), found in zip(taken, answers, strict=True):
                if not answer.done():
                    answer.set_result(found)


def _refuse(answer: asyncio.Future[Answer], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
