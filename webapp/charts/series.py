"""Build the chart of a metric: its series, its title and its table. Pure, except for the reader's time zone.

What can be added up (cost, runs, tokens) is drawn as bars with those of the previous period. What cannot (error rate,
percentiles) is a line, read from the runs of each bucket, never an average of averages. Either may be grouped by a
dimension: bars as stacks of the biggest groups and the rest, lines as one for each of the biggest.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from msgspec import Struct, field

from runtally.models.run import Status
from runtally.usage.dimensions import OTHER, STATUS, Dimension
from runtally.usage.sketch import NO_LATENCY
from runtally.usage.summary import Point, Summary
from runtally.usage.totals import NO_RUNS
from runtally.usage.window import CustomRange, Range, TimeRange, Window
from webapp import formats, words
from webapp.charts import axes, specs
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.drawing import (
    Drawing,
    Series,
    Sums,
    Table,
    Tip,
    length_of_buckets,
    line_rows,
    lines_rows,
    scale,
    time_column,
    titles,
)
from webapp.charts.look import BAD, INPUT, OUTPUT, WARN
from webapp.charts.look import OTHER as OTHER_SLOT
from webapp.charts.marks import Mark, in_words
from webapp.charts.marks import rows as mark_rows
from webapp.charts.metrics import RATES, SUMS, Metric, Rate
from webapp.zone import local

MAX_SERIES = 8
MAX_LINES = 5
RANGE_NAMES = {Range.DAY: "Last 24 hours", Range.WEEK: "Last 7 days", Range.MONTH: "Last 30 days"}
PREVIOUS = "Previous period"
# Thirty days are compared weekday by weekday, which is not the period right before them, and must say so.
PREVIOUS_NAMES = {Range.DAY: PREVIOUS, Range.WEEK: PREVIOUS, Range.MONTH: "28 days earlier"}


def range_name(reach: TimeRange) -> str:
    """Return the name of a range, or the start and end of a custom one."""
    return (
        formats.between(local(reach.since), local(reach.until))
        if isinstance(reach, CustomRange)
        else RANGE_NAMES[reach]
    )


def previous_name(reach: TimeRange) -> str:
    return PREVIOUS if isinstance(reach, CustomRange) else PREVIOUS_NAMES[reach]


STATUS_SLOTS = {Status.SUCCESS: "c1", Status.ERROR: BAD, Status.TIMEOUT: WARN}


class Groups(Struct, frozen=True):
    """The groups of a chart: their dimension, their colours and their labels."""

    dimension: Dimension
    slots: Mapping[str, str]
    """The colours of values: of all that the chart shows by themselves, and of others that only the page around it names."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Values whose name is another text."""

    def name(self, value: str) -> str:
        return words.value_name(self.dimension, value, self.names)


def charted(summary: Summary, metric: Metric) -> list[str]:
    """Return the values that a chart shows one by one, the biggest first. One more, rather than a rest of one."""
    return _biggest(summary, metric, MAX_SERIES) if metric.is_sum else _biggest(summary, metric, MAX_LINES)


def chart(
    metric: Metric,
    summary: Summary,
    previous: Summary | None = None,
    groups: Groups | None = None,
    marks: Sequence[Mark] = (),
) -> Chart:
    """Return the chart of a metric, with a series for each group if there are groups.

    Lines have no previous period.
    """
    if metric.is_sum:
        return _bars(summary, previous, metric, groups, marks)
    rate = RATES[metric]
    if groups is None:
        return _line(summary, rate, marks)
    shown = charted(summary, metric)
    return _lines(summary, rate, [value for value in groups.slots if value in shown], groups, marks)


def _biggest(summary: Summary, metric: Metric, most: int) -> list[str]:
    of = SUMS[metric].of if metric in SUMS else lambda totals: Decimal(getattr(totals, RATES[metric].rank_by))
    [dimension] = summary.by
    found = {value: of(totals) for value, totals in summary.list_by(dimension).items() if value != OTHER}
    ranked = [value for value, size in sorted(found.items(), key=lambda item: -item[1]) if size]
    has_rest = (OTHER,) in summary.groups
    return ranked if metric.is_sum and len(ranked) == most + 1 and not has_rest else ranked[:most]


def _stack(summary: Summary, metric: Metric, groups: Groups) -> list[Series]:
    """Return the series from the bottom up: the biggest values with a colour each, then all others as one.

    How runs ended has an order of its own.
    """
    of = SUMS[metric].of
    [dimension] = summary.by
    # Of a dimension with a fixed order, all values have a colour.
    shown = (
        [status.value for status in STATUS_SLOTS if (status.value,) in summary.groups]
        if dimension == STATUS
        else [value for value in charted(summary, metric) if value in groups.slots]
    )
    sums: dict[str, list[Decimal]] = {value: [Decimal(0)] * summary.window.length for value in (*shown, OTHER)}
    for (number, (value,)), totals in summary.slices.items():
        sums[value if value in sums else OTHER][number] += of(totals)
    stack = [Series(groups.name(value), groups.slots[value], tuple(sums[value])) for value in shown if any(sums[value])]
    if any(sums[OTHER]):
        stack.append(Series(words.OTHER_NAME, OTHER_SLOT, tuple(sums[OTHER])))
    return stack


def _whole(summary: Summary, metric: Metric) -> list[Series]:
    """Return all runs as one series; for tokens, one of input and one of output."""
    points = summary.points
    if metric is Metric.TOKENS:
        return [
            Series("Input tokens", INPUT, tuple(Decimal(point.totals.input_tokens) for point in points)),
            Series("Output tokens", OUTPUT, tuple(Decimal(point.totals.output_tokens) for point in points)),
        ]
    measure = SUMS[metric]
    return [
        Series(measure.name, BAD if metric is Metric.FAILED else "c1", tuple(measure.of(one.totals) for one in points))
    ]


def _bars(
    summary: Summary, previous: Summary | None, metric: Metric, groups: Groups | None, marks: Sequence[Mark]
) -> Chart:
    window, measure = summary.window, SUMS[metric]
    stack = _whole(summary, metric) if groups is None else _stack(summary, metric, groups)
    before = tuple(measure.of(point.totals) for point in previous.points) if previous else ()
    sums = Sums(
        titles=titles(window),
        stack=tuple(stack),
        totals=tuple(measure.of(point.totals) for point in summary.points),
        before=before if any(before) else (),
        before_name=previous_name(window.range),
        text=measure.text,
        is_over=window.is_over,
    )
    heading = _heading(measure.name, groups, window)
    return Chart(
        heading=heading,
        sentence=f"{heading}. {_sentence(sums, window.range)}{_marked(marks)}",
        key=() if [series.name for series in stack] == [measure.name] else _entries(stack),
        has_previous=bool(sums.before),
        previous_name=sums.before_name,
        table=sums.table(),
        spec=specs.bars(),
        draw=lambda: Drawing(
            (axes.time(window), measure.ticks(max([*sums.heights, *sums.before]))),
            {**sums.rows(), **mark_rows(marks, window)},
            sums.tips(),
        ),
        tip_rows=_entries(stack[::-1]),
        marks=tuple(marks),
        summary=_summary(sums, window.range),
    )


def _line(summary: Summary, rate: Rate, marks: Sequence[Mark]) -> Chart:
    window, points = summary.window, summary.points
    names = titles(window)
    series = Series(rate.name, rate.slot, tuple(rate.of(point) for point in points))
    columns = {rate.name: [_text(rate, value) for value in series.values]}
    columns |= {name: [text(point) for point in points] for name, text in rate.details}
    columns["Runs"] = [formats.count(point.totals.runs) for point in points]
    heading = _heading(rate.name, None, window)
    time, times = time_column(names)
    peak = max(range(len(points)), key=lambda number: series.values[number] or 0)
    highest = f" Highest: {columns[rate.name][peak]}, {names[peak]}." if series.values[peak] is not None else ""
    second = (
        [] if rate.second is None else [Series(rate.second.name, rate.second.slot, tuple(map(rate.second.of, points)))]
    )
    lines, values, cut = scale([series, *second], rate.ticks, rate.text)
    slots = {one.name: one.slot for one in lines}
    in_short = _in_short(summary, rate, cut, is_grouped=False)
    is_over = window.is_over
    drawn = lines_rows(lines, is_over=is_over) if rate.second else line_rows(lines[0], is_over=is_over)
    return Chart(
        heading=heading,
        sentence=f"{heading}. {in_short}.{highest}{_marked(marks)}",
        key=_entries(lines) if rate.second else (),
        previous_name=previous_name(window.range),
        table=Table((time, *columns), tuple(zip(times, *columns.values(), strict=True))),
        spec=specs.lines() if rate.second else specs.line(rate.slot),
        draw=lambda: Drawing(
            (axes.time(window), values),
            {**drawn, **mark_rows(marks, window)},
            tuple(Tip(name, tuple(row)) for name, *row in zip(names, *columns.values(), strict=True)),
        ),
        tip_rows=tuple(KeyEntry(name, slots.get(name, "")) for name in columns),
        marks=tuple(marks),
        cut=cut,
        summary=in_short,
    )


def _lines(summary: Summary, rate: Rate, shown: Sequence[str], groups: Groups, marks: Sequence[Mark]) -> Chart:
    """Draw a line for each of these values."""
    window, starts = summary.window, summary.window.buckets
    names = titles(window)

    def series(value: str) -> Series:
        points = (
            Point(
                start,
                summary.slices.get((number, (value,)), NO_RUNS),
                summary.slice_latencies.get((number, (value,)), NO_LATENCY),
            )
            for number, start in enumerate(starts)
        )
        return Series(groups.name(value), groups.slots[value], tuple(map(rate.of, points)))

    lines = [series(value) for value in shown]
    columns = [[_text(rate, value) for value in one.values] for one in lines]
    drawn, values, cut = scale(lines, rate.ticks, rate.text)
    time, times = time_column(names)
    heading = _heading(rate.name, groups, window)
    listed = ", ".join(one.name for one in lines)
    in_short = _in_short(summary, rate, cut, is_grouped=True)
    return Chart(
        heading=heading,
        sentence=f"{heading}. {in_short}. Lines: {listed}.{_marked(marks)}",
        key=_entries(lines),
        previous_name=previous_name(window.range),
        table=Table((time, *(one.name for one in lines)), tuple(zip(times, *columns, strict=True))),
        spec=specs.lines(),
        draw=lambda: Drawing(
            (axes.time(window), values),
            {**lines_rows(drawn, is_over=window.is_over), **mark_rows(marks, window)},
            tuple(
                Tip(name, tuple(None if text == formats.NOTHING else text for text in row))
                for name, *row in zip(names, *columns, strict=True)
            ),
        ),
        tip_rows=_entries(lines),
        marks=tuple(marks),
        cut=cut,
        summary=in_short,
    )


def _heading(name: str, groups: Groups | None, window: Window) -> str:
    by = "" if groups is None else f" by {words.in_sentence(groups.dimension)}"
    return f"{name}{by}, per {length_of_buckets(window)}"


def _in_short(summary: Summary, rate: Rate, cut: str, *, is_grouped: bool) -> str:
    """Say the figure over all runs, where it is known, and what the axis cuts off."""
    whole = rate.of(Point(summary.window.start, summary.total, summary.latency))
    said = "the biggest groups" if whole is None and is_grouped else f"{_text(rate, whole)} over all runs"
    return "; ".join(filter(None, (f"{range_name(summary.window.range)}: {said}", cut)))


def _text(rate: Rate, value: Decimal | float | None) -> str:
    return formats.NOTHING if value is None else rate.text(float(value))


def _entries(stack: Sequence[Series]) -> tuple[KeyEntry, ...]:
    return tuple(KeyEntry(series.name, series.slot) for series in stack)


def _summary(sums: Sums, range_: TimeRange) -> str:
    return f"{range_name(range_)}: {sums.text(sum(sums.totals, Decimal(0)))} in total"


def _marked(marks: Sequence[Mark]) -> str:
    return f" Marked: {in_words(marks)}." if marks else ""


def _sentence(sums: Sums, range_: TimeRange) -> str:
    text = _summary(sums, range_)
    if sums.before:
        when = "28 days earlier" if range_ is Range.MONTH else "the period before"
        text += f", {sums.text(sum(sums.before, Decimal(0)))} {when}"
    peak = max(range(len(sums.totals)), key=lambda number: sums.totals[number])
    if sums.totals[peak]:
        text += f". Highest: {sums.text(sums.totals[peak])}, {sums.titles[peak]}"
    return f"{text}."
