"""Format numbers, money and times for people. Pure; templates use these as filters, charts for ticks and tooltips.

Amounts of dollars are written in the currency of the page, but for prices and exact amounts, which stay dollars. Times are
written in the zone that they have. Month and day names are English whatever the server's locale.
A change against the previous period is an arrow, a size, and words.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from runtally.money import to_usd
from webapp import currency
from webapp.currency import DOLLARS, Unit

NOTHING = "\u2013"
"""Shown where there is no value: the error rate or latency of no runs."""

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MINUS = "\u2212"
# A line may break after a minus before a sign of money, but not at a word joiner.
_LESS = f"{MINUS}\u2060"
_TO = "\u2013"
_CENT = Decimal("0.01")
_CENTS_DIGITS = 2
_MOST_DECIMALS = 6
_THOUSAND = 1_000
_SHORT_FROM = 10_000
_SECOND_MS = 1_000
_MINUTE_S = 60
_HOUR_S = 3_600
_DAY_S = 86_400
_DAY = timedelta(days=1)
_HUNDRED = Decimal(100)
# A page has a thousand figures, and most are the same when it is requested again.
_remembered = lru_cache(maxsize=8_000)


def rounded(value: Decimal, step: Decimal) -> Decimal:
    return value.quantize(step, ROUND_HALF_UP)


def money(amount_usd: Decimal) -> str:
    """Format an amount: two decimals from $1, three from ten cents, four below, and never a rounded zero."""
    return _money(amount_usd, currency.shown())


@_remembered
def _money(amount_usd: Decimal, unit: Unit) -> str:
    amount = unit.of(amount_usd)
    if 0 < amount < unit.smallest:
        return _marked(unit, f"<{unit.sign}{unit.smallest}", amount_usd)
    if -unit.smallest < amount < 0:
        return _marked(unit, _nearly_nothing(unit), amount_usd)
    return _with_decimals(_decimals_of(amount, unit), unit)(amount_usd)


Write = Callable[[Decimal], str]
"""What writes an amount of money."""


def column_money(amounts_usd: Iterable[Decimal]) -> Write:
    """Return what writes the amounts of one column, so that their points are in one line.

    All have the decimals of the largest: two from $1, three from ten cents, four below.
    """
    unit = currency.shown()
    return _with_decimals(
        _decimals_of(max((unit.of(abs(amount)) for amount in amounts_usd), default=Decimal(0)), unit), unit
    )


def column_unit_money(amounts_usd: Iterable[Decimal]) -> Write:
    """Return what writes mean costs of a run in one column: with two digits of the smallest, and six decimals at most."""
    unit = currency.shown()
    amounts = [unit.of(abs(amount)) for amount in amounts_usd if amount]
    if not amounts:
        return _with_decimals(unit.decimals, unit)
    return _with_decimals(min(max(1 - min(amounts).adjusted(), unit.decimals), _MOST_DECIMALS), unit)


def column_run_money(amounts_usd: Iterable[Decimal | None]) -> Write:
    """Return what writes the costs of single runs in one column: with the decimals of the smallest, four at most."""
    unit = currency.shown()
    smallest = min((unit.of(amount) for amount in amounts_usd if amount), default=Decimal(0))
    return _with_decimals(_decimals_of(smallest, unit), unit)


def _decimals_of(size: Decimal, unit: Unit) -> int:
    # An amount that rounds up into the next band is written like that band: $0.100, not $0.1000. Bands are of cents.
    fewer = _CENTS_DIGITS - unit.decimals
    size = abs(size).scaleb(-fewer)
    if size == 0 or size >= Decimal("0.9995"):
        return unit.decimals
    return (3 if size >= Decimal("0.09995") else 4) - fewer


def _with_decimals(decimals: int, unit: Unit) -> Write:
    step = Decimal(1).scaleb(-decimals)

    def write(amount_usd: Decimal) -> str:
        amount = unit.of(amount_usd)
        if 0 < abs(amount) < step / 2:
            return _marked(unit, f"<{unit.sign}{step}" if amount > 0 else _nearly_nothing(unit), amount_usd)
        sign = _LESS if amount < 0 else ""
        return _marked(unit, f"{sign}{unit.sign}{rounded(abs(amount), step):,f}", amount_usd)

    return write


def _marked(unit: Unit, text: str, amount_usd: Decimal) -> str:
    return text if unit is DOLLARS else unit.marked(text, money_exact(to_usd(amount_usd)))


def _nearly_nothing(unit: Unit) -> str:
    return f"\u2248\u00a0{unit.sign}0"


def unit_money(amount_usd: Decimal) -> str:
    """Format the cost of one run: as money, but with two digits of the smallest amounts, so that they can be compared."""
    unit = currency.shown()
    amount = unit.of(amount_usd)
    if not 0 < amount < unit.smallest:
        return _money(amount_usd, unit)
    two_digits = rounded(amount, Decimal(1).scaleb(amount.adjusted() - 1))
    return _marked(unit, f"{unit.sign}{min(unit.smallest, two_digits):f}", amount_usd)


def compared_money(amount_usd: Decimal) -> str:
    """Format the cost of one run beside another: with three digits, because what is compared differs in the third."""
    unit = currency.shown()
    amount = unit.of(amount_usd)
    if not 0 < amount < Decimal("0.1"):
        return _money(amount_usd, unit)
    return _marked(unit, f"{unit.sign}{rounded(amount, Decimal(1).scaleb(amount.adjusted() - 2)):f}", amount_usd)


def money_apart(difference_usd: Decimal, write: Write = money) -> str:
    """Format the difference of two amounts: +$0.171; one that is too small to show has no sign either."""
    size = write(abs(difference_usd))
    if difference_usd and size.startswith("<"):
        return nearly_nothing()
    text = f"{'+' if difference_usd > 0 else _LESS if difference_usd < 0 else ''}{size}"
    return _marked(currency.shown(), text, difference_usd)


def nearly_nothing() -> str:
    """Return what is shown for a difference that is smaller than the smallest amount shown."""
    return _nearly_nothing(currency.shown())


def rough_money(amount_usd: Decimal) -> str:
    """Format an estimate: without cents from $100."""
    unit = currency.shown()
    return _with_decimals(0, unit)(amount_usd) if unit.of(amount_usd) >= _HUNDRED else _money(amount_usd, unit)


def set_money(amount_usd: Decimal) -> str:
    """Format an amount that a person entered, in dollars: without cents if it has none."""
    return beside(f"${amount_usd:,.{0 if amount_usd == amount_usd.to_integral_value() else 2}f}", amount_usd)


def beside(dollars: str, amount_usd: Decimal) -> str:
    """Write the currency of the page, where that is another one, beside an amount that stays in dollars: $400 (\u20ac368)."""
    unit = currency.shown()
    return dollars if unit is DOLLARS else f"{dollars} ({unit_money(amount_usd)})"


def money_exact(amount_usd: Decimal) -> str:
    """Format all stored digits, and at least two decimals, in dollars: for prices, and for explaining a cost."""
    sign = _LESS if amount_usd < 0 else ""
    size = abs(amount_usd).normalize()
    return f"{sign}${size if -int(size.as_tuple().exponent) > _CENTS_DIGITS else size.quantize(_CENT):,f}"


def column_exact_money(amounts_usd: Iterable[Decimal]) -> Write:
    """Return what writes dollars of one column with all stored digits of each, so that their points are in one line."""
    digits = [-int(amount.normalize().as_tuple().exponent) for amount in amounts_usd]
    return _with_decimals(max([_CENTS_DIGITS, *digits]), DOLLARS)


def count(number: int | None) -> str:
    """Format a whole number with thousands separators: 11,232."""
    return NOTHING if number is None else f"{number:,}"


def runs(number: int) -> str:
    """Format a number of runs: 1 run, 11,232 runs."""
    return "1 run" if number == 1 else f"{count(number)} runs"


def tokens(number: int) -> str:
    """Format a large whole number in short: 46.4M, 3.0M.

    It is in full below ten thousand, and has a decimal below a hundred units.
    """
    if abs(number) < _SHORT_FROM:
        return count(number)
    for power, suffix in ((3, "k"), (6, "M"), (9, "B"), (12, "T")):
        scaled = Decimal(number).scaleb(-power)
        shown = rounded(scaled, Decimal("0.1") if abs(scaled) < Decimal("99.95") else Decimal(1))
        if abs(shown) < _THOUSAND or suffix == "T":
            break
    return f"{shown:,f}{suffix}"


@_remembered
def duration(milliseconds: float | None, second_digits: int = 1) -> str:
    """Format a duration in two units at most: 840 ms, 5.1 s, 2.0 s, 2 min 5 s, 1 h 2 min."""
    if milliseconds is None:
        return NOTHING
    if milliseconds < _SECOND_MS:
        return f"{round(milliseconds)} ms"
    tenths = rounded(Decimal(milliseconds) / _SECOND_MS, Decimal("0.1"))
    if tenths < _MINUTE_S:
        return f"{tenths:.{second_digits}f} s"
    seconds = int(rounded(Decimal(milliseconds) / _SECOND_MS, Decimal(1)))
    if seconds < _HOUR_S:
        return _two_units(seconds, _MINUTE_S, "min", "s")
    return _two_units(round(seconds / _MINUTE_S), _MINUTE_S, "h", "min")


def column_duration(milliseconds: Iterable[float | None]) -> Callable[[float | None], str]:
    """Return what writes the durations of one column in one unit: in seconds where the longest has a second or more.

    Those of ten minutes or more are written in two units. Nothing is an en dash.
    """
    longest = max((duration for duration in milliseconds if duration is not None), default=0)
    if longest < _SECOND_MS or longest >= 10 * _MINUTE_S * _SECOND_MS:
        return duration
    step = Decimal("0.01" if longest < 10 * _SECOND_MS else "0.1")

    def write(one: float | None) -> str:
        if one is None:
            return NOTHING
        seconds = Decimal(one) / _SECOND_MS
        return f"<{step} s" if 0 < seconds < step / 2 else f"{rounded(seconds, step)} s"

    return write


@_remembered
def percent(share: float | None, digits: int = 2) -> str:
    """Format a rate of 0 to 1 with fixed decimals; only exactly none and all are 0% and 100%."""
    if share is None:
        return NOTHING
    value, step = Decimal(str(share)) * 100, Decimal(1).scaleb(-digits)
    if value in {0, _HUNDRED}:
        return f"{value:.0f}%"
    if 0 < value < step / 2:
        return f"<{step}%"
    if _HUNDRED - step / 2 <= value < _HUNDRED:
        return f">{_HUNDRED - step}%"
    return f"{rounded(value, step):,f}%"


def set_percent(share: Decimal) -> str:
    """Format a rate that a person entered, with the digits that it has."""
    return f"{_plain(share * 100)}%"


def share(part: Decimal, whole: Decimal) -> str:
    """Format a part of the whole in whole percent: 37%, or <1% for a small part."""
    if whole == 0:
        return NOTHING
    value = part / whole * 100
    return "<1%" if 0 < value < Decimal("0.5") else f"{rounded(value, Decimal(1))}%"


def weekday(at: datetime) -> str:
    """Format a weekday and day: Wed 18."""
    return f"{_DAYS[at.weekday()]} {at.day}"


def date(at: datetime) -> str:
    """Format a date without its year: 18 Nov."""
    return f"{at.day} {_MONTHS[at.month - 1]}"


def day(at: datetime) -> str:
    """Format a date: 18 Nov 2026."""
    return f"{date(at)} {at.year}"


def weekday_and_date(at: datetime) -> str:
    """Format a weekday and date: Wed 18 Nov."""
    return f"{_DAYS[at.weekday()]} {date(at)}"


def month(at: datetime) -> str:
    """Format a month: Nov 2026."""
    return f"{_MONTHS[at.month - 1]} {at.year}"


def clock(at: datetime) -> str:
    """Format a time of day: 06:00."""
    return f"{at.hour:02}:{at.minute:02}"


def moment(at: datetime) -> str:
    """Format a moment: 18 Nov 2026, 12:03:09 UTC."""
    return f"{day(at)}, {at:%H:%M:%S} {zone_name(at)}"


def minute(at: datetime) -> str:
    """Format a moment that a person entered, without seconds: 18 Nov 2026, 12:03 UTC."""
    return f"{day(at)}, {clock(at)} {zone_name(at)}"


def zone_name(at: datetime) -> str:
    """Return the name of a zone: UTC, CET; for one without a short name its offset: UTC+05:30."""
    name = at.tzname() or ""
    offset = f"{at:%z}"
    return f"UTC{offset[:3]}:{offset[3:5]}" if name[:1] in {"+", "-"} else name


def bucket(start: datetime, interval: timedelta, zone: tzinfo = UTC) -> str:
    """Format a bucket: Wed 18 Nov, 12:00 to 18:00 UTC (with an en dash); a whole day, always of UTC, is Wed 18 Nov UTC."""
    end = start + interval
    if interval > _DAY:
        return f"{between(start, end)} {zone_name(start)}"
    if interval == _DAY:
        return f"{weekday_and_date(start)} {zone_name(start)}"
    start, end = start.astimezone(zone), end.astimezone(zone)
    return f"{weekday_and_date(start)}, {clock(start)}{_TO}{clock(end)} {zone_name(start)}"


def between(since: datetime, until: datetime) -> str:
    """Format a time span: 16 Nov 2026, 12:00 to 18:00 (with an en dash); whole days without times, the last included."""
    if clock(since) == clock(until) == "00:00":
        last = until - timedelta(days=1)
        first = date(since) if since.year == last.year else f"{date(since)} {since.year}"
        return f"{date(last)} {last.year}" if since == last else f"{first} {_TO} {date(last)} {last.year}"
    if since.date() == until.date():
        return f"{date(since)} {since.year}, {clock(since)}{_TO}{clock(until)}"
    return f"{date(since)}, {clock(since)} {_TO} {date(until)} {until.year}, {clock(until)}"


def interval(length: timedelta) -> str:
    """Format an interval as it follows "per": hour, 6 hours, day, 15 minutes."""
    seconds = int(length.total_seconds())
    for unit, name in ((7 * _DAY_S, "week"), (_DAY_S, "day"), (_HOUR_S, "hour"), (_MINUTE_S, "minute")):
        if seconds % unit == 0:
            number = seconds // unit
            return name if number == 1 else f"{number} {name}s"
    return f"{seconds} seconds"


def length(time: timedelta) -> str:
    """Format a length of time: 3 hours, 1 day, 45 minutes."""
    text = interval(time)
    return text if text[0].isdigit() else f"1 {text}"


def ago(at: datetime, now: datetime) -> str:
    """Format an age: 12 s ago, 5 min ago, 3 h ago, 2 days ago; a moment in the future is just now."""
    seconds = max(0, int((now - at).total_seconds()))
    if seconds < _MINUTE_S:
        return f"{seconds} s ago" if seconds else "just now"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S} min ago"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S} h ago"
    days = seconds // _DAY_S
    return "1 day ago" if days == 1 else f"{days} days ago"


def _plain(value: Decimal) -> str:
    """Format a number without trailing zeros of its fraction."""
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _two_units(number: int, size: int, large: str, small: str) -> str:
    most, rest = divmod(number, size)
    return f"{most} {large} {rest} {small}" if rest else f"{most} {large}"


_TIMES = "\u00d7"
# From here on percents are hard to picture.
_TIMES_FROM = 100


class Tone(StrEnum):
    """The meaning of a change: good, bad or neutral."""

    NEUTRAL = "neutral"
    GOOD = "good"
    BAD = "bad"


class Change(Struct, frozen=True):
    """A change against the previous period, in three forms: an arrow and a size to see, words for screen readers."""

    arrow: str
    text: str
    words: str
    tone: Tone


def change(now: Decimal, before: Decimal, *, more_is_worse: bool = False) -> Change | None:
    """Return the relative change; None if there was nothing before. More spend is no error, so it is neutral."""
    if before == 0:
        return None
    if now >= _TIMES_FROM * before:
        times = f"{rounded(now / before, Decimal(1)):,}"
        return Change("↑", f"{times}{_TIMES}", f"{times} times as much", Tone.BAD if more_is_worse else Tone.NEUTRAL)
    return _change((Decimal(now) - before) / before * 100, "%", Decimal("0.1"), more_is_worse=more_is_worse)


def change_in_points(now: float, before: float) -> Change:
    """Return the change of an error rate, in percentage points; more is worse."""
    return _change((Decimal(str(now)) - Decimal(str(before))) * 100, " pp", Decimal("0.01"), more_is_worse=True)


def _change(difference: Decimal, unit: str, step: Decimal, *, more_is_worse: bool) -> Change:
    shown = rounded(abs(difference), step)
    if shown == 0:
        return Change("", f"0{unit}", "no change", Tone.NEUTRAL)
    # Above 100 % decimals carry no information.
    text = f"{rounded(shown, Decimal(1)) if shown >= _HUNDRED else shown:,}{unit}"
    rises = difference > 0
    tone = Tone.NEUTRAL if not more_is_worse else Tone.BAD if rises else Tone.GOOD
    words = text.replace(" pp", " percentage points")
    return Change("↑" if rises else "↓", text, f"{'up' if rises else 'down'} {words}", tone)
