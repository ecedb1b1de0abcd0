"""SQL that merges waiting latencies into the sketches."""

from datetime import datetime

from runtally.db.database import Connection
from runtally.usage.sketch import merging

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('runtally merging'))"
MERGE_SKETCHES = merging("TRUE", now="$1::timestamptz", limit="LIMIT $2 FOR UPDATE SKIP LOCKED")


async def try_lock(connection: Connection) -> bool:
    """Whether no other process merges at this moment; if so, none does until the transaction ends."""
    return bool(await connection.fetchval(TRY_LOCK))


async def merge_sketches(connection: Connection, now: datetime, limit: int) -> int:
    """Add waiting latencies to the sketches; of how many statements they were."""
    return int(await connection.fetchval(MERGE_SKETCHES, now, limit))
