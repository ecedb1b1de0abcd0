"""The address of a comparison: what both sides have in common, and the filters and the time that only one of them has.

The parameters of a side are those of every page, with `a.` or `b.` before them: `?range=30d&a.model=one&b.model=other`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from api.current import services
from runtally.usage.dimensions import METADATA, MODEL, NO_VALUE, OTHER, Dimension
from runtally.usage.filter import NAMES, RunFilter
from runtally.usage.timeline import Timeline
from runtally.usage.window import CustomRange, TimeRange
from webapp import words
from webapp.charts.series import range_name
from webapp.pages.panel.panel import compared_with
from webapp.project_pages import COMPARE, FIRST, IMPLIED, SECOND
from webapp.view import MINUTES, View
from webapp.zone import FIELD, Calendar

BEFORE = "before"
"""The range of a side that is the period before that of the page."""
_MAX_VALUES = 2


class Side(Struct, frozen=True):
    """What one side has of its own."""

    name: str
    """`a` or `b`."""
    filter: RunFilter
    range: TimeRange | None = None
    """None for the range of the page, or for the period before that."""
    calendar: Calendar | None = None
    is_before: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str, query: Mapping[str, str], project_id: str) -> "Side":
        """Parse the parameters of a side; what cannot be read has a note and is left out."""
        start = f"{name}."
        said = {one.removeprefix(start): text for one, text in query.items() if one.startswith(start) and text}
        is_before = said.get("range") == BEFORE
        has_time = bool(said.keys() & {"range", "since", "until"}) and not is_before
        if is_before:
            del said["range"]
        if FIELD in query:
            said[FIELD] = query[FIELD]
        view = View.parse(said, project_id, COMPARE)
        notes = list(view.notes)
        if view.mistaken:
            notes.append("A start must be before its end, at most two years apart; another time is shown instead.")
            has_time = False
        return cls(
            name,
            view.filter,
            view.range if has_time else None,
            view.calendar if has_time else None,
            is_before,
            tuple(notes),
        )

    @property
    def query(self) -> dict[str, str]:
        found = dict(self.filter.query)
        if self.is_before:
            found["range"] = BEFORE
        elif self.calendar is not None:
            found["range"] = self.calendar.value
        elif isinstance(self.range, CustomRange):
            found |= {"since": self.range.since.strftime(MINUTES), "until": self.range.until.strftime(MINUTES)}
        elif self.range is not None:
            found["range"] = self.range.value
        return {f"{self.name}.{name}": value for name, value in found.items()}


class Comparison(Struct, frozen=True):
    """Two sides of a view, which has their parameters among its own."""

    view: View
    """What both sides have in common, and the dimension whose values can be chosen."""
    first: Side
    second: Side
    is_implied: bool = False
    """Whether the period before is compared because neither side has anything of its own."""

    @classmethod
    def parse(cls, query: Mapping[str, str], values: Sequence[str], project_id: str) -> "Comparison":
        """Parse the page of a query string; `values` are those of the parameter `value`.

        A page that says of neither side what it has of its own compares the range with the period before.
        """
        view = View.parse(query, project_id, COMPARE).replace(is_live=False)
        first, second = (Side.parse(name, query, project_id) for name in (FIRST, SECOND))
        if IMPLIED in query and (first.filter.is_narrowed or second.filter.is_narrowed):
            first = replace(first, is_before=False)
        notes = [*view.notes, *first.notes, *second.notes]
        chosen = [value for value in dict.fromkeys(values) if value and value not in {NO_VALUE, OTHER}]
        if len(chosen) > _MAX_VALUES:
            notes.append("Two are compared at a time: these are the first two of those that were chosen.")
        dimension = view.by or MODEL
        if len(chosen) == 1:
            view = view.replace(filter=view.filter.with_value(dimension, chosen[0]))
        elif chosen:
            # The page itself keeps no value of the dimension.
            view = view.replace(filter=view.filter.without_dimension(dimension))
            first, second = (
                replace(side, filter=side.filter.with_value(dimension, value))
                for side, value in zip((first, second), chosen, strict=False)
            )
        found = cls(view.replace(notes=tuple(notes)), first, second).of_sides(first, second)
        if found.view.own:
            return found
        return replace(found, first=replace(first, is_before=True), is_implied=True)

    def of_sides(self, first: Side, second: Side) -> "Comparison":
        """Return the comparison of other sides."""
        return Comparison(self.view.replace(own={**first.query, **second.query}), first, second)

    @property
    def dimension(self) -> Dimension:
        return self.view.by or MODEL

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.first, self.second

    @property
    def swapped_url(self) -> str:
        """Return the URL of the same comparison the other way round."""
        return self.of_sides(replace(self.second, name=FIRST), replace(self.first, name=SECOND)).view.url

    def url_with(self, side: Side, run_filter: RunFilter) -> str:
        """Return the URL of the comparison with another filter of a side."""
        changed = replace(side, filter=run_filter)
        first, second = (changed if one is side else one for one in self.sides)
        return self.of_sides(first, second).view.url

    def filter_of(self, side: Side) -> RunFilter:
        """Return the runs of a side: what it keeps itself goes before what the page keeps."""
        both = {**self.view.filter.query, **side.filter.query}
        return RunFilter.parse(both).replace(project_id=self.view.project_id)

    def timeline_of(self, side: Side, now: datetime) -> Timeline:
        """Return the time of a side as one bucket."""
        window = self.view.window(now)
        if side.is_before:
            window = window.previous(now)
        elif side.range is not None:
            window = View(range=side.range).window(now)
        return window.as_one_bucket()

    def period_of(self, side: Side) -> str:
        """Return what the time of a side is called."""
        if side.is_before:
            before = compared_with(self.view.range)
            return before[0].upper() + before[1:]
        if side.calendar is not None:
            return side.calendar.period(services().clock())
        return self.view.period if side.range is None else range_name(side.range)

    def parameter_of(self, side: Side) -> str:
        """Return the parameter with the side's value of the dimension."""
        name = self.dimension.name if self.dimension.name.startswith(METADATA) else NAMES[self.dimension.filter_field]
        return f"{side.name}.{name}"

    def name_of(self, side: Side, names: Mapping[str, str]) -> str:
        """Return what the runs of a side are called: the values that it keeps itself, else those that both keep."""
        kept = side.filter if side.filter.is_narrowed else self.view.filter
        return " · ".join(part.value for part in words.parts_of(kept, names)) or "All runs"
