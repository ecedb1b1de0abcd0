"""The figures of two sets of runs side by side, and whether their difference is real. Pure."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import isfinite

from msgspec import Struct

from runtally.experiments.estimate import MIN_RUNS, Difference, Estimate
from runtally.runs.compare import ComparedRuns, Figure, difference
from webapp import formats
from webapp.formats import Tone

# From here on the difference is shown as a factor: such percentages are hard to picture.
_TIMES_FROM = 10
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
    """Why more cannot be said; empty where it can."""
    change: str
    """The difference; empty where there are too few runs."""
    tone: Tone
    interval: str = ""

    @property
    def is_real(self) -> bool:
        """Whether the runs prove the difference."""
        return self.headline == REAL


def finding_of(difference: Difference | None, *, is_points: bool, less: Tone, of: str = f"{MIN_RUNS} runs") -> Finding:
    """Describe a difference; `less` is what a lower second figure means, `of` what each side needs."""
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


def _signs(difference: Difference, *, is_points: bool) -> list[str]:
    return [_signed(number, is_points=is_points) for number in (difference.value, difference.low, difference.high)]


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


class Figures(Struct, frozen=True):
    """All figures of both sides, and what they answer."""

    rows: tuple[Row, ...] = ()

    @property
    def real(self) -> tuple[Row, ...]:
        """The figures whose difference is more than chance."""
        return tuple(row for row in self.rows if row.finding.is_real)

    @property
    def from_zero(self) -> tuple[Row, ...]:
        """The figures that are zero on one side only, of whose difference chance is not judged."""
        return tuple(row for row in self.rows if row.finding.headline == DIFFERS)

    @property
    def is_known(self) -> bool:
        """Whether it can be said of any figure."""
        return any(row.span for row in self.rows)


_OF_OUTCOMES = {Figure.ERROR_RATE, Figure.COST_PER_SUCCESS}


def figures_of(first: ComparedRuns, second: ComparedRuns, *, are_of_one_outcome: bool = False) -> Figures:
    """Return the sums, of which nothing is chance, and then the figures that chance has a part in; none without any run.

    Where the runs of a side are chosen by their outcome, rates of outcomes say nothing.
    """
    if not first.totals.runs and not second.totals.runs:
        return Figures()
    return Figures(
        (
            _sum(
                "Runs", first, second, lambda row: Decimal(row.totals.runs), lambda number: formats.count(int(number))
            ),
            _sum("Cost", first, second, lambda row: row.totals.cost_usd, formats.money),
            *(_row(one, first, second) for one in Figure if not (are_of_one_outcome and one in _OF_OUTCOMES)),
        )
    )


def limits_of(names: Sequence[str], compared: Sequence[ComparedRuns]) -> Iterator[str]:
    """Say in sentences what the figures of these sides leave out; nothing where they were not read."""
    for name, found in zip(names, compared, strict=False):
        if 0 < found.totals.unpriced < found.totals.runs:
            yield (
                f"{name}: {formats.count(found.totals.unpriced)} of {formats.runs(found.totals.runs)} have no price. "
                "Cost per run leaves them out; all other costs are minimums."
            )
        if found.sampled < found.totals.runs:
            yield (
                f"{name}: all {formats.runs(found.totals.runs)} are counted; the intervals are estimated from the "
                f"newest {formats.count(found.sampled)}."
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
    return finding_of(
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
