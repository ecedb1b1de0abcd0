"""By how much a figure differs from that of the previous period."""

from decimal import Decimal

import pytest

from webapp import formats
from webapp.formats import Change, Tone


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ("113.7", "100", Change("\u2191", "13.7%", "up 13.7%", Tone.NEUTRAL)),
        ("50", "100", Change("\u2193", "50.0%", "down 50.0%", Tone.NEUTRAL)),
        ("100.01", "100", Change("", "0%", "no change", Tone.NEUTRAL)),
        ("350", "100", Change("\u2191", "250%", "up 250%", Tone.NEUTRAL)),
        ("1600", "100", Change("\u2191", "1,500%", "up 1,500%", Tone.NEUTRAL)),
        ("150000", "100", Change("\u2191", "1,500\u00d7", "1,500 times as much", Tone.NEUTRAL)),
    ],
)
def test_changes(now: str, before: str, expected: Change) -> None:
    assert formats.change(Decimal(now), Decimal(before)) == expected


def test_there_is_no_change_from_nothing() -> None:
    assert formats.change(Decimal(5), Decimal(0)) is None


def test_slower_is_worse_and_faster_better() -> None:
    slower = formats.change(Decimal(2), Decimal(1), more_is_worse=True)
    faster = formats.change(Decimal(1), Decimal(2), more_is_worse=True)

    assert slower is not None
    assert slower.tone is Tone.BAD
    assert faster is not None
    assert faster.tone is Tone.GOOD


def test_error_rates_change_by_percentage_points() -> None:
    assert formats.change_in_points(0.0135, 0.0104) == Change(
        "\u2191", "0.31 pp", "up 0.31 percentage points", Tone.BAD
    )
    assert formats.change_in_points(0.01, 0.01) == Change("", "0 pp", "no change", Tone.NEUTRAL)
