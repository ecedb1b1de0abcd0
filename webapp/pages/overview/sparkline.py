"""Draw the bars in a row of a table. They are an ornament, of which a page has fifty."""

from collections.abc import Sequence

from msgspec import Struct

_BAR_STEP, _BAR_WIDTH, _LOWEST_BAR = 4, 3, 4
_HEIGHTS = 1_000
# Formatted once: writing numbers would take longer than everything else here.
_BARS = tuple(
    f"v-{height}h{_BAR_WIDTH}v{height}z"
    for height in (max(number * 100 / _HEIGHTS, _LOWEST_BAR) for number in range(_HEIGHTS + 1))
)


class Sparkline(Struct, frozen=True):
    """Bars in a box that is 100 high: how wide it is, and their path."""

    width: int
    path: str


def sparkline_of(values: Sequence[float]) -> Sparkline:
    """The highest value fills the height; a low one can still be seen."""
    scale = _HEIGHTS / (max(values, default=0) or 1)
    bars = [f"M{number * _BAR_STEP} 100{_BARS[round(value * scale)]}" for number, value in enumerate(values) if value]
    return Sparkline(len(values) * _BAR_STEP, "".join(bars))
