"""Serve verdicts to many anonymous callers: a thousand people may read a README at once."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from runtally.clock import Clock
from runtally.db.batcher import Batcher
from runtally.db.database import Database
from runtally.errors import NotFound, StoreUnavailable
from runtally.experiments.read import Question, public_projects, verdict_on
from runtally.experiments.verdict import Verdict

_ASKED_AT_ONCE: Final = 500


class _Experiment(NamedTuple):
    project_id: str
    experiment_id: str


class SharedVerdicts:
    """Reads the runs of an experiment at most once at a time, whatever tokens callers send; one per process.

    Callers that come while an answer is being read share the next one. They cannot share the one under way, which may
    not include runs that were acknowledged before these requests arrived. So an answer is never older than its question, and nothing
    is cached.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._projects = Batcher(self._find, at_most=_ASKED_AT_ONCE)
        self._reading: dict[_Experiment, asyncio.Task[Verdict | None]] = {}
        self._next: dict[_Experiment, asyncio.Task[Verdict | None]] = {}

    async def verdict(self, question: Question) -> Verdict | None:
        """Return the verdict for a question; None when there is no single experiment for it.

        Raises `StoreUnavailable` and `StoreBusy`.
        """
        project_id = await self._projects.submit(question)
        return None if project_id is None else await self._shared(_Experiment(project_id, question.experiment_id))

    async def _find(self, questions: Sequence[Question]) -> list[str | None]:
        async with self._database.connection() as connection:
            return await public_projects(connection, questions)

    async def _shared(self, experiment: _Experiment) -> Verdict | None:
        if experiment not in self._next:
            task = asyncio.create_task(self._read_after(self._reading.get(experiment), experiment))
            # All waiting callers get the error; retrieve it here in case none waits any more.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._next[experiment] = task
        # A client that disconnects must not cancel the answer for others.
        return await asyncio.shield(self._next[experiment])

    async def _read_after(
        self, previous: asyncio.Task[Verdict | None] | None, experiment: _Experiment
    ) -> Verdict | None:
        if previous:
            await asyncio.wait([previous])
        task = self._next.pop(experiment)
        self._reading[experiment] = task
        try:
            async with self._database.connection() as connection:
                return (await verdict_on(connection, self._clock(), *experiment)).verdict
        except NotFound:
            # The experiment was deleted since it was found.
            return None
        finally:
            if self._reading[experiment] is task:
                del self._reading[experiment]


class Verdicts:
    """Finds an experiment in whichever database it is."""

    def __init__(self, verdicts: Sequence[SharedVerdicts]) -> None:
        self._verdicts = verdicts

    async def verdict(self, question: Question) -> Verdict | None:
        """Return the verdict; None when there is no single experiment for it.

        Raises `StoreUnavailable` and `StoreBusy` where none is found, and one may be in a database that is away.
        """
        found: list[Verdict] = []
        away: list[StoreUnavailable] = []
        for one in await asyncio.gather(*(each.verdict(question) for each in self._verdicts), return_exceptions=True):
            if isinstance(one, StoreUnavailable):
                away.append(one)
            elif isinstance(one, BaseException):
                raise one
            elif one is not None:
                found.append(one)
        if away and not found:
            raise away[0]
        return found[0] if len(found) == 1 else None
