"""Ingest where there are several cells: each project's runs go to the cell where it is, or is put now."""

from collections.abc import Awaitable, Callable, Sequence

from runtally.audit import Actor
from runtally.db.database import as_unavailable
from runtally.ingest.accept import Intake, OnError, Prepared, Receipt, Stored, project_of
from runtally.ingest.decode import DecodedRun, SentRequest
from runtally.ingest.normalize import NormalRun


class RoutedIngest:
    """Passes each request on to the ingest of its project's cell; one per process."""

    def __init__(self, place_of: Callable[[str], Awaitable[tuple[str, Intake]]]) -> None:
        """`place_of` returns the name and the ingest of a project's cell."""
        self._place_of = place_of

    async def accept(self, sent: SentRequest, *, by: Actor, on_error: OnError = OnError.REFUSE) -> Receipt:
        """Store the runs of a JSON request. Raises what `Ingest.accept` raises, and `NoOpenCell`."""
        name, ingest = await self._place_of(project_of(sent, by))
        with as_unavailable(name):
            return await ingest.accept(sent, by=by, on_error=on_error)

    async def prepare(self, project_id: str, runs: Sequence[DecodedRun], *, takes_turns: bool) -> Prepared:
        name, ingest = await self._place_of(project_id)
        with as_unavailable(name):
            return await ingest.prepare(project_id, runs, takes_turns=takes_turns)

    async def store(self, accepted: Sequence[NormalRun], *, by: Actor) -> Stored:
        if not accepted:
            return Stored((), 0)
        name, ingest = await self._place_of(accepted[0].run.project_id)
        with as_unavailable(name):
            return await ingest.store(accepted, by=by)
