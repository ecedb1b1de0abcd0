"""What is said of a difference."""

import pytest

from runtally.experiments.estimate import Difference
from webapp.formats import Tone
from webapp.pages.compare.rows import finding_of


@pytest.mark.parametrize(
    ("difference", "is_points", "headline", "tone", "said"),
    [
        (
            None,
            False,
            "Too few runs to say",
            Tone.NEUTRAL,
            "Needs 30 runs on each side.",
        ),
        (Difference(0, 0, 0), False, "No difference", Tone.NEUTRAL, "No change"),
        (Difference(0.1, -0.1, 0.3), False, "No clear difference", Tone.NEUTRAL, "+10.0% \u221210.0% to +30.0%"),
        (
            Difference(-0.2, -0.25, -0.12),
            False,
            "Clear difference (95%)",
            Tone.GOOD,
            "\u221220.0% \u221225.0% to \u221212.0%",
        ),
        (
            Difference(0.04, 0.022, 0.0712),
            True,
            "Clear difference (95%)",
            Tone.BAD,
            "+4.00 points +2.20 to +7.12 points",
        ),
        (Difference(86.4, 80.32, 92.86), False, "Clear difference (95%)", Tone.BAD, "87.4 times 81.3 to 93.9 times"),
    ],
)
def test_a_table_says_of_a_difference_whether_it_is_more_than_chance(
    difference: Difference | None, *, is_points: bool, headline: str, tone: Tone, said: str
) -> None:
    found = finding_of(difference, is_points=is_points, less=Tone.GOOD)

    assert (found.headline, found.tone) == (headline, tone)
    assert " ".join(filter(None, (found.change, found.interval, found.sentence))) == said


def test_less_may_be_bad_or_neither() -> None:
    less = Difference(-0.2, -0.25, -0.12)

    assert finding_of(less, is_points=True, less=Tone.BAD).tone is Tone.BAD
    assert finding_of(less, is_points=False, less=Tone.NEUTRAL).tone is Tone.NEUTRAL
