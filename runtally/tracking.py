"""The keys that a project tracks, whose sums are kept: list, track, untrack."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NamedTuple

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import NO_PROJECT, InvalidTrackedKey, NotFound
from runtally.models.dimension import EVERY_PROJECT, MAX_TRACKED_KEYS, KeyState
from runtally.models.project import Project
from runtally.usage.dimensions import MAX_KEY_LENGTH, canonical_key, is_key
from runtally.usage.sums.tables import first_day
from runtally.usage.sums.values import keys_of

RUNS_LOOKED_AT = 2_000
SUGGESTED = 10


SELECT_KEYS = f"""
  SELECT keys.key,
         keys.id,
         keys.names,
         coalesce(own.state, 'tracked') AS state,
         own.filled_until,
         own.complete_since,
         ({first_day("$1")})::date AS first_day
    FROM ({keys_of("SELECT $1::text AS project_id", "('tracked', 'filling', 'dropping')")}) AS keys
         LEFT JOIN tracked_keys AS own
                ON own.project_id = $1 AND own.key = keys.key
ORDER BY keys.key
"""
# A key that is tracked anew has another number, as its sums begin anew.
TRACK = """
INSERT INTO tracked_keys (project_id, key, names, state, changed_at)
     VALUES ($1, $2, $3, 'filling', $4)
ON CONFLICT (project_id, key) DO UPDATE
        SET id = excluded.id, names = excluded.names, state = 'filling', changed_at = $4, filled_until = NULL,
            complete_since = NULL
"""
UNTRACK = """
INSERT INTO tracked_keys (project_id, key, id, names, state, changed_at)
     VALUES ($1, $2, $3, $4, 'dropping', $5)
ON CONFLICT (project_id, key) DO UPDATE
        SET state = 'dropping', changed_at = $5
"""
SELECT_DEFAULT_NAMES = f"SELECT names FROM tracked_keys WHERE project_id = '{EVERY_PROJECT}' AND key = $1"


# Lists and objects are hardly what anybody groups by.
SELECT_SEEN = """
  SELECT key, count(DISTINCT value #>> '{}') AS values, count(*) AS runs
    FROM (SELECT metadata
            FROM runs
           WHERE project_id = $1
        ORDER BY occurred_at DESC
           LIMIT $2) AS newest
         CROSS JOIN LATERAL jsonb_each(metadata) AS each (key, value)
   WHERE jsonb_typeof(metadata) = 'object' AND jsonb_typeof(value) IN ('string', 'number', 'boolean')
GROUP BY key
ORDER BY runs DESC, key
   LIMIT $3
"""


class SeenKey(NamedTuple):
    """A key of metadata, how many values of it were seen, and in how many runs."""

    key: str
    values: int
    runs: int


class KeyRow(NamedTuple):
    """A key that a project tracks, or whose sums it still has."""

    key: str
    id: int
    names: list[str]
    state: str
    filled_until: date | None
    complete_since: date | None
    first_day: date | None


@dataclass(frozen=True, slots=True)
class Tracked:
    """A key that a project tracks."""

    key: str
    state: KeyState
    filled: float
    """Share of the days of the project whose runs are counted; below 1 nothing is read from its sums."""
    complete_since: date | None = None
    """The first day of its sums, where runs of earlier ones were deleted before it became tracked."""


async def list_keys(session: AsyncSession, project_id: str, now: datetime) -> Sequence[Tracked]:
    """The keys that a project tracks, by name; those whose sums are being deleted as well."""
    rows = await select_keys(session, project_id)
    return [Tracked(row.key, KeyState(row.state), _filled(row, now), row.complete_since) for row in rows]


async def list_seen(session: AsyncSession, project_id: str) -> Sequence[SeenKey]:
    """The keys of metadata that the newest runs have and the project does not track, the most frequent first."""
    tracked = {row.key for row in await select_keys(session, project_id)}
    asked = (project_id, RUNS_LOOKED_AT, SUGGESTED + MAX_TRACKED_KEYS)
    rows = await (await session.connection()).exec_driver_sql(SELECT_SEEN, asked)
    seen = [SeenKey(*row) for row in rows]
    return [one for one in seen if is_key(one.key) and canonical_key(one.key) not in tracked][:SUGGESTED]


async def track(session: AsyncSession, by: Actor, project_id: str, key: str, now: datetime) -> None:
    """Track a key from now on; a job counts the runs of before. Nothing happens where it is tracked.

    Raises `InvalidTrackedKey` and `NotFound`.
    """
    key = canonical_key(key)
    if not is_key(key):
        raise InvalidTrackedKey(f"Name a key of metadata with 1 to {MAX_KEY_LENGTH} characters.")
    rows = await _locked(session, project_id)
    state = rows[key].state if key in rows else None
    if state == KeyState.DROPPING:
        raise InvalidTrackedKey("The sums of this key are still being deleted; track it again in a minute.")
    if state is not None:
        return
    if sum(row.state != KeyState.DROPPING for row in rows.values()) >= MAX_TRACKED_KEYS:
        raise InvalidTrackedKey(f"A project tracks at most {MAX_TRACKED_KEYS} keys: untrack another one first.")
    connection = await session.connection()
    # The names that a key of all projects is read from.
    names = (await connection.exec_driver_sql(SELECT_DEFAULT_NAMES, (key,))).scalar()
    values = (project_id, key, [key] if names is None else names, now)
    await connection.exec_driver_sql(TRACK, values)
    record(session, by, Change("key.tracked", key, project_id))


async def untrack(session: AsyncSession, by: Actor, project_id: str, key: str, now: datetime) -> None:
    """Track a key no more; a job deletes its sums. Nothing happens where it is not tracked. Raises `NotFound`."""
    row = (await _locked(session, project_id)).get(canonical_key(key))
    if row is None or row.state == KeyState.DROPPING:
        return
    values = (project_id, row.key, row.id, row.names, now)
    await (await session.connection()).exec_driver_sql(UNTRACK, values)
    record(session, by, Change("key.untracked", row.key, project_id))


async def _locked(session: AsyncSession, project_id: str) -> dict[str, KeyRow]:
    """The keys of a project by name, which no one else changes until the transaction ends."""
    if await session.get(Project, project_id, with_for_update=True) is None:
        raise NotFound(NO_PROJECT)
    return {row.key: row for row in await select_keys(session, project_id)}


def _filled(row: KeyRow, now: datetime) -> float:
    if row.state != KeyState.FILLING:
        return 1.0
    if row.filled_until is None or row.first_day is None:
        return 0.0
    days = (now.astimezone(UTC).date() - row.first_day).days + 1
    return min(max((row.filled_until - row.first_day).days / days, 0.0), 0.99)


async def select_keys(session: AsyncSession, project_id: str) -> list[KeyRow]:
    """The keys of a project by name: its own, and those of all projects."""
    rows = await (await session.connection()).exec_driver_sql(SELECT_KEYS, (project_id,))
    return [KeyRow(*row) for row in rows]
