"""Derive groups from others: all that have no name as one, successful runs, and runs without a value. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping

from runtally.usage.dimensions import OTHER, STATUS, Dimension
from runtally.usage.groups.queries import GroupRows
from runtally.usage.groups.ranks import Rank, Ranks
from runtally.usage.groups.slices import ANY_VALUE, SliceKey
from runtally.usage.plan import Group, Question
from runtally.usage.sketch import binned
from runtally.usage.totals import NO_RUNS, Totals, group_sum

Counts = dict[SliceKey, Counter[int]]
"""The runs with each latency, in each bucket and group."""


def named_group(group: Group, named: Collection[Group]) -> Group:
    """Return the group, or "all others" if it is not named."""
    return group if group in named else (OTHER,) * len(group)


def named_rows(rows: GroupRows, names: Collection[Group]) -> GroupRows:
    """Return the sums of these groups, and of all others as one."""
    named = set(names)
    return GroupRows(
        group_sum((named_group(group, named), totals) for group, totals in rows.groups.items()),
        group_sum(((number, named_group(group, named)), totals) for (number, group), totals in rows.slices.items()),
    )


def ranks_of(question: Question, groups: Mapping[Group, Totals]) -> Ranks:
    """Return the ranks of groups with known sums."""
    return Ranks.of(ranks_by_group(question, groups))


def ranks_by_group(question: Question, groups: Mapping[Group, Totals]) -> dict[Group, Rank]:
    """Return the rank of each group with known sums."""
    return {
        group: Rank.of(getattr(totals, question.rank_by), totals.runs)
        for group, totals in groups.items()
        if OTHER not in group
    }


def succeeded(rows: GroupRows) -> GroupRows:
    """Return the groups of successful runs, without the status in their keys."""

    def kept(group: Group) -> bool:
        return group[-1] == STATUS.usual

    return GroupRows(
        {group[:-1]: totals for group, totals in rows.groups.items() if kept(group)},
        {(number, group[:-1]): totals for (number, group), totals in rows.slices.items() if kept(group)},
    )


def with_rest(question: Question, rest_of: Dimension, rows: GroupRows, whole: GroupRows) -> GroupRows:
    """Add the group of runs without a value: all runs minus those with one."""
    place = question.by.index(rest_of)
    all_slices = whole.slices or {(0, group): totals for group, totals in whole.groups.items()}
    valued = rows.valued if whole.slices else group_sum(((0, group), one) for (_, group), one in rows.valued.items())
    left = {key: totals - valued.get(key, NO_RUNS) for key, totals in all_slices.items()}
    rest = {
        (number, (*group[:place], rest_of.usual, *group[place:])): totals
        for (number, group), totals in left.items()
        if totals.runs
    }
    return GroupRows(
        group_sum((*rows.groups.items(), *((group, totals) for (_, group), totals in rest.items()))),
        {**rows.slices, **rest},
    )


def rest_of_latencies(question: Question, rest_of: Dimension, found: Counts, whole: Counts) -> Counts:
    """Return the latencies of runs without a value, by subtracting bins, to which all sketches are converted."""
    place = question.by.index(rest_of)
    left = {key: _in_bins(counts) for key, counts in whole.items()}
    for (number, group), counts in found.items():
        is_counted = group[place] == ANY_VALUE if rest_of.is_list else True
        key = number, (*group[:place], *group[place + 1 :])
        if is_counted and key in left:
            left[key].subtract(_in_bins(counts))
    return {
        (number, (*group[:place], rest_of.usual, *group[place:])): +counts for (number, group), counts in left.items()
    }


def _in_bins(counts: Counter[int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for latency, runs in counts.items():
        found[binned(latency)] += runs
    return found
