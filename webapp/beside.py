"""Two things of one page at the same time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

Found = TypeVar("Found")


@asynccontextmanager
async def beside(reading: Coroutine[None, None, Found]) -> AsyncIterator[Awaitable[Found]]:
    """Reads while the block does the rest: database and service have a core of their own.

    What reads has a connection of its own. Nobody may wait for it with one in hand, or many pages at once would hold all of
    them and wait for one more.
    """
    task = asyncio.create_task(reading)
    try:
        yield task
    finally:
        # Where the block failed, whatever became of this is of no interest.
        await asyncio.gather(task, return_exceptions=True)
