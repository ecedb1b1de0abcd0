"""The keys that a project tracks: list, track, untrack."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import InvalidTrackedKey, NotFound
from runtally.models.dimension import MAX_TRACKED_KEYS, KeyState
from runtally.models.project import Project
from runtally.tracking import key_queries
from runtally.tracking.key_queries import KeyRow, SeenKey
from runtally.usage.dimensions import MAX_KEY_LENGTH, canonical_key, is_key

RUNS_LOOKED_AT = 2_000
SUGGESTED = 10


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
    rows = await key_queries.select_keys(session, project_id)
    return [Tracked(row.key, KeyState(row.state), _filled(row, now), row.complete_since) for row in rows]


async def list_seen(session: AsyncSession, project_id: str) -> Sequence[SeenKey]:
    """The keys of metadata that the newest runs have and the project does not track, the most frequent first."""
    tracked = {row.key for row in await key_queries.select_keys(session, project_id)}
    seen = await key_queries.select_seen(session, project_id, RUNS_LOOKED_AT, SUGGESTED + MAX_TRACKED_KEYS)
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
    names = await key_queries.select_default_names(session, key)
    await key_queries.track(session, project_id, key, [key] if names is None else names, now)
    record(session, by, Change("key.tracked", key, project_id))


async def untrack(session: AsyncSession, by: Actor, project_id: str, key: str, now: datetime) -> None:
    """Track a key no more; a job deletes its sums. Nothing happens where it is not tracked. Raises `NotFound`."""
    row = (await _locked(session, project_id)).get(canonical_key(key))
    if row is None or row.state == KeyState.DROPPING:
        return
    await key_queries.untrack(session, project_id, row, now)
    record(session, by, Change("key.untracked", row.key, project_id))


async def _locked(session: AsyncSession, project_id: str) -> dict[str, KeyRow]:
    """The keys of a project by name, which no one else changes until the transaction ends."""
    if await session.get(Project, project_id, with_for_update=True) is None:
        raise NotFound("There is no such project; `runtally projects list` shows all.")
    return {row.key: row for row in await key_queries.select_keys(session, project_id)}


def _filled(row: KeyRow, now: datetime) -> float:
    if row.state != KeyState.FILLING:
        return 1.0
    if row.filled_until is None or row.first_day is None:
        return 0.0
    days = (now.astimezone(UTC).date() - row.first_day).days + 1
    return min(max((row.filled_until - row.first_day).days / days, 0.0), 0.99)
