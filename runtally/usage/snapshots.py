"""The databases that have the runs of a question, each seen at one moment: that of a project, or for all projects each one."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from runtally.db.combined import CombinedReads, Reads, ReadsInTurn, gathered
from runtally.db.database import Connection, Database
from runtally.usage.groups.slices import SliceKey
from runtally.usage.memo import DayMemo
from runtally.usage.plan import Plan, Question
from runtally.usage.timeline import TimeSpan

A = TypeVar("A")


class ArchivedGroups(Protocol):
    """The groups that the archive can count of runs that left the database. Each method raises `ArchiveError` and `MissingExtra`."""

    async def missing_in(self, connection: Connection, question: Question, span: TimeSpan) -> int:
        """Count the runs of a span's days that are neither in the database nor in the archive."""

    async def slices(
        self, connection: Connection, question: Question, plan: Plan, spans: Sequence[TimeSpan]
    ) -> Sequence[Sequence[Any]]:
        """Read rows as `group_slices` writes them: the number of a bucket, the value of each dimension, the measures."""

    async def latencies(
        self, connection: Connection, question: Question, plan: Plan, spans: Sequence[TimeSpan]
    ) -> dict[SliceKey, Counter[int]]:
        """Read how many runs of each bucket and group had each latency."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A database at one moment, with what is remembered of its closed days."""

    reads: CombinedReads
    memo: DayMemo
    archive: ArchivedGroups | None = None
    """Its archived runs. Jobs need none: they ask about the last days alone."""
    database: Database | None = None


class Snapshots:
    """One database, or several whose answers are put together; no run is in two of them."""

    def __init__(self, every: Sequence[Snapshot]) -> None:
        self.every = tuple(every)
        first, *others = self.every
        self.reads: Reads = ReadsInTurn() if others else first.reads
        """Runs several readings, each of which may ask every database."""

    @classmethod
    def of(cls, connection: Connection, memo: DayMemo, archive: ArchivedGroups | None = None) -> Self:
        """Return the one database of a connection."""
        return cls([Snapshot(CombinedReads.over(connection), memo, archive)])

    @property
    def connection(self) -> Connection:
        """The connection to the database of a project."""
        [only] = self.every
        return only.reads.connection

    async def of_each(self, read: Callable[[Connection], Coroutine[Any, Any, A]]) -> list[A]:
        """Run a reading in every database at the same time, and return what each returned."""
        return await gathered(read(snapshot.reads.connection) for snapshot in self.every)
