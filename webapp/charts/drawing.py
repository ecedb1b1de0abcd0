"""Convert series to the data of a spec, the texts of tooltips and the table. Pure, except for the reader's time zone.

Money becomes a float here, to be drawn, and only here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from runtally.usage.window import Window
from webapp import formats, zone
from webapp.charts import axes
from webapp.charts.axes import Ticks
from webapp.charts.specs import Rows

_LEAST_POINTS = 10
"""None of fewer points is unusual."""
_FAR_ABOVE = 5
_UTC = re.compile(r" UTC(?=$|,)")


class Series(Struct, frozen=True):
    """A name, its colour, and one value per bucket; None where there is none, which is not 0."""

    name: str
    slot: str
    values: tuple[Decimal | float | None, ...]


class Table(Struct, frozen=True):
    """The figures of a chart, as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Tip(Struct, frozen=True):
    """The text of a bucket's tooltip for each of its rows; None for a row that is left out."""

    title: str
    values: tuple[str | None, ...]
    total: str | None = None
    previous: str | None = None

    def as_json(self) -> dict[str, object]:
        summary = {"total": self.total, "previous": self.previous}
        shown = {name: text for name, text in summary.items() if text is not None}
        return {"title": self.title, "values": self.values, **shown}


class Drawing(Struct, frozen=True):
    """The data that a browser needs to draw a chart."""

    ticks: tuple[Ticks, Ticks]
    """The titles of the horizontal and of the vertical axis."""
    datasets: Mapping[str, Rows]
    tips: tuple[Tip, ...]


class Sums(Struct, frozen=True):
    """A chart of sums: a stack of series, its totals, and the totals of the previous period."""

    titles: tuple[str, ...]
    stack: tuple[Series, ...]
    """The series, from the bottom up."""
    totals: tuple[Decimal, ...]
    before: tuple[Decimal, ...]
    """Empty without a previous period."""
    before_name: str
    text: Callable[[Decimal], str]
    is_over: bool = False
    """Whether the last bucket is unfinished."""

    @property
    def heights(self) -> tuple[Decimal, ...]:
        """Return the height of each bar, which exceeds its total if runs are part of several series, or some are below zero."""
        if not self.stack:
            return self.totals
        return tuple(
            sum((max(_amount(value), Decimal(0)) for value in values), Decimal(0))
            for values in zip(*(one.values for one in self.stack), strict=True)
        )

    def rows(self) -> Mapping[str, Rows]:
        """The datasets of `specs.bars`."""
        return {
            "segments": _segments(self.stack, len(self.totals)),
            "open": [] if self.is_over or not self.totals[-1] else [_top(len(self.totals) - 1, self.heights[-1])],
            "previous": [_top(number, value) for number, value in enumerate(self.before)],
            "buckets": _columns(len(self.totals)),
        }

    def table(self) -> Table:
        columns = [(series.name, [_amount(value) for value in series.values]) for series in self.stack]
        if len(self.stack) != 1:
            columns.append(("Total", list(self.totals)))
        if self.before:
            columns.append((self.before_name, list(self.before)))
        cells = [[self.text(value) for value in values] for _, values in columns]
        time, times = time_column(self.titles)
        return Table((time, *(name for name, _ in columns)), tuple(zip(times, *cells, strict=True)))

    def tips(self) -> tuple[Tip, ...]:
        return tuple(self._tip(number, title) for number, title in enumerate(self.titles))

    def _tip(self, number: int, title: str) -> Tip:
        """Return the rows of tooltips: the stack from the top down, then the sum and the previous one."""
        is_single = len(self.stack) == 1
        parts = [_amount(series.values[number]) for series in reversed(self.stack)]
        return Tip(
            title,
            # What is not in the bar is left out, but a bar of one series says 0.
            tuple(self.text(part) if part or is_single else None for part in parts),
            None if is_single else self.text(self.totals[number]),
            self.text(self.before[number]) if self.before else None,
        )


def scale(
    lines: Sequence[Series], ticks: Callable[[float], Ticks], text: Callable[[float], str]
) -> tuple[Sequence[Series], Ticks, str]:
    """Choose the axis of lines: the lines as they are drawn, its ticks, and in words what lies beyond it; empty where nothing does.

    A few times that are far above all others of their line end at the axis: one call that hung would flatten all others. Shares
    and rates are drawn whole, since a peak is what they are looked at for.
    """
    known = [[float(value) for value in line.values if value is not None] for line in lines]
    highest = max((value for values in known for value in values), default=0.0)
    reach = max(map(_reach, known), default=0.0) if ticks is axes.duration else highest
    axis = ticks(reach)
    top = axis.values[-1]
    beyond = sum(value > top for values in known for value in values)
    if not beyond:
        return lines, axis, ""
    drawn = [replace(line, values=tuple(value and min(value, top) for value in line.values)) for line in lines]
    return drawn, axis, f"{beyond} of {sum(map(len, known)):,} points beyond the axis, up to {text(highest)}"


def _reach(values: Sequence[float]) -> float:
    """Return the highest of some values, without those that are far above nine in ten of them."""
    highest = max(values, default=0.0)
    if len(values) < _LEAST_POINTS:
        return highest
    usual = sorted(values)[len(values) * 9 // 10 - 1]
    return max((value for value in values if value <= usual * _FAR_ABOVE), default=highest)


def line_rows(series: Series, *, is_over: bool = False) -> Mapping[str, Rows]:
    """The datasets of `specs.line`; mostly the last bucket is not over."""
    return {"points": _points(series, is_over=is_over), "buckets": _columns(len(series.values))}


def lines_rows(lines: Sequence[Series], *, is_over: bool = False) -> Mapping[str, Rows]:
    """The datasets of `specs.lines`."""
    rows = [{**row, "slot": line.slot} for line in lines for row in _points(line, is_over=is_over)]
    return {"points": rows, "buckets": _columns(len(lines[0].values) if lines else 0)}


def _points(series: Series, *, is_over: bool) -> list[dict[str, object]]:
    values = series.values
    last = len(values) + 1 if is_over else len(values) - 1
    known = [value is not None for value in (None, *values, None)]
    rows: list[dict[str, object]] = []
    for number, value in enumerate(values):
        marks = {
            "open": number == last,
            "tail": number >= last - 1,
            "alone": known[number + 1] and not known[number] and not known[number + 2],
        }
        row: dict[str, object] = {"i": number, "y": None if value is None else _drawn(value)}
        rows.append(row | {name: 1 for name, is_so in marks.items() if is_so})
    return rows


def titles(window: Window) -> tuple[str, ...]:
    """Return the name of each bucket; usually the last one is not over."""
    starts = window.starts
    if window.is_by_month:
        names = tuple(f"{formats.month(start)} {formats.zone_name(start)}" for start in starts)
    else:
        names = _names(starts, window.interval, zone.current())
    return names if window.is_over else (*names[:-1], f"{names[-1]}, so far")


def length_of_buckets(window: Window) -> str:
    """Return the length of a bucket as it follows "per": hour, day, month."""
    return "month" if window.is_by_month else formats.interval(window.interval)


# The charts of a page have the same ones, and so has the page when it is asked for again.
@lru_cache(maxsize=64)
def _names(starts: tuple[datetime, ...], interval: timedelta, of_reader: tzinfo) -> tuple[str, ...]:
    return tuple(formats.bucket(start, interval, of_reader) for start in starts)


def time_column(titles: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Heading and rows of a table by buckets: the heading says UTC for all, while other zones have a summer time."""
    if all(map(_UTC.search, titles)):
        return "Time (UTC)", [_UTC.sub("", title) for title in titles]
    return "Time", titles


def _top(number: int, value: Decimal) -> dict[str, object]:
    return {"i": number, "y": _drawn(value)}


def _segments(stack: Sequence[Series], buckets: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number in range(buckets):
        bottom = Decimal(0)
        for series in stack:
            # What is below zero has no room in a bar; table and tooltips have it.
            top = bottom + max(_amount(series.values[number]), Decimal(0))
            if top > bottom:
                rows.append({"i": number, "y0": _drawn(bottom), "y1": _drawn(top), "slot": series.slot})
            bottom = top
    return rows


def _amount(value: Decimal | float | None) -> Decimal:
    return Decimal(value or 0)


def _columns(buckets: int) -> list[dict[str, object]]:
    return [{"i": number} for number in range(buckets)]


def _drawn(value: Decimal | float) -> float:
    """Six digits: a thousandth of a pixel, whatever the scale."""
    return float(f"{value:.6g}")
