"""Build the chart of a metric: its series, its title and its table. Pure, except for the reader's time zone.

What can be added up (cost, runs, tokens) is drawn as bars with those of the previous period. What cannot (error rate,
percentiles) is a line, read from the runs of each bucket, never an average of averages. Either may be grouped by a
dimension: bars as stacks of the biggest groups and the rest, lines as one for each of the biggest.
"""

from collections.abc import Callable, Mapping, Sequence
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
from webapp.charts.axes import Ticks
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
    # All values of a dimension with a fixed order have a colour.
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
        Series(
            measure.name, BAD if metric is Metric.FAILED else "c1", tuple(measure.of(point.totals) for point in points)
        )
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
    said = f"{range_name(window.range)}: {sums.text(sum(sums.totals, Decimal(0)))} in total"
    is_alone = [series.name for series in stack] == [measure.name]
    return bars(
        _heading(measure.name, groups, window), window, sums, measure.ticks, said, has_key=not is_alone, marks=marks
    )


def bars(  # noqa: PLR0913  # What a chart is made of.
    heading: str,
    window: Window,
    sums: Sums,
    ticks: Callable[[Decimal], Ticks],
    summary: str,
    *,
    has_key: bool = True,
    marks: Sequence[Mark] = (),
) -> Chart:
    """Draw what can be added up as bars, the first series at the bottom."""
    sentence = f"{heading}. {summary}"
    if sums.before:
        when = "28 days earlier" if window.range is Range.MONTH else "the period before"
        sentence += f", {sums.text(sum(sums.before, Decimal(0)))} {when}"
    peak = max(range(len(sums.totals)), key=lambda number: sums.totals[number])
    if sums.totals[peak]:
        sentence += f". Highest: {sums.text(sums.totals[peak])}, {sums.titles[peak]}"
    return Chart(
        heading=heading,
        sentence=f"{sentence}.{_marked(marks)}",
        key=_entries(sums.stack) if has_key else (),
        has_previous=bool(sums.before),
        previous_name=sums.before_name,
        table=sums.table(),
        spec=specs.bars(),
        draw=lambda: Drawing(
            (axes.time(window), ticks(max([*sums.heights, *sums.before]))),
            {**sums.rows(), **mark_rows(marks, window)},
            sums.tips(),
        ),
        tip_rows=_entries(sums.stack[::-1]),
        marks=tuple(marks),
        summary=summary,
    )


def _line(summary: Summary, rate: Rate, marks: Sequence[Mark]) -> Chart:
    points = summary.points
    lines = [Series(one.name, one.slot, tuple(map(one.of, points))) for one in (rate, rate.second) if one is not None]
    values, texts = lines[0].values, [_text(rate, value) for value in lines[0].values]
    peak = max(range(len(points)), key=lambda number: values[number] or 0)
    highest = f" Highest: {texts[peak]}, {titles(summary.window)[peak]}." if values[peak] is not None else ""
    details = {name: [text(point) for point in points] for name, text in rate.details}
    details["Runs"] = [formats.count(point.totals.runs) for point in points]
    said = _said(summary, rate, is_grouped=False)
    heading = _heading(rate.name, None, summary.window)
    return lines_chart(
        heading, summary.window, lines, rate.ticks, rate.text, said, details=details, ending=highest, marks=marks
    )


def _lines(summary: Summary, rate: Rate, shown: Sequence[str], groups: Groups, marks: Sequence[Mark]) -> Chart:
    """Draw a line for each of these values."""

    def series(value: str) -> Series:
        points = (
            Point(
                start,
                summary.slices.get((number, (value,)), NO_RUNS),
                summary.slice_latencies.get((number, (value,)), NO_LATENCY),
            )
            for number, start in enumerate(summary.window.starts)
        )
        return Series(groups.name(value), groups.slots[value], tuple(map(rate.of, points)))

    lines = [series(value) for value in shown]
    heading, said = _heading(rate.name, groups, summary.window), _said(summary, rate, is_grouped=True)
    ending = f" Lines: {', '.join(line.name for line in lines)}."
    return lines_chart(heading, summary.window, lines, rate.ticks, rate.text, said, ending=ending, marks=marks)


def lines_chart(  # noqa: PLR0913, PLR0917  # What a chart is made of.
    heading: str,
    window: Window,
    lines: Sequence[Series],
    ticks: Callable[[float], Ticks],
    text: Callable[[float], str],
    said: str,
    *,
    details: Mapping[str, Sequence[str]] | None = None,
    sentence: str | None = None,
    ending: str = "",
    marks: Sequence[Mark] = (),
) -> Chart:
    """Draw lines of what cannot be added up; where nothing is known a line is broken.

    With details, which are further columns, all lines are of the same runs, and only the first is a column. Without a sentence
    of its own the chart says in one what its summary says, and what comes at the end.
    """
    names, (drawn, values, cut) = titles(window), scale(lines, ticks, text)
    is_alone = details is not None and len(lines) == 1
    shown = lines if details is None else lines[:1]
    columns: list[tuple[str, Sequence[str]]] = [
        (one.name, [formats.NOTHING if value is None else text(float(value)) for value in one.values]) for one in shown
    ]
    columns += (details or {}).items()
    cells, slots = [texts for _, texts in columns], {line.name: line.slot for line in lines}
    summary, (time, times) = "; ".join(filter(None, (said, cut))), time_column(names)
    rows = line_rows(drawn[0], is_over=window.is_over) if is_alone else lines_rows(drawn, is_over=window.is_over)
    return Chart(
        heading=heading,
        sentence=sentence or f"{heading}. {summary}.{ending}{_marked(marks)}",
        key=() if is_alone else _entries(lines),
        table=Table((time, *(name for name, _ in columns)), tuple(zip(times, *cells, strict=True))),
        spec=specs.line(lines[0].slot) if is_alone else specs.lines(),
        draw=lambda: Drawing(
            (axes.time(window), values),
            {**rows, **mark_rows(marks, window)},
            tuple(
                Tip(name, tuple(None if details is None and cell == formats.NOTHING else cell for cell in row))
                for name, *row in zip(names, *cells, strict=True)
            ),
        ),
        tip_rows=_entries(lines)
        if details is None
        else tuple(KeyEntry(name, slots.get(name, "")) for name, _ in columns),
        marks=tuple(marks),
        cut=cut,
        summary=summary,
    )


def _heading(name: str, groups: Groups | None, window: Window) -> str:
    by = "" if groups is None else f" by {words.in_sentence(groups.dimension)}"
    return f"{name}{by}, per {length_of_buckets(window)}"


def _said(summary: Summary, rate: Rate, *, is_grouped: bool) -> str:
    """Say the figure over all runs, where it is known."""
    whole = rate.of(Point(summary.window.start, summary.total, summary.latency))
    said = "the biggest groups" if whole is None and is_grouped else f"{_text(rate, whole)} over all runs"
    return f"{range_name(summary.window.range)}: {said}"


def _text(rate: Rate, value: Decimal | float | None) -> str:
    return formats.NOTHING if value is None else rate.text(float(value))


def _entries(stack: Sequence[Series]) -> tuple[KeyEntry, ...]:
    return tuple(KeyEntry(series.name, series.slot) for series in stack)


def _marked(marks: Sequence[Mark]) -> str:
    return f" Marked: {in_words(marks)}." if marks else ""
