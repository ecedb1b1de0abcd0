"""Which colour a series has."""

from hypothesis import given
from hypothesis import strategies as st

from runtally.usage.colour_queries import HUES, new_colours
from webapp.charts.look import SLOTS, slots_of

NAMES = st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), max_size=6, unique=True)


def test_values_that_come_together_get_different_colours() -> None:
    assert new_colours({}, list("abc")) == {"a": 0, "b": 1, "c": 2}
    assert new_colours({"a": 0, "z": 1}, ["a", "b"]) == {"b": 2}


def test_a_value_gets_the_colour_that_fewest_have() -> None:
    known = {str(number): number for number in range(HUES)} | {"x": 0, "y": 1}

    assert new_colours(known, ["new"]) == {"new": 2}
    assert new_colours(known, ["2", "new"]) == {"new": 3}


@given(st.lists(NAMES, max_size=20))
def test_a_colour_that_was_given_stays_and_new_ones_differ_within_a_chart(charts: list[list[str]]) -> None:
    known: dict[str, int] = {}
    for chart in charts:
        new = new_colours(known, chart)
        assert not new.keys() & known.keys()
        assert len({*new.values()} | {known[name] for name in chart if name in known}) >= len(new)
        assert all(0 <= number < HUES for number in new.values())
        known |= new


def test_there_is_a_slot_for_each_colour() -> None:
    assert slots_of(["a", "b"], {"a": 0, "b": HUES - 1}) == {"a": SLOTS[0], "b": SLOTS[-1]}


def test_the_second_of_one_colour_is_part_of_other_in_that_chart() -> None:
    assert slots_of(["a", "b", "c"], {"a": 4, "b": 4, "c": 1}) == {"a": "c5", "c": "c2"}
