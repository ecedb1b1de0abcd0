"""Bound the names that a project gets rows for: some clients send a model or an experiment of its own with each run.

As of a tracked key, `MAX_VALUES` models of a day have sums of their own, and all further runs count as one model there; so many
experiments may begin on a day. The database says which they are, and is asked only where a process has seen more than a few.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from runtally.db.database import Connection
from runtally.ingest import name_queries
from runtally.ingest.name_queries import Pair, Place
from runtally.models.dimension import MAX_VALUES
from runtally.models.run import StoredRun

# Each process may add so many to a day unasked.
FEW_NAMES = 100
# Six megabytes. When they are more, all are forgotten, and the database is asked again.
MAX_REMEMBERED = 100_000
_Count: TypeAlias = Callable[[Connection, Place, int], Awaitable[int]]
_Known: TypeAlias = Callable[[Connection, Place, Collection[Pair]], Awaitable[set[Pair]]]


class _Names:
    """The names of one kind that a process has seen."""

    def __init__(self, count: _Count, known: _Known) -> None:
        self._count, self._known = count, known
        # Hashes, which are small whatever was sent.
        self._seen: dict[Place, set[int]] = {}
        self._remembered = 0

    async def beyond(self, connection: Connection, named: Iterable[tuple[Place, Pair]]) -> dict[Place, set[Pair]]:
        """Return the names that get no row, by their place; the others are remembered."""
        new: dict[Place, dict[Pair, None]] = {}
        for place, pair in named:
            if hash(pair) not in self._seen.get(place, ()):
                new.setdefault(place, {})[pair] = None
        found = {place: await self._beyond_at(connection, place, pairs) for place, pairs in new.items()}
        return {place: pairs for place, pairs in found.items() if pairs}

    async def _beyond_at(self, connection: Connection, place: Place, new: Collection[Pair]) -> set[Pair]:
        seen, beyond = self._seen.get(place, set()), set[Pair]()
        if len(seen) + len(new) > FEW_NAMES:
            known = await self._known(connection, place, new)
            room = max(MAX_VALUES - await self._count(connection, place, MAX_VALUES), 0)
            beyond = set([pair for pair in new if pair not in known][room:])
        own = {hash(pair) for pair in new if pair not in beyond}
        if self._remembered + len(own) > MAX_REMEMBERED:
            self._seen, self._remembered, seen = {}, 0, set()
        self._seen[place] = seen | own
        self._remembered += len(own)
        return beyond


class NewNames:
    """Finds the runs whose names are beyond those that get rows; one per process."""

    def __init__(self) -> None:
        self._models = _Names(name_queries.count_models, name_queries.select_known_models)
        self._experiments = _Names(name_queries.count_new_experiments, name_queries.select_known_experiments)

    async def mark(self, connection: Connection, runs: Sequence[StoredRun]) -> Collection[Pair]:
        """Mark the runs that count as "(other)", and return the experiments that do not begin."""
        if beyond := await self._models.beyond(connection, ((_day(run), (run.provider, run.model)) for run in runs)):
            for run in runs:
                if (run.provider, run.model) in beyond.get(_day(run), ()):
                    run.counted_as_other = True
        begun = (
            ((run.project_id, run.created_at.toordinal()), (run.project_id, run.experiment_id))
            for run in runs
            if run.experiment_id is not None
        )
        return set().union(*(await self._experiments.beyond(connection, begun)).values())


def _day(run: StoredRun) -> Place:
    return run.project_id, run.occurred_at.toordinal()
