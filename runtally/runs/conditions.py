"""Build the SQL conditions of a scan over runs from its filter, its start and its end. Pure."""

from collections.abc import Iterator
from datetime import datetime

from runtally.runs.position import Direction, Position, ScanBounds
from runtally.usage.conditions import Conditions
from runtally.usage.dimensions import OTHER_NAME
from runtally.usage.filter import RunFilter


def conditions_of(
    run_filter: RunFilter,
    now: datetime,
    position: Position | None = None,
    bounds: ScanBounds | None = None,
    kind: type[Conditions] = Conditions,
) -> Conditions:
    """Return the conditions of a scan from a position on, within bounds; without these, over the filter's whole time."""
    found = kind.of(run_filter).during(run_filter.starts_at(now), run_filter.ends_at(now))
    position = position or Position()
    found.walked += _beyond(found, position)
    if bounds is not None:
        older = position.direction is Direction.OLDER
        found.during(*((bounds.end, bounds.begin) if older else (bounds.begin, bounds.end)))
        # Runs that count as another model have a name of their own.
        if bounds.models is not None and OTHER_NAME not in bounds.models:
            found.walked.append(f"model = ANY({found.value(bounds.models, 'text[]')})")
    return found


def _beyond(found: Conditions, position: Position) -> Iterator[str]:
    if position.place is None:
        return
    place = position.place
    sign = "<" if position.direction is Direction.OLDER else ">"
    at = found.value(place.occurred_at, "timestamptz")
    # The second condition implies the first, but an index over the time serves the first best.
    yield f"occurred_at {sign}= {at}"
    yield f"(occurred_at, id, project_id) {sign} ({at}, {found.value(place.id)}, {found.value(place.project_id)})"
