"""A summary is the same value in whatever parts it is read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.measures import MEASURES
from runtally.usage.dimensions import MODEL, PROVIDER, TAGS
from runtally.usage.sketch import NO_LATENCIES, Latencies, Latency, sketch_of_counts
from runtally.usage.summary import Group, Summary
from runtally.usage.totals import Totals, total_of
from runtally.usage.window import Range, Window
from tests.summaries import Slice, made_summary

WINDOW = Window.of(Range.WEEK, datetime(2026, 11, 21, 9, 30, tzinfo=UTC))
BAR = timedelta(hours=6)
totals = st.tuples(st.integers(1, 9), st.integers(0, 9), st.decimals(0, 9, places=6)).map(
    lambda drawn: Totals(runs=drawn[0], errors=drawn[1], cost_usd=drawn[2])
)
slices = st.builds(
    Slice,
    st.sampled_from(WINDOW.starts),
    st.sampled_from(["acme", "bolt"]),
    st.sampled_from(["large", "small"]),
    totals,
)
sketches = st.dictionaries(st.integers(0, 20), st.integers(1, 9), min_size=1).map(sketch_of_counts)


def summary_of(some: list[Slice]) -> Summary:
    return replace(made_summary(WINDOW, some, bar=BAR), whole=NO_LATENCIES)


@given(st.lists(slices), st.lists(slices))
def test_two_summaries_add_up_to_that_of_all_runs(one: list[Slice], other: list[Slice]) -> None:
    both = summary_of(one) + summary_of(other)

    assert both == summary_of(one + other)
    assert both - summary_of(other) == summary_of(one)
    assert both.total == total_of(each.totals for each in one + other)


@given(st.lists(slices))
def test_bars_points_and_lists_agree(some: list[Slice]) -> None:
    lines = summary_of(some)
    bars = lines.in_bars()

    assert (bars.window.interval, len(bars.points)) == (BAR, 28)
    assert total_of(point.totals for point in bars.points) == total_of(point.totals for point in lines.points)
    for dimension in (PROVIDER, MODEL):
        assert total_of(bars.list_by(dimension).values()) == bars.total
    costs = [usd.cost_usd for usd in bars.list_by(MODEL).values()]
    assert costs == sorted(costs, reverse=True)
    assert sum((one.cost_usd for one in bars.slices.values()), Decimal(0)) == bars.total.cost_usd


@given(sketches, sketches)
def test_latencies_add_up_and_are_taken_away(
    one: tuple[list[int], list[int]], other: tuple[list[int], list[int]]
) -> None:
    few, more = Latencies((one,)), Latencies((other,))

    assert (few + more).percentiles == (more + few).merged().percentiles
    assert (few + more - more).percentiles == few.percentiles
    assert not few - few
    assert (few + NO_LATENCIES, few - NO_LATENCIES) == (few, few)


def test_latencies_of_buckets_add_up_and_are_taken_away_bucket_by_bucket() -> None:
    some, more = Latencies((sketch_of_counts({10: 1}),)), Latencies((sketch_of_counts({18: 3}),))
    one = replace(made_summary(WINDOW), latencies={0: some, 1: some}, whole=some + some)
    other = replace(made_summary(WINDOW), latencies={1: more, 2: more}, whole=more + more)

    both = one + other

    assert {number: found.percentiles for number, found in both.latencies.items()} == {
        0: Latency(5, 5),
        1: Latency(9, 9),
        2: Latency(9, 9),
    }
    assert (both.latency, list(both.latencies)) == (Latency(9, 9), [0, 1, 2])
    left = both - other
    assert {number: found.percentiles for number, found in left.latencies.items()} == {
        0: Latency(5, 5),
        1: Latency(5, 5),
    }
    assert left.latency == Latency(5, 5)
    assert [point.latency for point in left.points[:3]] == [Latency(5, 5), Latency(5, 5), Latency()]


def test_runs_that_are_in_several_groups_count_once_in_the_total() -> None:
    slices = [Slice(WINDOW.start, "acme", "large", Totals(runs=2))]
    of_tags = replace(made_summary(WINDOW, slices), by=(TAGS,), groups={("a",): Totals(runs=2), ("b",): Totals(runs=1)})

    assert of_tags.is_overlapping
    assert replace(of_tags, by=(MODEL, TAGS)).is_overlapping
    assert not replace(of_tags, by=(MODEL, PROVIDER)).is_overlapping
    assert of_tags.total.runs == 2
    # Groups know all runs also where their buckets were not asked for.
    assert replace(made_summary(WINDOW, slices), buckets={}).total.runs == 2
    assert replace(made_summary(WINDOW, slices), by=(), groups={}).total.runs == 2


def test_a_settled_summary_says_the_same_in_less() -> None:
    sketches = Latencies((sketch_of_counts({10: 1}), sketch_of_counts({18: 3})))
    full = replace(made_summary(WINDOW), latencies={3: sketches}, whole=sketches)

    settled = full.settled()

    assert settled.latencies == {3: Latencies(known=Latency(9, 9))}
    assert len(settled.whole.sketches) == 1
    assert (settled.latency, settled.points) == (full.latency, full.points)


def test_what_is_in_bars_or_grouped_already_is_the_same() -> None:
    of_model = made_summary(WINDOW, latencies={3: Latency(5, 9)}).grouped_by(MODEL)

    assert of_model.grouped_by(MODEL) is of_model
    assert of_model.in_bars() is of_model
    assert replace(of_model, bars=None).in_bars().latencies == of_model.latencies


def test_a_group_of_which_only_the_cost_was_asked_for_stays_as_long_as_it_has_one() -> None:
    usd = Decimal(1)
    slices: dict[tuple[int, Group], Totals] = {
        (0, ("a",)): Totals(cost_usd=2 * usd),
        (0, ("b",)): Totals(cost_usd=usd),
        (1, ("a",)): Totals(runs=1),
    }
    some = replace(made_summary(WINDOW), slices=slices)

    left = some - replace(some, slices={(0, ("a",)): Totals(cost_usd=usd), (0, ("b",)): Totals(cost_usd=usd)})

    assert left.slices == {(0, ("a",)): Totals(cost_usd=usd), (1, ("a",)): Totals(runs=1)}


def test_percentiles_cannot_be_added_up() -> None:
    with pytest.raises(ValueError, match="cannot be added up"):
        _ = Latencies(known=Latency(1, 2)) + Latencies(known=Latency(1, 2))


def test_totals_have_a_field_for_each_measure() -> None:
    assert Totals._fields == tuple(measure.name for measure in MEASURES)
    assert all(type(zero) is measure.python_type for zero, measure in zip(Totals(), MEASURES, strict=True))


@given(st.lists(slices))
def test_groups_of_one_dimension_and_of_how_runs_ended_add_up(some: list[Slice]) -> None:
    # No more runs fail than there are.
    possible = [one for one in some if one.totals.errors <= one.totals.runs]
    bars = summary_of(possible).in_bars()

    for grouped in (bars.grouped_by(MODEL), bars.grouped_by(PROVIDER), bars.grouped_by_status()):
        assert len(grouped.by) == 1
        whole = total_of(grouped.groups.values())
        assert total_of(grouped.slices.values()) == whole
        assert (whole.runs, whole.failed, whole.cost_usd) == (bars.total.runs, bars.total.failed, bars.total.cost_usd)
        assert grouped.buckets == bars.buckets
