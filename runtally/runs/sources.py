"""Where runs are read from: the database of a project and its archive, or those of several databases, whose runs are merged."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from runtally.archive.reading import ArchivedRuns
from runtally.db.combined import gathered
from runtally.db.database import Connection

A = TypeVar("A")


class RunSource(NamedTuple):
    """A database, and the archive of runs that left it; None without one."""

    connection: Connection
    archive: ArchivedRuns | None = None


RunSources = Sequence[RunSource]


async def of_each(sources: RunSources, read: Callable[[RunSource], Coroutine[Any, Any, A]]) -> list[A]:
    """Run a reading in every source at the same time, and return what each returned."""
    return await gathered(map(read, sources))
