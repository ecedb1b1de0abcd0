"""Describe the difference between two experiments, or two sets of runs, in a sentence: whether it is real, and its size. Pure."""

from msgspec import Struct

from runtally.experiments.estimate import MIN_RUNS, Difference
from runtally.experiments.verdict import Measure
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
        size = _span(difference, is_points=is_points)
        sentence = f"{second} {verb} {size} {less if is_less else more} than {first}."
        return Finding(REAL, sentence, change, Tone.GOOD if is_less else Tone.BAD)
    sentence = (
        f"{second} {_MAY[measure]} up to {_size(difference.low, is_points=is_points)} {less} or "
        f"{_size(difference.high, is_points=is_points)} "
        f"{more} than {first}: chance alone could make what is seen."
    )
    return Finding(NOT_REAL, sentence, change, Tone.NEUTRAL)


def _many_times(measure: Measure, difference: Difference, names: tuple[str, str]) -> Finding:
    value, low, high = (f"{1 + one:,.1f}" for one in (difference.value, difference.low, difference.high))
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
        value, low, high = (f"{1 + one:,.1f}" for one in (difference.value, difference.low, difference.high))
        return Finding(REAL, "", f"{value} times", more, f"{low} to {high} times")
    return Finding(REAL, "", value, less if is_less else more, interval)


def _change(difference: Difference, *, is_points: bool) -> str:
    value, low, high = _signs(difference, is_points=is_points)
    return f"{value}, between {low} and {high}"


def _signs(difference: Difference, *, is_points: bool) -> list[str]:
    return [_signed(one, is_points=is_points) for one in (difference.value, difference.low, difference.high)]


def _span(difference: Difference, *, is_points: bool) -> str:
    """2.20 to 7.12 points, 2.9% to 35.7%."""
    low, high = (_size(one, is_points=is_points) for one in sorted((abs(difference.low), abs(difference.high))))
    return f"{low.removesuffix(_POINTS)} to {high}"


def _size(size: float, *, is_points: bool) -> str:
    if is_points:
        return formats.percent(abs(size)).removesuffix("%") + _POINTS
    return formats.percent(abs(size), digits=1)


def _signed(value: float, *, is_points: bool) -> str:
    sign = "" if value == 0 else "+" if value > 0 else _MINUS
    return f"{sign}{_size(value, is_points=is_points)}"
