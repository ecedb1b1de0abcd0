"""Erase a person: all runs of a user in every project, counted first, then erased once an admin starts it.

Each step is one project, whose erasure is one transaction with its entry in the audit log. So whatever breaks off, a project is
either as it was or erased and recorded; a step that was done in a cell but not noted in control is done again and finds nothing.
The name is forgotten when the erasure ends: what proves it is the hash under a secret of the server, and the counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlmodel import col, delete, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import erasure_queries as queries
from runtally.access.erasure import ChosenBy, ChosenRuns, FoundRuns, Places, erase_chosen, look_up
from runtally.audit import Actor, ActorKind, Change, record
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import ArchiveError, InvalidErasure, MissingExtra, NotFound
from runtally.fields import MAX_NAME, trimmed
from runtally.models.audit import Erasure, ErasureState
from runtally.models.project import Colour
from runtally.money import plain
from runtally.names import LiveNames, is_hash
from runtally.usage.dimensions import BY_MODEL, USER

LISTED = 20
UNKNOWN = "There is no such erasure."
_FROM = {
    ErasureState.ERASING: frozenset({ErasureState.COUNTED}),
    ErasureState.CANCELLED: frozenset({ErasureState.COUNTING, ErasureState.COUNTED, ErasureState.ERASING}),
}
_ACTIONS = {ErasureState.ERASING: "erasure.started", ErasureState.CANCELLED: "erasure.cancelled"}
ERASED = "person.erased"
"""The action in the audit log, an entry for each project that had runs."""

CellPlaces = Callable[[], Sequence[tuple[str, Places]]]
"""Return the name and the places of each cell, in one order."""


def names_of(user: str, names: LiveNames) -> tuple[str, ...]:
    """Return what runs of a user have: the name, and its hash, which may be given in place of it. Raises `InvalidErasure`."""
    user = trimmed(user)
    if not user or len(user) > MAX_NAME or "\0" in user:
        why = f"Give the user's name or hash, as runs have it, with 1 to {MAX_NAME} characters."
        raise InvalidErasure.at("user", why)
    hashed = None if is_hash(USER.name, user) else names.hashed(USER.name, user)
    return (user, hashed) if hashed else (user,)


async def plan(session: AsyncSession, by: Actor, names: Sequence[str], projects: int, now: datetime) -> Erasure:
    """Add an erasure, which counts at once and deletes nothing until it is started."""
    label = names[-1] if is_hash(USER.name, names[-1]) else ""
    made = Erasure(
        state=ErasureState.COUNTING,
        names=list(names),
        label=label,
        projects=projects,
        found=[],
        author=by.label or by.name,
        created_at=now,
        updated_at=now,
    )
    session.add(made)
    await session.flush()
    made.label = label or f"erasure {made.id}"
    record(session, by, Change("erasure.planned", made.label))
    return made


async def get(session: AsyncSession, erasure_id: int, *, locked: bool = False) -> Erasure:
    """Return the erasure; with `locked` no step is done until the transaction ends. Raises `NotFound`."""
    found = await session.get(Erasure, erasure_id, with_for_update=locked)
    if found is None:
        raise NotFound(UNKNOWN)
    return found


async def list_latest(session: AsyncSession) -> Sequence[Erasure]:
    """List the latest erasures, newest first."""
    return (await session.exec(select(Erasure).order_by(col(Erasure.id).desc()).limit(LISTED))).all()


async def move(session: AsyncSession, by: Actor, erasure_id: int, state: ErasureState, now: datetime) -> Erasure:
    """Start or cancel an erasure. Raises `InvalidErasure` where its state does not allow that, and `NotFound`."""
    found = await get(session, erasure_id, locked=True)
    if found.state not in _FROM[state]:
        raise InvalidErasure(f"This erasure is {found.state}.")
    if state is ErasureState.ERASING:
        # From the start again, for the runs that came since they were counted.
        found.at_cell = found.at_project = None
        found.seen, found.found = 0, []
    else:
        found.names = []
    found.state, found.problem, found.updated_at = state, None, now
    session.add(found)
    record(session, by, Change(_ACTIONS[state], found.label))
    return found


class Eraser:
    """Does the steps of the erasures that are under way; one per process."""

    def __init__(self, control: Database, cells: CellPlaces, clock: Clock) -> None:
        self._control = control
        self._cells = cells
        self._clock = clock

    async def work(self) -> bool:
        """Do one step, and return whether there was one to do.

        Raises `ArchiveError`, `MissingExtra` and `StoreUnavailable`; then the step was not done, and is done the next time.
        """
        async with self._control.connection() as connection:
            if not await connection.fetchval(queries.SELECT_IS_ERASING):
                return False
        async with self._control.patient() as patient, patient.session() as session:
            sought = select(Erasure).where(col(Erasure.state).in_((ErasureState.COUNTING, ErasureState.ERASING)))
            found = (
                await session.exec(sought.order_by(col(Erasure.id)).limit(1).with_for_update(skip_locked=True))
            ).first()
            if found is None:
                return False
            # Files may take longer than a server lets a transaction wait.
            await (await session.connection()).exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            problem: ArchiveError | MissingExtra | None = None
            try:
                await self._step(session, found)
            except (ArchiveError, MissingExtra) as error:
                problem = error
            found.problem, found.updated_at = problem.message if problem else None, self._clock()
            session.add(found)
        if problem is not None:
            raise problem
        return True

    async def _step(self, session: AsyncSession, erasure: Erasure) -> None:
        """Look at the next project, be it in the next cell, or come to the end."""
        cells = self._cells()
        names = [name for name, _ in cells]
        at = names.index(erasure.at_cell) if erasure.at_cell in names else 0
        for name, places in cells[at:]:
            after = erasure.at_project if name == erasure.at_cell else None
            async with places.cell.connection() as connection:
                project_id: str | None = await connection.fetchval(queries.SELECT_PROJECT_AFTER, after)
            if project_id is not None:
                counts = await self._do(places, erasure, project_id)
                erasure.found = [*erasure.found, *([counts] if counts else [])]
                erasure.at_cell, erasure.at_project, erasure.seen = name, project_id, erasure.seen + 1
                return
        if erasure.state == ErasureState.ERASING:
            # A guess of a name can be compared with the hash under which its colour is stored, as of a deleted project.
            shared = [dimension.name for dimension in BY_MODEL]
            await session.exec(delete(Colour).where(col(Colour.dimension).not_in(shared)))
            erasure.names = []
        erasure.state = ErasureState.DONE if erasure.state == ErasureState.ERASING else ErasureState.COUNTED

    async def _do(self, places: Places, erasure: Erasure, project_id: str) -> dict[str, Any] | None:
        chosen = ChosenRuns(project_id, ChosenBy.USER, tuple(erasure.names))
        if erasure.state == ErasureState.COUNTING:
            found = await look_up(places, chosen)
        else:
            by = Actor(ActorKind.SYSTEM, erasure.author, frozenset())
            try:
                found = await erase_chosen(places, by, chosen, self._clock, ERASED, erasure.label)
            except NotFound:
                # It was deleted in this moment.
                found = FoundRuns()
        return counts_of(project_id, found) if found.runs or found.reported else None


def counts_of(project_id: str, runs: FoundRuns) -> dict[str, Any]:
    """Return what was found in a project as JSON has it."""
    values = asdict(runs)
    return {"project": project_id, "cost_usd": plain(runs.cost_usd)} | {
        name: values[name] for name in ("live", "archived", "reported")
    }
