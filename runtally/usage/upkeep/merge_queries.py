"""SQL that merges waiting latencies into sketches, and waiting deltas into the sums of all projects."""

from datetime import datetime

from runtally.db.database import Connection
from runtally.usage.sketch import merging
from runtally.usage.store import merging_sums

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('runtally merging'))"
MERGE_SUMS = merging_sums(now="$1::timestamptz", limit="LIMIT $2")
MERGE_SKETCHES = merging("TRUE", now="$1::timestamptz", limit="LIMIT $2 FOR UPDATE SKIP LOCKED")


async def try_lock(connection: Connection) -> bool:
    """Take the lock of merging for this transaction, unless another process has it; return whether it was free."""
    return bool(await connection.fetchval(TRY_LOCK))


async def merge_sums(connection: Connection, now: datetime, limit: int) -> int:
    """Merge waiting deltas into the sums of all projects, and return their number."""
    return int(await connection.fetchval(MERGE_SUMS, now, limit))


async def merge_sketches(connection: Connection, now: datetime, limit: int) -> int:
    """Merge waiting latencies into the sketches, and return the number of statements that had queued them."""
    return int(await connection.fetchval(MERGE_SKETCHES, now, limit))
