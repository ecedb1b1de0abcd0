"""The figures of two sets of runs side by side, and what their difference means. Pure."""

from collections.abc import Callable
from decimal import Decimal
from math import isfinite

from msgspec import Struct

from runtally.experiments.estimate import MIN_RUNS, Difference, Estimate
from runtally.runs.compare import ComparedRuns, Figure, difference
from webapp import formats
from webapp.formats import Tone
from webapp.pages.experiments.findings import NONE, Finding, short_finding

DIFFERS = "Differs"
"""The headline of a change from or to zero, which has no percentage: it is not known how far chance reaches."""
_SMALL_USD = Decimal("0.1")


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


def rows_of(first: ComparedRuns, second: ComparedRuns) -> tuple[Row, ...]:
    """Return the sums, of which nothing is chance, and then the figures that chance has a part in."""
    return (
        _sum("Runs", first, second, lambda one: Decimal(one.totals.runs), lambda number: formats.count(int(number))),
        _sum("Cost", first, second, lambda one: one.totals.cost_usd, formats.money),
        *(_row(figure, first, second) for figure in Figure),
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
    low, high, value = (round(50 + 50 * one / widest, 2) for one in (apart.low, apart.high, apart.value))
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
    return f"The runs of one side have no {'tokens' if any(not one.totals.tokens for one in sides) else 'price'}."


def _reading(figure: Figure, side: ComparedRuns) -> Reading:
    value = side.values.get(figure)
    if value is None:
        return Reading(formats.NOTHING)
    found = side.estimates.get(figure)
    return Reading(_text(figure, value), "" if found is None else _interval(figure, found))


def _interval(figure: Figure, found: Estimate) -> str:
    low = _text(figure, found.low)
    return f"{low} to {_text(figure, found.high)}" if isfinite(found.high) else f"{low} or more"


def _text(figure: Figure, value: float) -> str:
    match figure:
        case Figure.P50_LATENCY | Figure.P95_LATENCY:
            return formats.duration(round(value))
        case Figure.TOKENS_PER_RUN:
            return formats.count(round(value))
        case Figure.ERROR_RATE | Figure.CACHE_SHARE:
            return formats.percent(value)
    amount = Decimal(str(value))
    if not 0 < amount < _SMALL_USD:
        return formats.money(amount)
    # Three digits, because what is compared differs in the third.
    return f"${formats.rounded(amount, Decimal(1).scaleb(amount.adjusted() - 2)):f}"
