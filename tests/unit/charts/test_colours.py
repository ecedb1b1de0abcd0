"""A name keeps its colour."""

from webapp.charts.colours import SLOTS, colour_slots, shared_slots


def test_the_first_five_names_have_colours_by_their_rank() -> None:
    assert colour_slots("abcdefg") == dict(zip("abcde", SLOTS, strict=True))


def test_a_name_that_comes_twice_takes_one_colour() -> None:
    assert colour_slots(["a", "a", "b"]) == {"a": "c1", "b": "c2"}


def test_a_project_keeps_the_colours_that_names_have_everywhere() -> None:
    assert shared_slots(list("abcdefg"), list("eb")) == {"e": "c5", "b": "c2"}


def test_a_project_of_rare_names_takes_the_colours_that_are_free() -> None:
    assert shared_slots(list("abcdefg"), list("xby")) == {"b": "c2", "x": "c1", "y": "c3"}
