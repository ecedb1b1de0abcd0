"""Read two things for one page at the same time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

Found = TypeVar("Found")


@asynccontextmanager
async def concurrently(reading: Coroutine[None, None, Found]) -> AsyncIterator[Awaitable[Found]]:
    """Run a read while the block does the rest: database and service have a processor core each.

    The read has a connection of its own. Do not await it while holding another connection, or many pages at once would
    hold all connections and wait for one more.
    """
    task = asyncio.create_task(reading)
    try:
        yield task
    finally:
        # If the block failed, the result does not matter.
        await asyncio.gather(task, return_exceptions=True)
