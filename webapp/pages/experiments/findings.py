"""A difference between two experiments in a plain sentence: whether it is real, and how large it may be. Pure."""

from dataclasses import dataclass

from runtally.experiments.estimate import MIN_RUNS, Difference
from runtally.experiments.verdict import Measure
from webapp import formats
from webapp.changes import Tone

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
# From here on the difference is told as a factor: such percents are hard to picture.
_TIMES_FROM = 10
_TIMES = {
    Measure.COST_PER_RUN_USD: "costs {} times as much per run as {}.",
    Measure.P95_LATENCY_MS: "has a p95 latency {} times that of {}.",
}
_POINTS = " points"
_MINUS = "\u2212"


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference in words, and whether it is good, bad or neither."""

    headline: str
    sentence: str
    change: str
    """The difference with its interval; empty where there are too few runs."""
    tone: Tone


def finding_of(measure: Measure, difference: Difference | None, names: tuple[str, str]) -> Finding:
    """Describe the second figure compared with the first; in all measures, less is better."""
    first, second = names
    if difference is None:
        sentence = f"Each experiment needs {MIN_RUNS} runs at least, and a p95 latency about a hundred."
        return Finding("Too few runs to say", sentence, "", Tone.NEUTRAL)
    if difference.low == difference.high == 0:
        return Finding("No difference", f"{first} and {second} came to the very same.", "", Tone.NEUTRAL)
    if measure in _TIMES and 1 + difference.low >= _TIMES_FROM:
        return _many_times(measure, difference, names)
    verb, less, more = _VERBS[measure]
    change = (
        f"{_signed(measure, difference.value)}, between {_signed(measure, difference.low)} "
        f"and {_signed(measure, difference.high)}"
    )
    if difference.is_real:
        is_less = difference.high < 0
        size = _span(measure, *sorted((abs(difference.low), abs(difference.high))))
        sentence = f"{second} {verb} {size} {less if is_less else more} than {first}."
        return Finding("Clear difference (95%)", sentence, change, Tone.GOOD if is_less else Tone.BAD)
    sentence = (
        f"{second} {_MAY[measure]} up to {_size(measure, difference.low)} {less} or {_size(measure, difference.high)} "
        f"{more} than {first}: chance alone could make what is seen."
    )
    return Finding("No difference is shown", sentence, change, Tone.NEUTRAL)


def _many_times(measure: Measure, difference: Difference, names: tuple[str, str]) -> Finding:
    value, low, high = (f"{1 + one:,.1f}" for one in (difference.value, difference.low, difference.high))
    sentence = f"{names[1]} {_TIMES[measure].format(f'{low} to {high}', names[0])}"
    return Finding("Clear difference (95%)", sentence, f"{value} times, between {low} and {high}", Tone.BAD)


def _span(measure: Measure, low: float, high: float) -> str:
    """2.20 to 7.12 points, 2.9% to 35.7%."""
    start = _size(measure, low).removesuffix(_POINTS)
    return f"{start} to {_size(measure, high)}"


def _size(measure: Measure, size: float) -> str:
    if measure is Measure.ERROR_RATE:
        return formats.percent(abs(size)).removesuffix("%") + _POINTS
    return formats.percent(abs(size), digits=1)


def _signed(measure: Measure, value: float) -> str:
    sign = "" if value == 0 else "+" if value > 0 else _MINUS
    return f"{sign}{_size(measure, value)}"
