"""Charts of the quality pages: failed runs stacked by kind, and lines of figures that cannot be added up. Pure, except for the reader's time zone."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct, field

from runtally.runs.failures import Failures
from runtally.runs.speed import Speed, SpeedGroup, SpeedMeasure, SpeedPoint, Speeds
from runtally.usage.totals import Totals
from runtally.usage.window import Window
from webapp import formats
from webapp.charts import axes
from webapp.charts.axes import Ticks
from webapp.charts.chart import Chart
from webapp.charts.drawing import Series, Sums, length_of_buckets, titles
from webapp.charts.look import INPUT, OTHER, OUTPUT
from webapp.charts.metrics import LEAST_SHARE_AXIS, SUMS, Metric, cache_share
from webapp.charts.series import MAX_LINES, bars, lines_chart
from webapp.words import NO_VALUE_NAME, OTHER_NAME, in_sentence

NO_CODE = "(no code)"
"""What failed runs without an error code are called."""
_WHOLE_FROM = 10


class Line(Struct, frozen=True):
    """A line over time, with a value for each bucket that has one."""

    name: str
    slot: str
    values: Sequence[float | None]
    text: Callable[[float], str]
    ticks: Callable[[float], Ticks]
    whole: str
    """The value over all of the time."""
    details: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further columns of the table and of tooltips."""


def failures(failures: Failures, slots: Mapping[str, str]) -> Chart:
    """Failed runs in each bucket, stacked by kind; kinds without a colour are one."""
    window = failures.window
    counts: dict[str | None, list[Decimal]] = {}
    for kind in failures.kinds:
        name = kind or NO_CODE
        counts.setdefault(name if name in slots else None, [Decimal(0)] * window.length)
    for (kind, number), runs in failures.counts.by_bucket.items():
        name = kind or NO_CODE
        counts[name if name in slots else None][number] += runs
    named = [Series(name, slots[name], tuple(values)) for name, values in counts.items() if name is not None]
    rest = [Series(OTHER_NAME, OTHER, tuple(values)) for name, values in counts.items() if name is None]
    summary = f"{formats.count(failures.runs)} failed"
    return stack(window, "Failed runs by kind", [*named, *rest], SUMS[Metric.FAILED].text, axes.count, summary)


def hit_rates(window: Window, points: Sequence[Totals], total: Totals) -> Chart:
    """The share of input that was read from caches, in each bucket that has input."""
    whole = cache_share(total)
    return line(
        window,
        Line(
            "Cache hit rate",
            "accent",
            [cache_share(point) for point in points],
            lambda rate: formats.percent(rate, 1),
            lambda highest: axes.percent(max(highest, LEAST_SHARE_AXIS)),
            formats.NOTHING if whole is None else formats.percent(whole, 1),
            {
                "Read": [formats.tokens(int(point.cached_input_tokens)) for point in points],
                "Input": [formats.tokens(int(point.input_tokens)) for point in points],
            },
        ),
    )


def cache_tokens(window: Window, points: Sequence[Totals]) -> Chart:
    """Tokens read from caches and written to them."""
    read = Series("Read", OUTPUT, tuple(Decimal(point.cached_input_tokens) for point in points))
    written = Series("Written", INPUT, tuple(Decimal(point.cache_write_tokens) for point in points))
    total = sum(point.cached_input_tokens + point.cache_write_tokens for point in points)
    summary = f"{formats.tokens(int(total))} tokens in total"
    name, text = "Tokens read from a cache and written to one", SUMS[Metric.TOKENS].text
    return stack(window, name, [read, written], text, axes.count, summary)


SPEED_NAMES = {
    SpeedMeasure.P50: "p50 latency",
    SpeedMeasure.P95: "p95 latency",
    SpeedMeasure.P99: "p99 latency",
    SpeedMeasure.OUTPUT_RATE: "Output tokens per second",
    SpeedMeasure.FIRST_TOKEN: "Time to first token",
}


def speeds(speeds: Speeds, slots: Mapping[str, str]) -> Chart:
    """Draw one speed figure in each bucket with runs that report it: a line for each of these groups, or one where there are no others."""
    is_rate = speeds.measure is SpeedMeasure.OUTPUT_RATE
    text = rate_text if is_rate else _duration
    ticks: Callable[[float], Ticks] = (lambda highest: axes.count(Decimal(str(highest)))) if is_rate else axes.duration
    if speeds.group is None and len(speeds.groups) > 1:
        return lines(
            speeds.window,
            f"{SPEED_NAMES[speeds.measure]} by {in_sentence(speeds.by)}",
            [
                Series(name, slots[group[1]], _values(speeds.lines.get(group, {}), speeds.window))
                for group, name in group_names(speeds).items()
                if group[1] in slots
            ],
            text,
            ticks,
        )
    points = [speeds.points.get(number, SpeedPoint(None, 0)) for number in range(speeds.window.length)]
    speed = speeds.whole if speeds.group is None else speeds.groups.get(speeds.group)
    whole = None if speed is None else _figure(speed, speeds.measure)
    of_group = f" of {speeds.group[1]}" if speeds.group else ""
    return line(
        speeds.window,
        Line(
            f"{SPEED_NAMES[speeds.measure]}{of_group}",
            "accent",
            [point.value for point in points],
            text,
            ticks,
            formats.NOTHING if whole is None else text(whole),
            {"Runs": [formats.count(point.runs) for point in points]},
        ),
    )


def group_names(speeds: Speeds) -> dict[SpeedGroup, str]:
    """Return the groups with a line, those with most runs first, and what each is called: with its provider, where two models have the same name."""
    groups = list(speeds.groups)[:MAX_LINES]
    names = [name for _, name in groups]
    return {
        (maker, name): (name or NO_VALUE_NAME) if names.count(name) == 1 else f"{name} ({maker})"
        for maker, name in groups
    }


def _values(points: Mapping[int, SpeedPoint], window: Window) -> tuple[float | None, ...]:
    return tuple(points[number].value if number in points else None for number in range(window.length))


def _figure(speed: Speed, measure: SpeedMeasure) -> float | None:
    match measure:
        case SpeedMeasure.P50:
            return speed.p50_ms
        case SpeedMeasure.P95:
            return speed.p95_ms
        case SpeedMeasure.P99:
            return speed.p99_ms
        case SpeedMeasure.OUTPUT_RATE:
            return speed.output_rate
        case SpeedMeasure.FIRST_TOKEN:
            return speed.first_token_ms


def rate_text(rate: float) -> str:
    """Format tokens per second: whole ones from ten up."""
    return f"{rate:,.0f}" if rate >= _WHOLE_FROM else f"{rate:.1f}"


def _duration(milliseconds: float) -> str:
    return formats.duration(round(milliseconds))


def stack(  # noqa: PLR0913, PLR0917  # What a chart is made of.
    window: Window,
    name: str,
    series: Sequence[Series],
    text: Callable[[Decimal], str],
    ticks: Callable[[Decimal], Ticks],
    summary: str,
) -> Chart:
    """Draw what can be added up as bars, the first series at the bottom."""
    totals = tuple(
        sum((Decimal(line.values[number] or 0) for line in series), Decimal(0)) for number in range(window.length)
    )
    sums = Sums(titles(window), tuple(series), totals, (), "", text, window.is_over)
    return bars(_heading(name, window), window, sums, ticks, summary)


def lines(
    window: Window,
    name: str,
    series: Sequence[Series],
    text: Callable[[float], str],
    ticks: Callable[[float], Ticks],
) -> Chart:
    """Draw several lines of what cannot be added up."""
    heading = _heading(name, window)
    sentence = f"{heading}. Lines: {', '.join(line.name for line in series)}."
    return lines_chart(heading, window, series, ticks, text, "those with the most runs", sentence=sentence)


def line(window: Window, drawn: Line) -> Chart:
    """Draw what cannot be added up, and its details."""
    heading, series = _heading(drawn.name, window), Series(drawn.name, drawn.slot, tuple(drawn.values))
    sentence = f"{heading}. Over all of the time: {drawn.whole}."
    return lines_chart(
        heading, window, [series], drawn.ticks, drawn.text, drawn.whole, details=drawn.details, sentence=sentence
    )


def _heading(name: str, window: Window) -> str:
    return f"{name}, per {length_of_buckets(window)}"
