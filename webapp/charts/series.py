"""Metrics to charts: what is drawn, in words, and as a table. Pure, but for the reader's time zone.

What can be added up (cost, runs, tokens) is drawn as bars beside those of the previous period. What cannot (error rate,
percentiles) is a line, read from the runs of each bucket, never an average of averages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from runtally.models.run import Status
from runtally.usage.dimensions import MODEL, PROVIDER
from runtally.usage.summary import Point, Summary
from runtally.usage.totals import Totals
from runtally.usage.window import CustomRange, Range, TimeRange
from webapp import formats
from webapp.charts import axes, specs
from webapp.charts.axes import Ticks
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.colours import BAD, INPUT, OTHER, OUTPUT, WARN
from webapp.charts.drawing import Drawing, Mark, Series, Sums, Table, Tip, line_rows, time_column, titles
from webapp.zone import local

OTHER_NAME = "Other"
MAX_SERIES = 5
LEAST_ERROR_AXIS = 0.05
"""The least maximum of error rates: one failed run of a hundred should not fill the chart."""
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


class Split(StrEnum):
    """The grouping by which cost is stacked."""

    MODEL = "model"
    PROVIDER = "provider"
    STATUS = "status"


STATUS_SLOTS = {Status.SUCCESS: "c1", Status.ERROR: BAD, Status.TIMEOUT: WARN}


def charted(summary: Summary, by: Split) -> list[str]:
    """Return the names that a cost chart shows one by one, the costliest first. One more, rather than a rest of one."""
    dimension = MODEL if by is Split.MODEL else PROVIDER
    costing = [name for name, totals in summary.list_by(dimension).items() if totals.cost_usd]
    return costing if len(costing) == MAX_SERIES + 1 else costing[:MAX_SERIES]


def cost(
    summary: Summary, previous: Summary | None, by: Split, slots: Mapping[str, str], marks: Sequence[Mark] = ()
) -> Chart:
    """Cost per bucket, stacked by model or provider: the costliest at the bottom, names without a colour as "Other".

    Or by status, from success up.

    The marks say when a price changed.
    """
    measure = _Measure(f"Cost by {by}", formats.money, axes.money, lambda totals: totals.cost_usd)
    stack = _statuses(summary) if by is Split.STATUS else _stack(summary, by, slots)
    return _bars(summary, previous, stack, measure, marks)


def runs(summary: Summary, previous: Summary | None) -> Chart:
    """Runs per bucket."""
    stack = [_added(summary, "Runs", "c1", lambda totals: totals.runs)]
    return _bars(summary, previous, stack, _Measure("Runs", _whole, axes.count, lambda totals: Decimal(totals.runs)))


def tokens(summary: Summary, previous: Summary | None) -> Chart:
    """Input and output tokens per bucket."""
    stack = [
        _added(summary, "Input tokens", INPUT, lambda totals: totals.input_tokens),
        _added(summary, "Output tokens", OUTPUT, lambda totals: totals.output_tokens),
    ]
    return _bars(
        summary, previous, stack, _Measure("Tokens", _short, axes.count, lambda totals: Decimal(totals.tokens))
    )


def errors(summary: Summary) -> Chart:
    """Share of failed runs in each bucket that has runs."""
    rate = _Rate(
        name="Error rate",
        slot="bad",
        of=lambda point: point.totals.error_rate if point.totals.runs else None,
        text=formats.percent,
        ticks=lambda highest: axes.percent(max(highest, LEAST_ERROR_AXIS)),
        whole=formats.percent(summary.total.error_rate) if summary.total.runs else formats.NOTHING,
        details={"Failed runs": lambda point: formats.count(point.totals.failed)},
    )
    return _line(summary, rate)


def latency(summary: Summary) -> Chart:
    """95th percentile of latency in each bucket that has any."""
    rate = _Rate(
        name="p95 latency",
        slot="accent",
        of=lambda point: float(point.latency.p95_ms) if point.latency.p95_ms else None,
        text=_milliseconds,
        ticks=axes.duration,
        whole=formats.duration(summary.latency.p95_ms) if summary.latency.p95_ms else formats.NOTHING,
        details={"p50": lambda point: formats.duration(point.latency.p50_ms)},
    )
    return _line(summary, rate)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Build a chart of sums."""

    name: str
    text: Callable[[Decimal], str]
    ticks: Callable[[Decimal], Ticks]
    of: Callable[[Totals], Decimal]


@dataclass(frozen=True, slots=True)
class _Rate:
    """Build a line of values that cannot be added up, with the value over the whole window."""

    name: str
    slot: str
    of: Callable[[Point], float | None]
    text: Callable[[float], str]
    ticks: Callable[[float], Ticks]
    whole: str
    details: Mapping[str, Callable[[Point], str]]


def _added(summary: Summary, name: str, slot: str, of: Callable[[Totals], int]) -> Series:
    return Series(name, slot, tuple(Decimal(of(point.totals)) for point in summary.points))


def _stack(summary: Summary, by: Split, slots: Mapping[str, str]) -> list[Series]:
    """Return the series from the bottom up: the most expensive names with a colour each, then all others as one."""
    dimension = MODEL if by is Split.MODEL else PROVIDER
    place = summary.by.index(dimension)
    costing = [name for name, totals in summary.list_by(dimension).items() if totals.cost_usd]
    shown = [name for name in costing if name in slots]
    others = len(costing) > len(shown)
    sums: dict[str | None, list[Decimal]] = {name: [Decimal(0)] * summary.window.length for name in (*shown, None)}
    for (number, group), totals in summary.cells.items():
        name = group[place]
        sums[name if name in sums else None][number] += totals.cost_usd

    def series(key: str | None, name: str, slot: str) -> Series:
        return Series(name, slot, tuple(sums[key]))

    stack = [series(name, name, slots[name]) for name in shown]
    if others:
        stack.append(series(None, OTHER_NAME, OTHER))
    return stack


def _statuses(summary: Summary) -> list[Series]:
    costs = {status: tuple(point.totals.costs_usd[status] for point in summary.points) for status in STATUS_SLOTS}
    return [Series(status.capitalize(), STATUS_SLOTS[status], usd) for status, usd in costs.items() if any(usd)]


def _bars(
    summary: Summary,
    previous: Summary | None,
    stack: Sequence[Series],
    measure: _Measure,
    marks: Sequence[Mark] = (),
) -> Chart:
    window = summary.window
    before = tuple(measure.of(point.totals) for point in previous.points) if previous else ()
    sums = Sums(
        titles=titles(window),
        stack=tuple(stack),
        totals=tuple(measure.of(point.totals) for point in summary.points),
        before=before if any(before) else (),
        before_name=previous_name(window.range),
        text=measure.text,
        is_over=window.is_over,
        marks=tuple(marks),
    )
    heading = f"{measure.name}, per {formats.interval(window.interval)}"
    return Chart(
        heading=heading,
        sentence=f"{heading}. {_sentence(sums, window.range)}",
        key=() if [series.name for series in stack] == [measure.name] else _entries(stack),
        has_previous=bool(sums.before),
        previous_name=sums.before_name,
        table=sums.table(),
        spec=specs.bars(),
        draw=lambda: Drawing(
            (axes.time(window), measure.ticks(max([*sums.totals, *sums.before]))), sums.rows(), sums.tips()
        ),
        tip_rows=_entries(stack[::-1]),
        marks=sums.marks,
        summary=_summary(sums, window.range),
    )


def _line(summary: Summary, rate: _Rate) -> Chart:
    window, points = summary.window, summary.points
    names = titles(window)
    series = Series(rate.name, rate.slot, tuple(rate.of(point) for point in points))
    known = [value for value in series.values if value is not None]
    columns = {rate.name: [formats.NOTHING if value is None else rate.text(float(value)) for value in series.values]}
    columns |= {name: [text(point) for point in points] for name, text in rate.details.items()}
    columns["Runs"] = [formats.count(point.totals.runs) for point in points]
    heading = f"{rate.name}, per {formats.interval(window.interval)}"
    time, times = time_column(names)
    peak = max(range(len(points)), key=lambda number: series.values[number] or 0)
    highest = f" Highest: {columns[rate.name][peak]}, {names[peak]}." if known else ""
    in_short = f"{range_name(window.range)}: {rate.whole} over all runs"
    return Chart(
        heading=heading,
        sentence=f"{heading}. {in_short}.{highest}",
        key=(),
        has_previous=False,
        previous_name=previous_name(window.range),
        table=Table((time, *columns), tuple(zip(times, *columns.values(), strict=True))),
        spec=specs.line(rate.slot),
        draw=lambda: Drawing(
            (axes.time(window), rate.ticks(float(max(known, default=0)))),
            line_rows(series, is_over=window.is_over),
            tuple(Tip(name, tuple(row)) for name, *row in zip(names, *columns.values(), strict=True)),
        ),
        tip_rows=tuple(KeyEntry(name, rate.slot if name == rate.name else "") for name in columns),
        summary=in_short,
    )


def _entries(stack: Sequence[Series]) -> tuple[KeyEntry, ...]:
    return tuple(KeyEntry(series.name, series.slot) for series in stack)


def _summary(sums: Sums, range_: TimeRange) -> str:
    return f"{range_name(range_)}: {sums.text(sum(sums.totals, Decimal(0)))} in total"


def _sentence(sums: Sums, range_: TimeRange) -> str:
    text = _summary(sums, range_)
    if sums.before:
        when = "28 days earlier" if range_ is Range.MONTH else "the period before"
        text += f", {sums.text(sum(sums.before, Decimal(0)))} {when}"
    peak = max(range(len(sums.totals)), key=lambda number: sums.totals[number])
    if sums.totals[peak]:
        text += f". Highest: {sums.text(sums.totals[peak])}, {sums.titles[peak]}"
    return f"{text}."


def _whole(number: Decimal) -> str:
    return formats.count(int(number))


def _short(number: Decimal) -> str:
    return formats.tokens(int(number))


def _milliseconds(number: float) -> str:
    return formats.duration(round(number))
