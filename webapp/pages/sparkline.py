"""Bars of one colour in a row of a table, as an ornament: a page has fifty, so their path is made here."""

from collections.abc import Sequence
from dataclasses import dataclass

_BAR_STEP, _BAR_WIDTH, _LOWEST_BAR = 4, 3, 4


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Bars in a box that is 100 high: how wide it is, and their path."""

    width: int
    path: str


def sparkline_of(values: Sequence[float]) -> Sparkline:
    """The highest value fills the height; a low one can still be seen."""
    scale = 100 / (max(values, default=0) or 1)
    bars = []
    for number, value in enumerate(values):
        if value:
            # As text once: to write a number takes longer than all else here.
            height = str(max(round(value * scale, 1), _LOWEST_BAR))
            bars.append(f"M{number * _BAR_STEP} 100v-{height}h{_BAR_WIDTH}v{height}z")
    return Sparkline(len(values) * _BAR_STEP, "".join(bars))
