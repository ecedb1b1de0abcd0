"""Runs of closed days that left the database for the archive, as one more source of groups."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from runtally.db.database import Connection
from runtally.usage.groups.slices import SliceKey
from runtally.usage.plan import GroupQuestion, Plan
from runtally.usage.window import TimeSpan


class ArchivedGroups(Protocol):
    """The groups that the archive can count. Each method raises `ArchiveError` and `MissingExtra`."""

    async def missing_in(self, connection: Connection, question: GroupQuestion, span: TimeSpan) -> int:
        """Count the runs of a span's days that are neither in the database nor in the archive."""

    async def slices(
        self, connection: Connection, question: GroupQuestion, plan: Plan, spans: Sequence[TimeSpan]
    ) -> Sequence[Sequence[Any]]:
        """Read rows as `group_slices` writes them: the number of a bucket, the value of each dimension, the measures."""

    async def latencies(
        self, connection: Connection, question: GroupQuestion, plan: Plan, spans: Sequence[TimeSpan]
    ) -> dict[SliceKey, Counter[int]]:
        """Read how many runs of each bucket and group had each latency."""
