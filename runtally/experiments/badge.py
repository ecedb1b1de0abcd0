"""The layout of a badge: its texts, their places and its colour. Pure; `templates/badges/*.svg` draw it.

The three styles are those of other badge services, so that badges look alike in a row.
"""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from runtally.experiments.text_width import Face, text_width
from runtally.experiments.verdict import Outcome

MAX_LABEL = 64
"""The most characters of a label; a longer one is cut."""

_CUT = "…"
_JOINERS = {"\u200c", "\u200d"}
# XML cannot hold the first four; the others are invisible, and could reverse the visible text.
_NOT_SHOWN = {"Cc", "Cs", "Zl", "Zp", "Cf"}


class Style(StrEnum):
    FLAT = "flat"
    FLAT_SQUARE = "flat-square"
    FOR_THE_BADGE = "for-the-badge"

    @classmethod
    def parse(cls, text: str | None) -> "Style":
        """Return the style of this name, or the flat one: in a README a plain badge is better than a broken one."""
        return cls(text) if text in set(cls) else cls.FLAT


class Colour(StrEnum):
    """A colour, by its name at badge services."""

    GREEN = "brightgreen"
    RED = "red"
    GREY = "lightgrey"

    @property
    def code(self) -> str:
        return {Colour.GREEN: "#4c1", Colour.RED: "#e05d44", Colour.GREY: "#9f9f9f"}[self]


COLOURS = {Outcome.PASS: Colour.GREEN, Outcome.FAIL: Colour.RED, Outcome.UNKNOWN: Colour.GREY}


@dataclass(frozen=True, slots=True)
class _Look:
    """The measures of a style in pixels."""

    height: int
    text_size: int
    outer_padding: int
    inner_padding: int
    spacing: float = 0
    message_face: Face = Face.REGULAR
    is_upper_case: bool = False


_SMALL = _Look(height=20, text_size=11, outer_padding=6, inner_padding=4)
_LARGE = _Look(28, 10, 12, 12, spacing=1.25, message_face=Face.BOLD, is_upper_case=True)
_LOOKS = {Style.FLAT: _SMALL, Style.FLAT_SQUARE: _SMALL, Style.FOR_THE_BADGE: _LARGE}


@dataclass(frozen=True, slots=True)
class Part:
    """One half of a badge: its start, its width and the position of its text, in pixels."""

    text: str
    x: int
    width: int
    text_x: float
    text_width: float

    @property
    def text_middle(self) -> float:
        return round(self.text_x + self.text_width / 2, 2)


@dataclass(frozen=True, slots=True)
class Badge:
    """The values that a template needs. Equal badges look the same."""

    style: Style
    title: str
    colour: str
    height: int
    label: Part | None
    message: Part

    @property
    def width(self) -> int:
        return self.message.x + self.message.width


def badge_of(outcome: Outcome, label: str, style: Style) -> Badge:
    """Return the badge of a verdict."""
    return badge_with(outcome, COLOURS[outcome].code, label, style)


def badge_with(text: str, colour: str, label: str, style: Style) -> Badge:
    """Return the badge with this text on this colour and this label, or without a label if there is nothing to be seen of it."""
    look, label = _LOOKS[style], cleaned(label)
    if not label:
        message = _part(text, 0, look, look.message_face, (look.outer_padding, look.outer_padding))
        return Badge(style, text, colour, look.height, None, message)
    left = _part(label, 0, look, Face.REGULAR, (look.outer_padding, look.inner_padding))
    right = _part(text, left.width, look, look.message_face, (look.inner_padding, look.outer_padding))
    return Badge(style, f"{label}: {text}", colour, look.height, left, right)


def cleaned(label: str) -> str:
    """Return the label as one line of at most `MAX_LABEL` visible characters."""
    shown = label
    if not (label.isascii() and label.isprintable()):
        shown = "".join(character for character in label if character.isspace() or _is_shown(character))
    line = " ".join(shown.split())
    return line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1].rstrip() + _CUT


def _is_shown(character: str) -> bool:
    point = ord(character)
    is_none = point & 0xFFFE == 0xFFFE or 0xFDD0 <= point <= 0xFDEF  # noqa: PLR2004  # Unicode's 66 noncharacters.
    return not is_none and (unicodedata.category(character) not in _NOT_SHOWN or character in _JOINERS)


def _part(text: str, x: int, look: _Look, face: Face, padding: tuple[int, int]) -> Part:
    text = text.upper() if look.is_upper_case else str(text)
    before, after = padding
    measured = text_width(text, look.text_size, face, spacing=look.spacing)
    # Whole pixels give sharp edges; the surplus is split between both sides of the text.
    width = ceil(before + measured + after)
    return Part(text, x, width, round(x + before + (width - before - measured - after) / 2, 2), round(measured, 2))
