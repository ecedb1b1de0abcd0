"""What a badge looks like: geometry, text, escaping."""

import itertools
import unicodedata
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.badge import svg_of
from runtally.experiments.badge import MAX_LABEL, Style, badge_of, cleaned
from runtally.experiments.text_width import Face, text_width
from runtally.experiments.verdict import Outcome

SVG = "{http://www.w3.org/2000/svg}"
any_text = st.text(st.characters(), max_size=200)
outcomes, styles = st.sampled_from(Outcome), st.sampled_from(Style)


def drawn(outcome: Outcome, label: str, style: Style) -> ET.Element:
    return ET.fromstring(svg_of(outcome, label, style))  # noqa: S314  # Our own output; parsing is the test.


@given(outcomes, any_text, styles)
def test_any_label_gives_a_well_formed_badge_with_that_text(outcome: Outcome, label: str, style: Style) -> None:
    root = drawn(outcome, label, style)

    title = f"{cleaned(label)}: {outcome}" if cleaned(label) else str(outcome)
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == title
    assert root.findtext(f"{SVG}title") == title


@given(outcomes, any_text, styles)
def test_a_label_adds_no_element_and_no_attribute(outcome: Outcome, label: str, style: Style) -> None:
    def shape(element: ET.Element) -> object:
        return element.tag, sorted(element.attrib), [shape(child) for child in element]

    if cleaned(label):
        assert shape(drawn(outcome, label, style)) == shape(drawn(outcome, "plain", style))


@given(outcomes, any_text, styles)
def test_the_halves_meet_and_their_text_is_inside(outcome: Outcome, label: str, style: Style) -> None:
    badge = badge_of(outcome, label, style)

    parts = [part for part in (badge.label, badge.message) if part]
    assert parts[0].x == 0
    assert all(left.x + left.width == right.x for left, right in itertools.pairwise(parts))
    assert badge.width == sum(part.width for part in parts)
    for part in parts:
        assert part.text_x >= part.x + 4
        assert part.text_x + part.text_width <= part.x + part.width - 4 + 0.01
        assert part.text_x <= part.text_middle <= part.text_x + part.text_width


@given(any_text)
def test_a_label_is_one_line_of_bounded_length_without_control_characters(label: str) -> None:
    shown = cleaned(label)

    assert len(shown) <= MAX_LABEL
    assert shown == " ".join(shown.split())
    assert not {"Cc", "Cs", "Zl", "Zp"} & {unicodedata.category(character) for character in shown}
    assert cleaned(shown) == shown


def test_a_label_at_the_limit_is_whole_and_one_past_it_is_cut() -> None:
    assert cleaned("x" * MAX_LABEL) == "x" * MAX_LABEL
    assert cleaned("x" * (MAX_LABEL + 1)) == "x" * (MAX_LABEL - 1) + "…"


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("two\nlines\tand  spaces ", "two lines and spaces"),
        ("be\x00ll\x07", "bell"),
        ("right\u202eto left", "rightto left"),
        ("soft\u00adhyphen\ufeff", "softhyphen"),
        ("\ud800lone", "lone"),
        ("none\uffff\ufdd0", "none"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
    ],
)
def test_invisible_characters_are_dropped(label: str, shown: str) -> None:
    assert cleaned(label) == shown


def test_markup_in_a_label_is_text() -> None:
    label = "<script>alert('1')</script>\"&"

    svg = svg_of(Outcome.PASS, label, Style.FLAT).decode()

    assert "<script" not in svg
    assert drawn(Outcome.PASS, label, Style.FLAT).attrib["aria-label"] == f"{label}: pass"


def test_without_a_label_there_is_the_verdict_alone() -> None:
    badge = badge_of(Outcome.FAIL, "", Style.FLAT)

    assert badge.label is None
    assert badge.width == badge.message.width


@pytest.mark.parametrize(("style", "height"), [(Style.FLAT, 20), (Style.FLAT_SQUARE, 20), (Style.FOR_THE_BADGE, 28)])
def test_each_style_has_the_height_of_its_kind(style: Style, height: int) -> None:
    root = drawn(Outcome.PASS, "prompt-v2", style)

    assert int(root.attrib["height"]) == height
    assert int(root.attrib["width"]) == badge_of(Outcome.PASS, "prompt-v2", style).width


def test_for_the_badge_is_in_capitals() -> None:
    badge = badge_of(Outcome.PASS, "straße", Style.FOR_THE_BADGE)

    assert (badge.label.text if badge.label else None, badge.message.text) == ("STRASSE", "PASS")
    assert badge.title == "straße: pass"


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_has_a_colour_of_its_own(outcome: Outcome) -> None:
    colours = {Outcome.PASS: "#4c1", Outcome.FAIL: "#e05d44", Outcome.UNKNOWN: "#9f9f9f"}

    assert badge_of(outcome, "a", Style.FLAT).colour == colours[outcome]


def test_an_unknown_style_is_flat() -> None:
    assert [Style.parse(text) for text in ("for-the-badge", "plastic", "", None)] == [
        Style.FOR_THE_BADGE,
        Style.FLAT,
        Style.FLAT,
        Style.FLAT,
    ]


# What Chromium measures in DejaVu Sans at 11 pixels.
@pytest.mark.parametrize(
    ("text", "regular", "bold"),
    [
        ("pass", 25.19, 28.41),
        ("fail", 16.73, 19.75),
        ("unknown", 49.98, 56.36),
        ("experiment", 63.19, 71.11),
        ("Ilm WWW iii 0123", 97.31, 109.14),
        ("größe/прод.v1", 80.92, 91.17),
    ],
)
def test_text_is_as_wide_as_a_browser_draws_it(text: str, regular: float, bold: float) -> None:
    assert text_width(text, 11) == pytest.approx(regular, rel=0.005)
    assert text_width(text, 11, Face.BOLD) == pytest.approx(bold, rel=0.005)


@pytest.mark.parametrize(
    ("text", "ems"),
    [
        ("", 0),
        ("评测", 2),
        ("ﾃｽﾄ", 1.5),
        ("\u0301", 0),
        ("🚀", 1.25),
        ("👍🏽", 1.25),
        ("👨\u200d👩\u200d👧", 1.25),
        ("🇩🇪", 1.25),
        ("\U000e0041", 0),
        ("\ue000", 0.6),
    ],
)
def test_other_characters_are_as_wide_as_their_class(text: str, ems: float) -> None:
    assert text_width(text, 10) == ems * 10


@given(any_text, any_text)
def test_text_is_never_wider_together_than_apart_and_never_negative(one: str, other: str) -> None:
    together = text_width(one + other, 11)

    assert 0 <= together <= text_width(one, 11) + text_width(other, 11) + 1e-9


@given(any_text, st.floats(0, 5))
def test_spacing_goes_between_characters_only(text: str, spacing: float) -> None:
    widened = text_width(text, 11, spacing=spacing) - text_width(text, 11)

    assert 0 <= widened <= spacing * max(0, len(text) - 1) + 1e-6
