"""Choose the ticks of an axis and their labels. Pure, except for the reader's time zone.

A value axis always has four gridlines above zero, at round figures; a time axis has ticks at the days or hours that
people look for, counted in buckets from the window's start.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from msgspec import Struct

from runtally.usage.window import Window
from webapp import currency, formats
from webapp.zone import local

GRIDLINES = 4
WEEK = 7

_ROUND = tuple(Decimal(text) for text in ("1", "1.5", "2", "2.5", "3", "4", "5", "6", "8", "10"))
_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_CLOCK_STEPS_MS = tuple(
    [seconds * _SECOND_MS for seconds in (15, 20, 30)]
    + [minutes * _MINUTE_MS for minutes in (1, 2, 3, 5, 10, 15, 20, 30)]
    + [hours * _HOUR_MS for hours in (1, 2, 3, 6, 12)]
)
# From one name of a time to the next, for charts of up to so long.
_HOUR_STEPS = (
    (timedelta(minutes=15), timedelta(hours=2)),
    (timedelta(hours=1), timedelta(hours=8)),
    (timedelta(hours=3), timedelta(days=1)),
)
_DAY = timedelta(days=1)
_MOST_NAMED = 31
_LONGEST_WITH_DAYS = timedelta(days=10)
_LEAST_AMOUNT_STEP = Decimal("0.0000001")
_LEAST_STEP_PERCENT = Decimal("0.25")
_LEAST_STEP_MS = Decimal(1)
# The axis of a chart without any value reaches this far.
_EMPTY_AMOUNT = Decimal(1)
_EMPTY_MS = 1_000
_UNITS_MS = (("h", _HOUR_MS), ("min", _MINUTE_MS), ("s", _SECOND_MS), ("ms", 1))
_SHORT_FROM = 10_000
_SHORT_UNITS = ((12, "T"), (9, "B"), (6, "M"), (3, "k"))


class Ticks(Struct, frozen=True):
    """Positions and what stands there."""

    values: tuple[float, ...]
    labels: tuple[str, ...]


def money(highest_usd: Decimal) -> Ticks:
    """$0, $5, $10, ...; parts of a dollar in whole cents or finer. Their positions are dollars, whatever the page's currency."""
    unit = currency.shown()
    steps = _multiples(max(_round_step(unit.of(highest_usd) or _EMPTY_AMOUNT), _LEAST_AMOUNT_STEP))
    places = [step / unit.rate for step in steps]
    if steps[-1] >= _SHORT_FROM:
        return _ticks(places, [f"{unit.sign}{text}" for text in _short(steps)])
    digits = _decimals(steps)
    written = (f"{unit.sign}{step:,.{max(digits, 2) if digits else 0}f}" for step in steps[1:])
    return _ticks(places, [f"{unit.sign}0", *written])


def count(highest: Decimal) -> Ticks:
    """Whole numbers, in short from ten thousand up."""
    step = _round_step(highest).to_integral_value(ROUND_CEILING)
    steps = _multiples(max(step, Decimal(1)))
    return _ticks(steps, _short(steps) if steps[-1] >= _SHORT_FROM else [f"{step:,f}" for step in steps])


def percent(highest: float) -> Ticks:
    """Shares of 0 to 1, written in percent; never beyond 100 %, and never so fine that one failed run fills the chart."""
    steps = _multiples(max(_round_step(Decimal(str(highest)) * 100), _LEAST_STEP_PERCENT))
    digits = _decimals(steps)
    return _ticks([step / 100 for step in steps], ["0%", *(f"{step:.{digits}f}%" for step in steps[1:])])


def duration(highest_ms: float) -> Ticks:
    """Milliseconds; from a minute up in steps that a clock has, and all in one unit, so that they can be compared."""
    step = max(_round_step(Decimal(str(highest_ms or _EMPTY_MS))), _LEAST_STEP_MS)
    if step > 10 * _SECOND_MS:
        whole_days = Decimal(str(highest_ms)) // (GRIDLINES * 24 * _HOUR_MS) + 1
        on_clock = (ms for ms in _CLOCK_STEPS_MS if ms * GRIDLINES >= highest_ms)
        step = Decimal(next(on_clock, whole_days * 24 * _HOUR_MS))
    steps = _multiples(step)
    # All in one unit: the largest that the step is not less than half of, and has at most one decimal in.
    unit, size = next(
        (unit, size) for unit, size in _UNITS_MS if (step * 2 >= size and not step * 10 % size) or size == 1
    )
    scaled = [each / size for each in steps]
    digits = _decimals(scaled)
    return _ticks(steps, ["0", *(f"{each:,.{digits}f} {unit}" for each in scaled[1:])])


def time(window: Window) -> Ticks:
    """The hours of a day, the days of a week, the Mondays of a month, every bar of more; in buckets from the start.

    Bars of whole days are days of UTC; hours, and days of shorter buckets, are the reader's. A day that is named has its name
    below its middle, whether it is one bar or several points of a line.
    """
    marks = list(_days_of(window) if window.interval >= _DAY else _moments_of(window))
    return Ticks(tuple(place for place, _ in marks), tuple(label for _, label in marks))


def _days_of(window: Window) -> Iterator[tuple[float, str]]:
    """A day that is one bar has its name below the bar; of many weeks the first of each month has."""
    for number, start in enumerate(window.starts):
        if window.is_by_month:
            name = formats.month(start)
            yield number + 0.5, name if start.month == 1 else name.split()[0]
        elif window.interval > _DAY:
            if window.length <= _MOST_NAMED or start.day <= WEEK:
                yield number + 0.5, formats.date(start)
        elif window.range.length <= _LONGEST_WITH_DAYS:
            yield number + 0.5, formats.weekday(start)
        elif not start.weekday():
            yield number + 0.5, formats.date(start)


def _moments_of(window: Window) -> Iterator[tuple[float, str]]:
    """Return the times of ticks: hours for up to two days, else the middle of each day within the window."""
    length = window.range.length
    step = next((step for step, longest in _HOUR_STEPS if length <= longest), _DAY)
    at = local(window.start).replace(hour=0, minute=0, second=0, microsecond=0)
    free = window.start
    # On the clock of the reader, where a day may have 23 hours.
    while (moment := at.astimezone(UTC)) < window.end:
        if moment >= free and _is_on_clocks(at) and (label := _moment_label(at, length)):
            if step < _DAY:
                yield (moment - window.start) / window.interval, label
            elif (middle := moment + ((at + step).astimezone(UTC) - moment) / 2) < min(window.end, window.now):
                yield (middle - window.start) / window.interval, label
            free = moment + timedelta.resolution
        at += step


def _is_on_clocks(at: datetime) -> bool:
    """Not where they are put forward over it; but a day is there even if they are put forward over its midnight."""
    return not at.hour or local(at.astimezone(UTC)) == at


def _moment_label(at: datetime, length: timedelta) -> str | None:
    if length > _LONGEST_WITH_DAYS:
        return formats.date(at) if not at.weekday() else None
    return formats.clock(at) if at.hour or at.minute else formats.weekday(at)


def _round_step(highest: Decimal) -> Decimal:
    """The smallest round figure that reaches the highest value in four steps; 0 if there is nothing to reach."""
    if highest <= 0:
        return Decimal(0)
    least = highest / GRIDLINES
    power = least.adjusted()
    return next(factor.scaleb(power) for factor in _ROUND if factor.scaleb(power) >= least)


def _multiples(step: Decimal) -> list[Decimal]:
    return [step * number for number in range(GRIDLINES + 1)]


def _decimals(steps: Sequence[Decimal]) -> int:
    """Return the number of decimals of the finest of these."""
    return max(-int(step.normalize().as_tuple().exponent) for step in (*steps, Decimal(1)))


def _short(steps: Sequence[Decimal]) -> list[str]:
    """Format all ticks in the unit of the largest, so that they can be compared at a glance."""
    power, suffix = next((power, suffix) for power, suffix in _SHORT_UNITS if steps[-1] >= Decimal(1).scaleb(power))
    scaled = [step.scaleb(-power) for step in steps]
    digits = _decimals(scaled)
    return ["0", *(f"{step:,.{digits}f}{suffix}" for step in scaled[1:])]


def _ticks(values: Sequence[Decimal], labels: Sequence[str]) -> Ticks:
    return Ticks(tuple(float(value) for value in values), tuple(labels))
