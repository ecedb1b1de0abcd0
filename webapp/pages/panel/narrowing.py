"""Controls that narrow a report: filters, the range and one bucket of a chart; and the switch for live updates."""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from runtally.errors import InvalidFilter
from runtally.models.rollup import GRAINS
from runtally.usage.dimensions import NO_VALUE, OTHER, Dimension
from runtally.usage.window import CustomRange, Range, Window
from webapp import zone
from webapp.addresses import escaped_value
from webapp.view import MINUTES, View
from webapp.words import parts_of
from webapp.zone import Calendar

_SOME_VALUE = "some-value-of-a-dimension"
# No filter reads it as another value.
_PLAIN = re.compile(r"[!-~]([ -~]{0,98}[!-~])?")
MISTAKEN = "Choose a start before the end{reach}; clocks that go forward skip an hour."
_REACH = ", at most two years apart"


class Choice(Struct, frozen=True):
    """A link to another view of the same page."""

    name: str
    url: str
    is_chosen: bool


class Option(Struct, frozen=True):
    """A choice of a select field."""

    value: str
    name: str
    is_chosen: bool


class RangeMenu(Struct, frozen=True):
    """The usual ranges as a switch; a menu of the others, with a form."""

    usual: tuple[Choice, ...]
    others: tuple[Choice, ...]
    is_custom: bool
    since: str
    until: str
    error: str | None
    """What is wrong with the time that was asked for."""
    action: str
    hidden: tuple[tuple[str, str], ...]
    """What else the address says, and the form must send along."""

    @property
    def label(self) -> str:
        """The label of the closed menu."""
        if self.is_custom:
            return "Custom"
        return next((other.name for other in self.others if other.is_chosen), "More")

    @property
    def is_chosen(self) -> bool:
        return self.is_custom or any(other.is_chosen for other in self.others)

    @property
    def longer(self) -> tuple[Choice, ...]:
        """The ranges that an empty page offers: the longest preset, and a year, in which runs that ended long ago are found."""
        year = next((other for other in self.others if other.name == Calendar.YEAR.label), None)
        if year is None or year.is_chosen:
            return ()
        year = replace(year, name="12 months")
        return (year,) if self.usual[-1].is_chosen else (self.usual[-1], year)


def range_menu(  # noqa: PLR0913  # A switch, a menu and a form.
    usual: tuple[Choice, ...],
    others: tuple[Choice, ...],
    *,
    is_custom: bool,
    query: Mapping[str, str],
    action: str,
    error: str | None = None,
) -> RangeMenu:
    """Return the menu; the query says which time stands in the form, in UTC, and what else its page is about."""
    hidden = dict(zone.for_fields(query))
    since, until = hidden.pop("since", ""), hidden.pop("until", "")
    hidden.pop("range", None)
    return RangeMenu(usual, others, is_custom, since, until, error, action, tuple(hidden.items()))


def calendar_choices(chosen: Calendar | None, url_of: Callable[[Calendar], str]) -> tuple[Choice, ...]:
    return tuple(Choice(calendar.label, url_of(calendar), calendar is chosen) for calendar in Calendar)


class Chip(Struct, frozen=True):
    """A part of what narrows the page, and the page without it."""

    label: str
    value: str
    url: str


class LiveSwitch(Struct, frozen=True):
    """The switch of live mode: the page that is asked for again, and the one with the other mode."""

    url: str
    live_url: str
    is_live: bool


class Narrower(Struct, frozen=True):
    """The control of the range, and the switch of live mode; None where there is nothing to look on to."""

    ranges: RangeMenu
    live: LiveSwitch | None
    runs_url: str


def chips_of(view: View, names: Mapping[str, str] | None = None) -> tuple[Chip, ...]:
    """Return a chip for each filter, with a link to the page without it; `names` has those of keys, by their id."""
    return tuple(
        Chip(part.label, part.value, view.replace(filter=part.rest).url) for part in parts_of(view.filter, names)
    )


def toggled(view: View, dimension: Dimension, value: str) -> str | None:
    """Return the page of the runs with a value, or of any again if it is of these.

    None for what no filter keeps: the runs without a value, and those of all other values.
    """
    if value in {NO_VALUE, OTHER}:
        return None
    if view.filter.value_of(dimension) == value:
        return view.replace(filter=view.filter.without_dimension(dimension)).url
    try:
        return view.replace(filter=view.filter.with_value(dimension, value)).url
    except InvalidFilter:
        return None


def value_urls(view: View, dimension: Dimension) -> Callable[[str], str | None]:
    """Return a function from a value to what `toggled` returns; it is fast, for pages of many values."""
    written = toggled(view, dimension, _SOME_VALUE) or ""
    before, *after = written.split(_SOME_VALUE)
    chosen = {NO_VALUE, OTHER, view.filter.value_of(dimension)}

    def of(value: str) -> str | None:
        # Values of a few dimensions are no text.
        if len(after) != 1 or value in chosen or not _PLAIN.fullmatch(value):
            return toggled(view, dimension, value)
        return f"{before}{escaped_value(value)}{after[0]}"

    return of


def narrower_of(view: View, window: Window) -> Narrower:
    return Narrower(range_menu_of(view, window), live_switch(view, window), view.runs_url())


def live_switch(view: View, window: Window) -> LiveSwitch | None:
    """Return the switch of live mode; None for a time in which no new run can be seen."""
    if window.is_over:
        return None
    return LiveSwitch(view.url, view.replace(is_live=not view.is_live).url, view.is_live)


def range_menu_of(view: View, window: Window) -> RangeMenu:
    """Return the range control of a report."""
    rest = view.replace(range=Range.WEEK, is_live=False)
    since, until = view.mistaken or tuple(at.strftime(MINUTES) for at in (window.start, min(window.until, window.now)))
    return range_menu(
        tuple(Choice(range_.value, view.replace(range=range_).url, range_ is view.range) for range_ in Range),
        calendar_choices(view.calendar, lambda one: view.in_calendar(one).url),
        is_custom=view.calendar is None and isinstance(view.range, CustomRange),
        query={**rest.query, "since": since, "until": until},
        action=view.action,
        error=None if view.mistaken is None else f"{MISTAKEN.format(reach=_REACH)} Shown instead: {view.period}.",
    )


def narrower_urls(view: View, window: Window) -> tuple[str, ...]:
    """Return for each bucket the page of its time alone."""
    if window.interval <= GRAINS[0].length:
        return ()
    base = view.replace(range=Range.WEEK, is_live=False).url
    base += "&" if "?" in base else "?"
    starts = [start.strftime(MINUTES) for start in (*window.starts, window.end)]
    # Thousands of addresses: each built by itself would take longer than all else on the page.
    escaped = [start.replace(":", "%3A") for start in starts]
    return tuple(f"{base}since={since}&until={until}" for since, until in pairwise(escaped))
