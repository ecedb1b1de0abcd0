"""The change of a figure against the previous period, as an arrow and in words. Pure."""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct

from webapp.formats import rounded

_TIMES = "\u00d7"
# From here on percents are hard to picture.
_TIMES_FROM = 100
_HUNDRED = Decimal(100)


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
