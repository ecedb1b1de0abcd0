"""What is said of a difference."""

import pytest

from runtally.experiments.estimate import Difference
from runtally.experiments.verdict import Measure
from webapp.formats import Tone
from webapp.pages.compare.rows import finding_of, short_finding

NAMES = ("old", "new")


@pytest.mark.parametrize(
    ("measure", "difference", "tone", "sentence"),
    [
        (
            Measure.COST_PER_RUN_USD,
            Difference(-0.2, -0.25, -0.12),
            Tone.GOOD,
            "new costs 12.0% to 25.0% less per run than old.",
        ),
        (
            Measure.P95_LATENCY_MS,
            Difference(0.5, 0.1, 1.2),
            Tone.BAD,
            "new has a p95 latency 10.0% to 120.0% higher than old.",
        ),
        (
            Measure.COST_PER_RUN_USD,
            Difference(86.4, 80.32, 92.86),
            Tone.BAD,
            "new costs 81.3 to 93.9 times as much per run as old.",
        ),
        (
            Measure.ERROR_RATE,
            Difference(-0.04, -0.0712, -0.022),
            Tone.GOOD,
            "new fails 2.20 to 7.12 points less often than old.",
        ),
    ],
)
def test_a_real_difference_is_given_with_its_interval(
    measure: Measure, difference: Difference, tone: Tone, sentence: str
) -> None:
    found = finding_of(measure, difference, NAMES)

    assert (found.headline, found.sentence, found.tone) == ("Clear difference (95%)", sentence, tone)


def test_a_difference_that_may_be_chance_is_given_with_its_bounds() -> None:
    found = finding_of(Measure.ERROR_RATE, Difference(0.01, -0.02, 0.03), NAMES)

    assert found.headline == "No clear difference"
    assert found.sentence == (
        "new may fail up to 2.00 points less often or 3.00 points more often than old: chance alone could make what is seen."
    )
    assert found.change == "+1.00 points, between \u22122.00 points and +3.00 points"


def test_too_few_runs_say_nothing() -> None:
    found = finding_of(Measure.P95_LATENCY_MS, None, NAMES)

    assert (found.headline, found.change, found.tone) == ("Too few runs to say", "", Tone.NEUTRAL)


def test_equal_figures_are_called_equal() -> None:
    found = finding_of(Measure.COST_PER_RUN_USD, Difference(0, 0, 0), NAMES)

    assert found.sentence == "old and new are exactly equal."


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
    found = short_finding(difference, is_points=is_points, less=Tone.GOOD)

    assert (found.headline, found.tone) == (headline, tone)
    assert " ".join(filter(None, (found.change, found.interval, found.sentence))) == said


def test_less_may_be_bad_or_neither() -> None:
    less = Difference(-0.2, -0.25, -0.12)

    assert short_finding(less, is_points=True, less=Tone.BAD).tone is Tone.BAD
    assert short_finding(less, is_points=False, less=Tone.NEUTRAL).tone is Tone.NEUTRAL
