"""The section of a project's settings about tracked keys: tracked ones, and suggestions."""

from dataclasses import dataclass
from datetime import datetime

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.models.dimension import MAX_TRACKED_KEYS, KeyState
from runtally.tracking import keys
from webapp.form import Form

TRACK_FORM = Form("track")


@dataclass(frozen=True, slots=True)
class TrackedKeyRow:
    """A key that is tracked, or whose sums are being deleted."""

    key: str
    state: str
    percent: int | None
    """Share of the past that is counted, while it is being counted."""
    may_untrack: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A key that runs have and that is not tracked."""

    key: str
    said: str


@dataclass(frozen=True, slots=True)
class TrackedKeysPart:
    """The tracked keys, suggestions and progress that the settings page shows."""

    rows: tuple[TrackedKeyRow, ...]
    suggestions: tuple[Suggestion, ...]
    most: int = MAX_TRACKED_KEYS
    form: Form = TRACK_FORM

    @property
    def count(self) -> int:
        return sum(row.may_untrack for row in self.rows)

    @property
    def is_under_way(self) -> bool:
        """Whether a key is being filled or deleted, so that the section should refresh itself."""
        return any(row.state for row in self.rows)


async def tracked_keys_part(session: AsyncSession, project_id: str, now: datetime) -> TrackedKeysPart:
    tracked = await keys.list_keys(session, project_id, now)
    seen = await keys.list_seen(session, project_id)
    return TrackedKeysPart(
        tuple(_row(one) for one in tracked),
        tuple(
            Suggestion(one.key, f"{one.values:,} {'value' if one.values == 1 else 'values'} in {one.runs:,} runs")
            for one in seen
        ),
    )


def _row(tracked: keys.Tracked) -> TrackedKeyRow:
    percent = int(100 * tracked.filled)
    state = {
        KeyState.FILLING: f"Counting earlier runs: {percent}%",
        KeyState.DROPPING: "Deleting its totals",
    }.get(tracked.state, "")
    is_filling = tracked.state is KeyState.FILLING
    return TrackedKeyRow(tracked.key, state, percent if is_filling else None, tracked.state is not KeyState.DROPPING)
