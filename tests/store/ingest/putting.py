"""Store runs by a writer, and wait for it."""

import asyncio

from runtally.ingest.writer import Writer
from runtally.models.run import StoredRun


async def put(writer: Writer, runs: list[StoredRun]) -> int:
    """Store the runs, and return how many were new."""
    new: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    writer.put(runs, new)
    return await new
