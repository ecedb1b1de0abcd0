"""What is asked for meanwhile is done together; nobody pays for a neighbour."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from runtally.db.batcher import CAREFUL_SECONDS, Batcher, UsuallyNew
from runtally.errors import StoreUnavailable


class Work:
    """Doubles numbers; one may fail."""

    def __init__(self, unlucky: int | None = None, error: type[Exception] = ValueError) -> None:
        self.groups: list[list[int]] = []
        self._unlucky = unlucky
        self._error = error

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        if self._unlucky in items:
            raise self._error
        return [2 * item for item in items]


async def asked(work: Work, *items: int, at_most: int = 100) -> list[int | BaseException]:
    """What each is answered, when all are asked for at once."""
    batcher = Batcher(work, at_most=at_most)
    return await asyncio.gather(*map(batcher.submit, items), return_exceptions=True)


async def test_a_lone_item_is_done_at_once() -> None:
    work = Work()

    assert await asked(work, 1) == [2]


async def test_items_that_arrive_together_are_one_batch_up_to_the_limit() -> None:
    work = Work()

    assert await asked(work, *range(5), at_most=3) == [0, 2, 4, 6, 8]
    assert work.groups == [[0, 1, 2], [3, 4]]


async def test_a_failing_item_does_not_fail_the_others() -> None:
    answers = await asked(Work(unlucky=2), 1, 2, 3)

    assert [answers[0], answers[2]] == [2, 6]
    assert isinstance(answers[1], ValueError)


async def test_a_store_that_is_away_fails_all_without_trying_each() -> None:
    work = Work(unlucky=2, error=StoreUnavailable)

    answers = await asked(work, 1, 2, 3)

    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    assert work.groups == [[1, 2, 3]]
    assert answers[0] is not answers[1]


async def test_a_cancelled_item_does_not_cancel_the_others() -> None:
    batcher = Batcher(Work(), at_most=100)
    gone, waiting = (asyncio.ensure_future(batcher.submit(item)) for item in (1, 2))
    await asyncio.sleep(0)

    gone.cancel()

    assert await waiting == 4
    with pytest.raises(asyncio.CancelledError):
        await gone


class Table:
    """Remembers how rows were stored; may have one of them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.has_one = False
        self.error: type[Exception] = asyncpg.UniqueViolationError
        self.tried: list[bool] = []

    async def store(self, *, are_new: bool) -> str:
        self.tried.append(are_new)
        if are_new and self.has_one:
            raise self.error
        return "stored"


async def test_rows_are_taken_for_new_until_one_is_not_and_again_a_minute_later() -> None:
    table = Table()
    rows = UsuallyNew(lambda: table.seconds)

    assert [await rows.store(table.store) for _ in range(2)] == ["stored"] * 2
    table.has_one = True
    assert await rows.store(table.store) == "stored"
    table.has_one, table.seconds = False, CAREFUL_SECONDS - 1
    assert await rows.store(table.store) == "stored"
    table.seconds = CAREFUL_SECONDS
    assert await rows.store(table.store) == "stored"

    assert table.tried == [True, True, True, False, False, True]


async def test_rows_that_fail_otherwise_are_not_tried_again() -> None:
    table = Table()
    table.has_one, table.error = True, asyncpg.CheckViolationError

    with pytest.raises(asyncpg.CheckViolationError):
        await UsuallyNew(lambda: table.seconds).store(table.store)

    assert table.tried == [True]
