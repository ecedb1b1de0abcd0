"""A filter as SQL, in two parts: which stretch of an index is walked, and which of the runs met there are kept. Pure.

The parts are apart because a walk is bounded: a filter that hardly any run passes must not read a whole table for a
page. See `read`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from runtally.runs.filters import Outcome, RunFilter
from runtally.runs.position import Direction, Position, Stretch


@dataclass(slots=True)
class Conditions:
    """Conditions and the values of their parameters; `walked` are answered by an index, `kept` run by run."""

    walked: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)
    is_of_project: bool = True
    """Whether they name one project, so that one index is walked."""

    def value(self, value: object, kind: str = "text") -> str:
        """The placeholder of a value."""
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    @property
    def walk(self) -> str:
        return " AND ".join(self.walked) or "TRUE"

    @property
    def keep(self) -> str:
        return " AND ".join(self.kept) or "TRUE"


def conditions_of(
    sought: RunFilter, now: datetime, position: Position | None = None, stretch: Stretch | None = None
) -> Conditions:
    """What to look for from a position on, within a stretch; without these, over the filter's whole time."""
    found = Conditions(is_of_project=sought.project_id is not None)
    position = position or Position()
    found.walked += _time(found, sought, now, position)
    if stretch is not None:
        found.walked += _stretch(found, stretch, position.direction)
    found.walked += _indexed(found, sought)
    found.kept += _names(found, sought)
    found.kept += _numbers(found, sought)
    found.kept += _metadata(found, sought)
    return found


def _stretch(found: Conditions, stretch: Stretch, direction: Direction) -> Iterator[str]:
    older = direction is Direction.OLDER
    since, until = (stretch.end, stretch.begin) if older else (stretch.begin, stretch.end)
    if since is not None:
        yield f"occurred_at >= {found.value(since, 'timestamptz')}"
    if until is not None:
        yield f"occurred_at < {found.value(until, 'timestamptz')}"
    if stretch.models is not None:
        yield f"model = ANY({found.value(stretch.models, 'text[]')})"


def _time(found: Conditions, sought: RunFilter, now: datetime, position: Position) -> Iterator[str]:
    if sought.project_id is not None:
        yield f"project_id = {found.value(sought.project_id)}"
    if since := sought.starts_at(now):
        yield f"occurred_at >= {found.value(since, 'timestamptz')}"
    if sought.until:
        yield f"occurred_at < {found.value(sought.until, 'timestamptz')}"
    if position.place is not None:
        place = position.place
        sign = "<" if position.direction is Direction.OLDER else ">"
        at = found.value(place.occurred_at, "timestamptz")
        # The first is implied by the second, but it is the one that an index over the time understands best.
        yield f"occurred_at {sign}= {at}"
        yield f"(occurred_at, id, project_id) {sign} ({at}, {found.value(place.id)}, {found.value(place.project_id)})"


def _indexed(found: Conditions, sought: RunFilter) -> Iterator[str]:
    if sought.trace_id is not None:
        yield f"trace_id = {found.value(sought.trace_id)}"
    if sought.experiment_id is not None:
        yield f"experiment_id = {found.value(sought.experiment_id)}"
    if sought.search is not None:
        text = found.value(sought.search)
        yield f"(id = {text} OR trace_id = {text})"
    if sought.status not in {None, Outcome.SUCCESS}:
        yield "status <> 'success'"


def _names(found: Conditions, sought: RunFilter) -> Iterator[str]:
    if sought.provider is not None:
        yield f"provider = {found.value(sought.provider)}"
    if sought.model is not None:
        yield f"model = {found.value(sought.model)}"
    # That it failed is known from the walk.
    if sought.status not in {None, Outcome.FAILED}:
        yield f"status = {found.value(str(sought.status))}"


def _numbers(found: Conditions, sought: RunFilter) -> Iterator[str]:
    if sought.min_cost_usd is not None:
        yield f"cost_usd >= {found.value(sought.min_cost_usd, 'numeric')}"
    if sought.max_cost_usd is not None:
        yield f"cost_usd <= {found.value(sought.max_cost_usd, 'numeric')}"
    if sought.min_latency_ms is not None:
        yield f"latency_ms >= {found.value(sought.min_latency_ms, 'bigint')}"
    if sought.max_latency_ms is not None:
        yield f"latency_ms <= {found.value(sought.max_latency_ms, 'bigint')}"


def _metadata(found: Conditions, sought: RunFilter) -> Iterator[str]:
    if sought.metadata_key is None:
        return
    key = found.value(sought.metadata_key)
    if sought.metadata_value is None:
        yield f"metadata ? {key}"
        return
    value = found.value(sought.metadata_value)
    # A key with dots is one key, or the way down to one.
    below = f" OR metadata #>> string_to_array({key}, '.') = {value}" if "." in sought.metadata_key else ""
    yield f"(metadata ->> {key} = {value}{below})"
