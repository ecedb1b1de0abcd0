"""Moments on the time axis: what is drawn of them, with a label where there is room, and what is said. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from runtally.usage.window import Window
from webapp.charts.specs import Rows

MAX_MARKS = 100
"""The most marks that are drawn, the newest: more cannot be distinguished."""
MAX_LABELS = 3
MAX_LABEL = 10
"""Characters; longer labels are cut."""
# What so many characters take of the width of a phone, and of half of a wide page.
_ROOM = 0.24
_CLEAR = 0.15


class MarkKind(StrEnum):
    """What happened."""

    PRICE = "price change"
    RELEASE = "release"
    NOTE = "note"


class Mark(Struct, frozen=True):
    """Something that happened at a moment."""

    at: datetime
    kind: MarkKind
    text: str
    """What happened, in a sentence."""
    label: str
    """A word for what happened, next to the mark."""


def rows(marks: Iterable[Mark], window: Window) -> Mapping[str, Rows]:
    """The datasets `marks` (i, release, as notes have it too) and `labels` (i, text, before), counted in buckets; `before` is left of its mark.

    Of many marks the newest are drawn; the newest of these have labels, as long as these touch no other and no other mark.
    """
    # Within a bucket's thousandth they are drawn at one place.
    placed = {(round(max(window.place_of(mark.at), 0), 3), mark.kind): mark for mark in marks}
    newest = sorted(placed)[-MAX_MARKS:]
    drawn = [{"i": place, **({} if kind is MarkKind.PRICE else {"release": 1})} for place, kind in newest]
    labels: list[dict[str, object]] = []
    taken: list[tuple[float, float]] = []
    lines = [place / window.length for place, _ in newest]
    for place, kind in reversed(newest):
        at = place / window.length
        for label, reach, side in (({}, (at, at + _ROOM), 1), ({"before": 1}, (at - _ROOM, at), -1)):
            is_free = all(reach[1] <= left or right <= reach[0] for left, right in taken)
            is_clear = not any(0 < side * (line - at) < _CLEAR for line in lines)
            if len(labels) < MAX_LABELS and is_free and is_clear and reach[0] >= 0 and reach[1] <= 1:
                taken.append(reach)
                labels.append({"i": place, "text": _cut(placed[place, kind].label), **label})
                break
    return {"marks": drawn, "labels": labels[::-1]}


def in_words(marks: Sequence[Mark]) -> str:
    """Return how many of each kind there are: 2 price changes, 1 release."""
    numbers = ((kind, sum(mark.kind is kind for mark in marks)) for kind in MarkKind)
    return ", ".join(f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in numbers if number)


def _cut(label: str) -> str:
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}\u2026"
