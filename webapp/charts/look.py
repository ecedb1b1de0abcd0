"""The sizes, colours and gaps that Vega specs and SVG pictures share, and which series has which colour. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from runtally.usage.colour_queries import HUES

BAR = (0.07, 0.93)
"""Edges of a bar, as parts of a bucket."""
TICK = (0.02, 0.98)
"""Edges of the mark of the previous period, which reaches out of its bar."""
TEXT_SIZE = 12
VALUE_GAP = 8
"""Pixels between the values of an axis and the plot."""
TIME_GAP = 10
"""The least pixels between two names of times."""
TIME_WIDTHS = (240, 280, 320, 360, 400, 440, 480, 560, 640, 800, 1000)
"""The widths of a picture at which the style sheet begins to hide every second name of a time."""
GRID, LABEL, SURFACE = "grid", "text3", "surface"
PATTERN = "unfinished"
"""The id of the pattern that lies over a bar whose bucket is not over."""
HATCH = (
    f'<pattern id="{PATTERN}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="2.5" height="6" fill="var(--{SURFACE})" fill-opacity="0.6"/></pattern>'
)
"""The markup of that pattern; the colour below it shows through."""


class Stroke(Struct, frozen=True):
    """A line: how wide, and dashed how; its colour where it is always the same."""

    width: float
    dash: tuple[float, ...] = ()
    colour: str = ""


SEGMENT_RIM = Stroke(0.75, colour=SURFACE)
PREVIOUS = Stroke(1.5, (3, 2), "text")
# Without a rim in the colour of the card, dark dashes are lost on dark bars.
PREVIOUS_RIM = Stroke(3.5, colour=SURFACE)
MARK = Stroke(1.25, (2, 3), "accent")
"""The line at a moment that is marked on the time axis."""
RELEASE = Stroke(1.25, (2, 3), "text2")
"""The line at the first run of a release."""
FLAG_SIZE, FLAG_Y = 60, 5
"""The area of the flag on such a line, and its middle below the top of the plot."""
LABEL_SIZE, LABEL_GAP = 11, 8
"""The size of the words next to a flag, and their distance from it."""
HALO = Stroke(3, colour=SURFACE)
"""Around them, so that they can be read over bars."""
LINE = Stroke(1.75)
TAIL = Stroke(1.75, (3, 4))
"""A line on its way to a bucket that is not over."""
POINT_SIZE = 5.5
"""Across, of a point without neighbours."""


def variable(slot: str) -> str:
    """A colour of the theme, as CSS: one drawing serves both themes. Raises `ValueError` for no colour, which draws nothing."""
    if not slot:
        raise ValueError("A colour has no name.")
    return f"var(--{slot})"


SLOTS = tuple(f"c{number + 1}" for number in range(HUES))
INPUT, OUTPUT = "t1", "t2"
"""The colours of tokens, which are no value of a dimension."""
OTHER = "other"
BAD, WARN = "bad", "warn"


def slots_of(names: Sequence[str], numbers: Mapping[str, int]) -> dict[str, str]:
    """Return the colour slots of the names in one chart, most important first, from their stored numbers.

    Where two have the same colour, the second has no slot here, and is part of "Other".
    """
    first = dict[int, str]()
    for name in names:
        first.setdefault(numbers[name], name)
    return {name: SLOTS[number] for number, name in first.items()}
