"""Measure text in a font that is drawn like Verdana. Pure.

Latin, Greek and Cyrillic letters, punctuation and currencies have their measured widths (`scripts/font_widths.py`). A character of
another class has the width of its class: an em for East Asian letters, a little more for emoji, nothing for combining marks.
"""

import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

# Widths in thousandths of the font size.
_EM = 1000
_HALF_WIDTH = 500
_EMOJI = 1250
# The width of most arrows, operators and check marks in the font.
_SIGN = 838
# The width of the box that is drawn for a missing character.
_OTHER = 600
_NOTHING = 0

_ZERO_WIDTH_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)


class Face(StrEnum):
    REGULAR = "regular"
    BOLD = "bold"


class _Table(msgspec.Struct):
    """Code points by their width, as hexadecimal ranges."""

    regular: dict[int, str]
    bold: dict[int, str]


def _widths(ranges_by_width: dict[int, str]) -> dict[str, int]:
    return {
        chr(point): width
        for width, ranges in ranges_by_width.items()
        for span in ranges.split()
        for point in _points(span)
    }


def _points(span: str) -> range:
    first, _, last = span.partition("-")
    return range(int(first, 16), int(last or first, 16) + 1)


_TABLE = msgspec.json.decode(Path(__file__).with_name("text_widths.json").read_bytes(), type=_Table, strict=False)
_WIDTHS = {Face.REGULAR: _widths(_TABLE.regular), Face.BOLD: _widths(_TABLE.bold)}


def text_width(text: str, size: float, face: Face = Face.REGULAR, *, spacing: float = 0) -> float:
    """Return the width in pixels of a text of this size in pixels, with `spacing` pixels between two characters."""
    widths = list(_character_widths(text, face))
    gaps = sum(width > 0 for width in widths) - 1
    return sum(widths) * size / _EM + max(gaps, 0) * spacing


def _character_widths(text: str, face: Face) -> Iterator[int]:
    """Yield the width of each character; zero if it is drawn as part of the one before."""
    before = ""
    for character in text:
        point = ord(character)
        if before == _ZERO_WIDTH_JOINER or (before and point in _SKIN_TONES):
            yield _NOTHING
        elif point in _REGIONAL_INDICATORS:
            # A pair of these is one flag.
            yield _EMOJI // 2
        else:
            yield _width(character, face)
        before = character


def _width(character: str, face: Face) -> int:
    category = unicodedata.category(character)
    if category in {"Mn", "Me", "Cf"}:
        return _NOTHING
    measured = _WIDTHS[face].get(character)
    if measured is not None:
        return measured
    match unicodedata.east_asian_width(character):
        case "W" | "F":
            return _EMOJI if category == "So" else _EM
        case "H":
            return _HALF_WIDTH
        case _:
            return _SIGN if category in {"So", "Sm"} else _OTHER
