"""The groups with the highest rank in several times are those of all together."""

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.usage.groups.ranks import Rank, Ranks, highest
from runtally.usage.plan import Group

groups = st.tuples(st.none() | st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
# Few different measures, so that many are equal, and some that no machine word holds.
measures = st.integers(-1, 3) | st.integers(2**63, 2**70)
ranks = st.dictionaries(groups, st.builds(Rank, measures, st.integers(0, 3)))


def all_in(found: Ranks) -> dict[Group, Rank]:
    """Return the rank of each group, in their order."""
    return {
        name if isinstance(name, tuple) else (name,): Rank(measure, runs)
        for name, measure, runs in zip(found.places, found.measures, found.runs, strict=True)
    }


@given(times=st.lists(ranks, min_size=1, max_size=4), limit=st.integers(1, 10), most_walked=st.sampled_from([0, 2, 99]))
def test_the_highest_of_several_times_are_the_highest_of_their_sums(
    times: list[dict[Group, Rank]], limit: int, most_walked: int
) -> None:
    measure: Counter[Group] = Counter()
    runs: Counter[Group] = Counter()
    for group, rank in (item for one in times for item in one.items()):
        measure[group] += rank.measure
        runs[group] += rank.runs
    by_rank = sorted(runs, key=lambda group: (-measure[group], -runs[group], (group[0] is None, group[0] or "")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runtally.usage.groups.ranks._MOST_STEPS", most_walked)
        found = highest([Ranks.of(one) for one in times], limit)

    assert found == tuple(by_rank[:limit])


def test_a_group_that_is_first_at_no_time_may_have_the_highest_rank_of_both() -> None:
    first = Ranks.of({("a",): Rank(9, 1), ("b",): Rank(8, 1), ("x",): Rank(7, 1)})
    second = Ranks.of({("c",): Rank(9, 1), ("d",): Rank(8, 1), ("x",): Rank(7, 1)})

    assert highest([first, second], 1) == (("x",),)


def test_of_equal_sums_that_of_more_runs_is_higher_wherever_it_is_found() -> None:
    first = Ranks.of({("a",): Rank(3, 9), ("x",): Rank(3, 8)})
    second = Ranks.of({("b",): Rank(2, 99), ("x",): Rank(2, 98), ("a",): Rank(2, 0)})

    assert highest([first, second], 1) == (("x",),)


@given(ranks)
def test_each_group_keeps_its_rank(given_ranks: dict[Group, Rank]) -> None:
    assert all_in(Ranks.of(given_ranks)) == given_ranks


def test_money_is_ranked_by_every_digit() -> None:
    assert Rank.of(Decimal("0.000000000001"), 5) == Rank(1, 5)


def test_the_highest_of_one_time_are_its_first_and_groups_without_a_value_come_last() -> None:
    found = Ranks.of(
        {(None,): Rank(5, 1), ("b",): Rank(5, 1), ("a",): Rank(5, 1), ("c",): Rank(9, 0), ("d",): Rank(5, 2)}
    )

    assert highest([found], 9) == (("c",), ("d",), ("a",), ("b",), (None,))
    assert highest([found], 2) == (("c",), ("d",))


def test_an_empty_value_is_a_value() -> None:
    assert highest([Ranks.of({("a",): Rank(1, 1), (None,): Rank(1, 1), ("",): Rank(1, 1)})], 9) == (
        ("",),
        ("a",),
        (None,),
    )


def test_a_rank_that_no_machine_word_holds_is_kept() -> None:
    assert all_in(Ranks.of({("a",): Rank(2**80, 1)})) == {("a",): Rank(2**80, 1)}


def test_what_is_counted_is_ranked_as_it_is() -> None:
    assert Rank.of(7, 5) == Rank(7, 5)
    assert Rank.of(Decimal("1.5"), 5) == Rank(1_500_000_000_000, 5)


PAIRS: dict[Group, Rank] = {
    ("a", None): Rank(5, 1),
    ("a", "y"): Rank(5, 1),
    ("a", ""): Rank(5, 1),
    ("b", "x"): Rank(9, 1),
    (None, "x"): Rank(5, 1),
    ("a", "x"): Rank(5, 7),
}
IN_ORDER: list[Group] = [("b", "x"), ("a", "x"), ("a", ""), ("a", "y"), ("a", None), (None, "x")]


def test_groups_of_two_dimensions_are_in_the_order_of_their_ranks_and_then_of_their_values() -> None:
    found = Ranks.of(PAIRS)

    assert list(all_in(found)) == IN_ORDER
    assert highest([found], 3) == tuple(IN_ORDER[:3])
    assert all_in(found) == PAIRS
    assert list(all_in(Ranks.of({("a",): Rank(1, 1), (None,): Rank(2, 1)}))) == [(None,), ("a",)]


@given(ranks, ranks)
def test_further_groups_take_their_places_among_the_others(some: dict[Group, Rank], more: dict[Group, Rank]) -> None:
    new = {group: rank for group, rank in more.items() if group not in some}

    assert Ranks.of(some).with_groups(new) == Ranks.of(some | new)


def test_further_groups_of_two_dimensions_take_their_places_as_well() -> None:
    for group, rank in PAIRS.items():
        others = {one: known for one, known in PAIRS.items() if one != group}
        assert Ranks.of(others).with_groups({group: rank}) == Ranks.of(PAIRS)
    assert list(all_in(Ranks.of({}).with_groups(PAIRS))) == IN_ORDER
