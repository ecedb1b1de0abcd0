"""The figures of two sets of runs, or of two experiments, side by side, and whether their difference is real, in a sentence. Pure."""

from collections.abc import Callable
from decimal import Decimal
from math import isfinite

from msgspec import Struct

from runtally.experiments.estimate import MIN_RUNS, Difference, Estimate
from runtally.experiments.verdict import Measure
from runtally.runs.compare import ComparedRuns, Figure, difference
from webapp import formats
from webapp.formats import Tone

# Verbs of the second experiment compared with the first, for less and for more.
_VERBS = {
    Measure.COST_PER_RUN_USD: ("costs", "less per run", "more per run"),
    Measure.P95_LATENCY_MS: ("has a p95 latency", "lower", "higher"),
    Measure.ERROR_RATE: ("fails", "less often", "more often"),
}
_MAY = {
    Measure.COST_PER_RUN_USD: "may cost",
    Measure.P95_LATENCY_MS: "may have a p95 latency",
    Measure.ERROR_RATE: "may fail",
}
# From here on the difference is shown as a factor: such percentages are hard to picture.
_TIMES_FROM = 10
_TIMES = {
    Measure.COST_PER_RUN_USD: "costs {} times as much per run as {}.",
    Measure.P95_LATENCY_MS: "has a p95 latency {} times that of {}.",
}
_POINTS = " points"
_MINUS = "\u2212"
REAL, NOT_REAL, TOO_FEW, NONE = (
    "Clear difference (95%)",
    "No clear difference",
    "Too few runs to say",
    "No difference",
)


class Finding(Struct, frozen=True):
    """A difference in words, and whether it is good, bad or neither."""

    headline: str
    sentence: str
    change: str
    """The difference with its interval; empty where there are too few runs."""
    tone: Tone
    interval: str = ""
    """The interval, where the change is without it."""

    @property
    def is_real(self) -> bool:
        """Whether the runs prove the difference."""
        return self.headline == REAL


def finding_of(measure: Measure, difference: Difference | None, names: tuple[str, str]) -> Finding:
    """Describe the second figure compared with the first; in all measures, less is better."""
    first, second = names
    if difference is None:
        sentence = f"Each experiment needs {MIN_RUNS} runs at least, and a p95 latency about a hundred."
        return Finding(TOO_FEW, sentence, "", Tone.NEUTRAL)
    if difference.low == difference.high == 0:
        return Finding(NONE, f"{first} and {second} are exactly equal.", "", Tone.NEUTRAL)
    if measure in _TIMES and 1 + difference.low >= _TIMES_FROM:
        return _many_times(measure, difference, names)
    verb, less, more = _VERBS[measure]
    is_points = measure is Measure.ERROR_RATE
    change = _change(difference, is_points=is_points)
    if difference.is_real:
        is_less = difference.high < 0
        size = _extent(difference, is_points=is_points)
        sentence = f"{second} {verb} {size} {less if is_less else more} than {first}."
        return Finding(REAL, sentence, change, Tone.GOOD if is_less else Tone.BAD)
    sentence = (
        f"{second} {_MAY[measure]} up to {_size(difference.low, is_points=is_points)} {less} or "
        f"{_size(difference.high, is_points=is_points)} "
        f"{more} than {first}: chance alone could make what is seen."
    )
    return Finding(NOT_REAL, sentence, change, Tone.NEUTRAL)


def _many_times(measure: Measure, difference: Difference, names: tuple[str, str]) -> Finding:
    value, low, high = (f"{1 + number:,.1f}" for number in (difference.value, difference.low, difference.high))
    sentence = f"{names[1]} {_TIMES[measure].format(f'{low} to {high}', names[0])}"
    return Finding(REAL, sentence, f"{value} times, between {low} and {high}", Tone.BAD)


def short_finding(
    difference: Difference | None, *, is_points: bool, less: Tone, of: str = f"{MIN_RUNS} runs"
) -> Finding:
    """Describe a difference in short, for a table; `less` is what a lower second figure means, `of` what each side needs."""
    if difference is None:
        return Finding(TOO_FEW, f"Needs {of} on each side.", "", Tone.NEUTRAL)
    if difference.low == difference.high == 0:
        return Finding(NONE, "", "No change", Tone.NEUTRAL)
    value, low, high = _signs(difference, is_points=is_points)
    interval = f"{low.removesuffix(_POINTS)} to {high}"
    if not difference.is_real:
        return Finding(NOT_REAL, "", value, Tone.NEUTRAL, interval)
    is_less = difference.high < 0
    more = {Tone.GOOD: Tone.BAD, Tone.BAD: Tone.GOOD}.get(less, less)
    if not is_points and 1 + difference.low >= _TIMES_FROM:
        value, low, high = (f"{1 + number:,.1f}" for number in (difference.value, difference.low, difference.high))
        return Finding(REAL, "", f"{value} times", more, f"{low} to {high} times")
    return Finding(REAL, "", value, less if is_less else more, interval)


def _change(difference: Difference, *, is_points: bool) -> str:
    value, low, high = _signs(difference, is_points=is_points)
    return f"{value}, between {low} and {high}"


def _signs(difference: Difference, *, is_points: bool) -> list[str]:
    return [_signed(number, is_points=is_points) for number in (difference.value, difference.low, difference.high)]


def _extent(difference: Difference, *, is_points: bool) -> str:
    """2.20 to 7.12 points, 2.9% to 35.7%."""
    low, high = (_size(number, is_points=is_points) for number in sorted((abs(difference.low), abs(difference.high))))
    return f"{low.removesuffix(_POINTS)} to {high}"


def _size(size: float, *, is_points: bool) -> str:
    if is_points:
        return formats.percent(abs(size)).removesuffix("%") + _POINTS
    return formats.percent(abs(size), digits=1)


def _signed(value: float, *, is_points: bool) -> str:
    sign = "" if value == 0 else "+" if value > 0 else _MINUS
    return f"{sign}{_size(value, is_points=is_points)}"


DIFFERS = "Differs"
"""The headline of a change from or to zero, which has no percentage: it is not known how far chance reaches."""


class Reading(Struct, frozen=True):
    """A figure, and between what the true one lies."""

    value: str
    interval: str = ""


class Span(Struct, frozen=True):
    """Where the true difference lies, in percent of a width with no difference in its middle."""

    start: float
    length: float
    at: float


class Row(Struct, frozen=True):
    """A figure of both sides, and their difference; without a span where nothing is left to chance."""

    name: str
    first: Reading
    second: Reading
    finding: Finding
    span: Span | None = None


_OF_OUTCOMES = {Figure.ERROR_RATE, Figure.COST_PER_SUCCESS}


def rows_of(first: ComparedRuns, second: ComparedRuns, *, are_of_one_outcome: bool = False) -> tuple[Row, ...]:
    """Return the sums, of which nothing is chance, and then the figures that chance has a part in.

    Where the runs of a side are chosen by their outcome, rates of outcomes say nothing.
    """
    return (
        _sum("Runs", first, second, lambda row: Decimal(row.totals.runs), lambda number: formats.count(int(number))),
        _sum("Cost", first, second, lambda row: row.totals.cost_usd, formats.money),
        *(_row(one, first, second) for one in Figure if not (are_of_one_outcome and one in _OF_OUTCOMES)),
    )


def _sum(
    name: str,
    first: ComparedRuns,
    second: ComparedRuns,
    value_of: Callable[[ComparedRuns], Decimal],
    text: Callable[[Decimal], str],
) -> Row:
    one, other = value_of(first), value_of(second)
    change = formats.change(other, one)
    signs = {"↑": "+", "↓": formats.MINUS, "": ""}
    said = "No change" if one == other else formats.NOTHING if change is None else f"{signs[change.arrow]}{change.text}"
    return Row(name, Reading(text(one)), Reading(text(other)), Finding("", "", said, Tone.NEUTRAL))


def _row(figure: Figure, first: ComparedRuns, second: ComparedRuns) -> Row:
    apart = difference(figure, first, second)
    return Row(
        figure.value if figure in _PERCENTILES else figure.value.capitalize(),
        _reading(figure, first),
        _reading(figure, second),
        _finding(figure, first, second, apart),
        _span(apart),
    )


def _span(apart: Difference | None) -> Span | None:
    if apart is None or not isfinite(apart.low) or not isfinite(apart.high) or apart.low == apart.high:
        return None
    widest = max(abs(apart.low), abs(apart.high))
    low, high, value = (round(50 + 50 * number / widest, 2) for number in (apart.low, apart.high, apart.value))
    return Span(low, round(high - low, 2), value)


def _finding(figure: Figure, first: ComparedRuns, second: ComparedRuns, apart: Difference | None) -> Finding:
    one, other = first.values.get(figure), second.values.get(figure)
    if one is None or other is None:
        return Finding("Unknown", _why_not(figure, first, second), "", Tone.NEUTRAL)
    if apart is None and min(one, other) == 0 and not figure.is_share:
        said = "Both are zero." if one == other else "One is zero, so there is no percentage."
        return Finding(NONE if one == other else DIFFERS, said, "", Tone.NEUTRAL)
    return short_finding(
        apart,
        is_points=figure.is_share,
        less=_LESS.get(figure, Tone.GOOD),
        of=_NEEDED.get(figure, f"{MIN_RUNS} runs"),
    )


_LESS = {Figure.TOKENS_PER_RUN: Tone.NEUTRAL, Figure.CACHE_SHARE: Tone.BAD}
"""Whether less of a figure is good, where it is not."""
_PERCENTILES = (Figure.P50_LATENCY, Figure.P95_LATENCY)
_NEEDED = {Figure.COST_PER_SESSION: f"{MIN_RUNS} sessions", Figure.P95_LATENCY: "about 100 runs"}


def _why_not(figure: Figure, first: ComparedRuns, second: ComparedRuns) -> str:
    sides = [side for side in (first, second) if figure not in side.values]
    if any(not side.totals.runs for side in sides):
        return "One side has no runs."
    if figure is Figure.COST_PER_SESSION:
        return next((side.sessions_refused for side in sides if side.sessions_refused), "One side has no sessions.")
    if figure in _PERCENTILES:
        if all(side.has_latencies for side in sides):
            return "The runs of one side report no latency."
        return "Too many runs to read one by one. Choose a shorter time."
    if figure is Figure.COST_PER_SUCCESS and any(side.totals.failed == side.totals.runs for side in sides):
        return "No run of one side succeeded."
    return f"The runs of one side have no {'tokens' if any(not side.totals.tokens for side in sides) else 'price'}."


def _reading(figure: Figure, side: ComparedRuns) -> Reading:
    value = side.values.get(figure)
    if value is None:
        return Reading(formats.NOTHING)
    found = side.estimates.get(figure)
    return Reading(_text(figure, value), "" if found is None else _interval(figure, found))


def _interval(figure: Figure, estimate: Estimate) -> str:
    low = _text(figure, estimate.low)
    return f"{low} to {_text(figure, estimate.high)}" if isfinite(estimate.high) else f"{low} or more"


def _text(figure: Figure, value: float) -> str:
    match figure:
        case Figure.P50_LATENCY | Figure.P95_LATENCY:
            return formats.duration(round(value))
        case Figure.TOKENS_PER_RUN:
            return formats.count(round(value))
        case Figure.ERROR_RATE | Figure.CACHE_SHARE:
            return formats.percent(value)
    return formats.compared_money(Decimal(str(value)))
