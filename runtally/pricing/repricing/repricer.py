"""Compute the costs of past runs again at current prices: compare first, and change them once an admin starts it.

Each step is a transaction of its own, which stores how far it has come along with the costs. So whatever breaks off, no
run is left out or counted twice, and runs, rollups and the relay's queue agree at every moment. Where control and cell are two
databases, a step that breaks off between them is done again, and the runs that it changed are not counted as changed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.clock import Clock
from runtally.db import pair
from runtally.db.database import Connection, Database
from runtally.errors import InvalidPrice, NotFound
from runtally.models.price import Repricing, RepricingState
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS
from runtally.pricing.book import LivePrices, PriceBook
from runtally.pricing.repricing import recost
from runtally.pricing.repricing.recost import Recost, RunCursor, recosts_of
from runtally.usage.sums.tables import SLICES

# Several processes take different repricings, or none.
SELECT_NEXT = f"""
  SELECT {", ".join(f"repricings.{name}" for name in Repricing.model_fields)}
    FROM repricings
   WHERE state IN ('comparing', 'running')
ORDER BY id
   LIMIT 1
     FOR UPDATE SKIP LOCKED
"""

_PROGRESS = ("at_project", "at_time", "at_run", "seen", "changed", "found", "state", "updated_at")
"""What a step changes."""
UPDATE_PROGRESS = f"""
UPDATE repricings
   SET {", ".join(f"{name} = ${number}" for number, name in enumerate(_PROGRESS, start=2))}
 WHERE id = $1
"""

# In the order in which projects are repriced.
SELECT_PROJECT_AFTER = """
  SELECT id
    FROM projects
   WHERE ($1::text IS NULL OR id = $1)
     AND ($2::text IS NULL OR id > $2)
ORDER BY id
   LIMIT 1
"""

_COUNTED = f"""grain = {GRAINS[-1].minutes}
           AND ($2::text IS NULL OR provider = $2)
           AND ($3::text IS NULL OR model = $3)
           AND ($4::timestamptz IS NULL OR bucket > $4::timestamptz - interval '{GRAINS[-1].minutes} minutes')
           AND ($5::timestamptz IS NULL OR bucket < $5)"""
# Whole buckets, so it may be a few too many; good enough for progress. Dropped runs are not counted.
SELECT_NUMBER = f"""
SELECT (SELECT coalesce(sum(runs), 0)
          FROM {SLICES.rows} AS held
         WHERE project_id = coalesce($1::text, '{ALL_PROJECTS_KEY}')
           AND {_COUNTED})::bigint
     - (SELECT coalesce(sum(runs), 0)
          FROM projects
          JOIN {SLICES.rows_of_projects} AS held
            ON held.project_id = projects.id
           AND bucket < dropped_before
         WHERE ($1::text IS NULL OR projects.id = $1)
           AND {_COUNTED})::bigint
"""

# Older runs are refused by ingest.
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Scope:
    """The runs that a repricing covers; None stands for all."""

    project_id: str | None = None
    provider: str | None = None
    model: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def select_next(connection: Connection) -> Repricing | None:
    """Return the first repricing that no other process works on, locked until the transaction ends."""
    row = await connection.fetchrow(SELECT_NEXT)
    return None if row is None else Repricing(**row)


async def select_number(connection: Connection, scope: Scope) -> int:
    """Return about how many runs are in the scope."""
    number = await connection.fetchval(
        SELECT_NUMBER, scope.project_id, scope.provider, scope.model, scope.since, scope.until
    )
    return int(number)


CHUNK = 1000
"""Runs to a step: each is a short transaction, so that ingest never waits for long."""
LISTED = 20

_FROM = {
    RepricingState.RUNNING: frozenset({RepricingState.COMPARED, RepricingState.PAUSED}),
    RepricingState.PAUSED: frozenset({RepricingState.RUNNING}),
    RepricingState.CANCELLED: frozenset(
        {RepricingState.COMPARING, RepricingState.COMPARED, RepricingState.RUNNING, RepricingState.PAUSED}
    ),
}
_ACTIONS = {
    RepricingState.RUNNING: "repricing.started",
    RepricingState.PAUSED: "repricing.paused",
    RepricingState.CANCELLED: "repricing.cancelled",
}


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one project and model that change, with what they cost before and after."""

    project_id: str
    provider: str
    model: str
    runs: int
    before_usd: Decimal
    after_usd: Decimal
    priced: int
    """Runs that have no cost before, and one after."""
    unpriced: int
    """Runs that have a cost before, and none after."""


async def plan(session: AsyncSession, by: Actor, scope: Scope, runs: int, now: datetime) -> Repricing:
    """Add a repricing, which compares at once and changes nothing until it is started."""
    repricing = Repricing(
        **asdict(scope),
        state=RepricingState.COMPARING,
        runs=runs,
        found=[],
        author=by.label or by.name,
        created_at=now,
        updated_at=now,
    )
    session.add(repricing)
    await session.flush()
    record(session, by, Change("repricing.planned", _target(repricing), scope.project_id, after=asdict(scope)))
    return repricing


async def get(session: AsyncSession, repricing_id: int, *, locked: bool = False) -> Repricing:
    """Return the repricing; with `locked` no step is done until the transaction ends. Raises `NotFound`."""
    repricing = await session.get(Repricing, repricing_id, with_for_update=locked)
    if repricing is None:
        raise NotFound("There is no such repricing.")
    return repricing


async def list_latest(session: AsyncSession) -> Sequence[Repricing]:
    """List the latest repricings, newest first."""
    return (await session.exec(select(Repricing).order_by(col(Repricing.id).desc()).limit(LISTED))).all()


async def move(session: AsyncSession, by: Actor, repricing_id: int, state: RepricingState, now: datetime) -> Repricing:
    """Start, resume, pause or cancel a repricing. Raises `InvalidPrice` where its state does not allow that."""
    repricing = await get(session, repricing_id, locked=True)
    before = RepricingState(repricing.state)
    if before not in _FROM[state]:
        raise InvalidPrice(f"This repricing is {before} already.")
    if before is RepricingState.COMPARED:
        # From the start again: what has changed since the comparison is changed too.
        repricing.at_project = repricing.at_time = repricing.at_run = None
        repricing.seen = 0
    repricing.state = state
    repricing.updated_at = now
    session.add(repricing)
    record(
        session, by, Change(_ACTIONS[state], _target(repricing), repricing.project_id, after={"runs": repricing.seen})
    )
    return repricing


def groups_of(repricing: Repricing) -> tuple[Group, ...]:
    """List what changes by project and model, the largest change first."""
    groups = (_group(one) for one in repricing.found)
    return tuple(sorted(groups, key=lambda group: (-abs(group.after_usd - group.before_usd), -group.runs)))


Databases = Callable[[str | None], Sequence[Database]]
"""Return the database of a project and those after it, in the order in which they are repriced; with None all."""


class Repricer:
    """Do the steps of the repricings that are under way; one per process."""

    def __init__(
        self, control: Database, databases: Databases, prices: LivePrices, clock: Clock, *, queued: bool
    ) -> None:
        self._control = control
        self._databases = databases
        self._prices = prices
        self._clock = clock
        self._queued = queued

    async def work(self) -> bool:
        """Do one step, and return whether there was one to do. Raises `StoreUnavailable`; then the step was not done."""
        async with self._control.transaction() as control:
            repricing = await select_next(control)
            if repricing is None:
                return False
            # Prices that were saved a moment ago are the reason to be here.
            await self._prices.refresh_over(control)
            await self._step(control, repricing, self._prices.book)
            repricing.updated_at = self._clock()
            await control.execute(UPDATE_PROGRESS, repricing.id, *(getattr(repricing, name) for name in _PROGRESS))
        return True

    async def _step(self, control: Connection, repricing: Repricing, book: PriceBook) -> None:
        project_id = repricing.at_project
        if project_id is None:
            await self._advance(control, repricing)
            return
        # A step that was committed in the cell alone is done again, and then finds those costs changed already.
        async with pair.open_second_transaction(control, self._control, self._databases(project_id)[0]) as connection:
            runs = await recost.select_computed(connection, _cursor(repricing, project_id), CHUNK)
            recosts = recosts_of(runs, book, project_id)
            repricing.seen += len(runs)
            if repricing.state == RepricingState.RUNNING:
                repricing.changed += await recost.update_costs(
                    connection, project_id, recosts, self._clock(), queued=self._queued
                )
            else:
                repricing.found = _add_up(repricing.found, project_id, recosts)
        if len(runs) < CHUNK:
            await self._advance(control, repricing)
        else:
            repricing.at_time, repricing.at_run = runs[-1].occurred_at, runs[-1].id

    async def _advance(self, control: Connection, repricing: Repricing) -> None:
        """Move on to the next project, be it in the next cell, or to the end."""
        after = repricing.at_project
        repricing.at_project = repricing.at_time = repricing.at_run = None
        for database in self._databases(after):
            async with pair.open_second_transaction(control, self._control, database) as connection:
                next_one = await connection.fetchval(SELECT_PROJECT_AFTER, repricing.project_id, after)
            if next_one is not None:
                repricing.at_project = next_one
                return
            after = None
        is_running = repricing.state == RepricingState.RUNNING
        repricing.state = RepricingState.DONE if is_running else RepricingState.COMPARED


def _cursor(repricing: Repricing, project_id: str) -> RunCursor:
    """Return where in a project it has come to. A cursor is exclusive, and microseconds are the finest there is."""
    after, after_id = repricing.at_time or repricing.since or _FIRST, (repricing.at_run if repricing.at_time else "")
    return RunCursor(project_id, after, after_id or "", repricing.until, repricing.provider, repricing.model)


def _add_up(before: Iterable[Mapping[str, Any]], project_id: str, recosts: Iterable[Recost]) -> list[dict[str, Any]]:
    """Add recosts to what was found before; amounts are texts, so that no digit is lost."""
    sums = {(one["project_id"], one["provider"], one["model"]): dict(one) for one in before}
    for each in recosts:
        old, new = each.run.cost.total_usd, each.cost.total_usd
        key = (project_id, each.run.provider, each.run.model)
        empty = {"runs": 0, "before_usd": "0", "after_usd": "0", "priced": 0, "unpriced": 0}
        one = sums.setdefault(key, dict(zip(("project_id", "provider", "model"), key, strict=True)) | empty)
        one["runs"] += 1
        one["before_usd"] = str(Decimal(one["before_usd"]) + (old or 0))
        one["after_usd"] = str(Decimal(one["after_usd"]) + (new or 0))
        one["priced"] += old is None and new is not None
        one["unpriced"] += old is not None and new is None
    return list(sums.values())


def _group(one: Mapping[str, Any]) -> Group:
    amounts = {name: Decimal(one[name]) for name in ("before_usd", "after_usd")}
    return Group(**{**one, **amounts})


def _target(repricing: Repricing) -> str:
    names = filter(None, (repricing.project_id, repricing.provider, repricing.model))
    return f"repricing {repricing.id}: {' '.join(names) or 'all runs'}"
