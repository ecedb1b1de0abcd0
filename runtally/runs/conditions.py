"""The conditions of a walk over runs: a filter's, and where the walk begins and ends. Pure."""

from collections.abc import Iterator
from datetime import datetime

from runtally.runs.position import Direction, Position, Stretch
from runtally.usage.filter import Conditions, RunFilter


def conditions_of(
    run_filter: RunFilter, now: datetime, position: Position | None = None, stretch: Stretch | None = None
) -> Conditions:
    """Return what to look for from a position on, within a stretch; without these, over the filter's whole time."""
    found = Conditions.of(run_filter).during(run_filter.starts_at(now), run_filter.until)
    position = position or Position()
    found.walked += _beyond(found, position)
    if stretch is not None:
        older = position.direction is Direction.OLDER
        found.during(*((stretch.end, stretch.begin) if older else (stretch.begin, stretch.end)))
        if stretch.models is not None:
            found.walked.append(f"model = ANY({found.value(stretch.models, 'text[]')})")
    return found


def _beyond(found: Conditions, position: Position) -> Iterator[str]:
    if position.place is None:
        return
    place = position.place
    sign = "<" if position.direction is Direction.OLDER else ">"
    at = found.value(place.occurred_at, "timestamptz")
    # The first is implied by the second, but it is the one that an index over the time understands best.
    yield f"occurred_at {sign}= {at}"
    yield f"(occurred_at, id, project_id) {sign} ({at}, {found.value(place.id)}, {found.value(place.project_id)})"
