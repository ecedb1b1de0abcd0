"""Choose the colour of a series. Pure."""

from collections.abc import Mapping, Sequence

from runtally.usage.colour_queries import HUES

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
