"""The ranks of groups, by which the groups that an answer names are chosen. Pure."""

from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from heapq import nsmallest
from itertools import islice
from typing import Any, NamedTuple, Self

from runtally.money import USD_DECIMALS
from runtally.usage.plan import Group


class Rank(NamedTuple):
    """The measure by which a group is ranked, with money in pico-dollars, and its number of runs."""

    measure: int = 0
    runs: int = 0

    @classmethod
    def of(cls, measure: Decimal | int, runs: int) -> Self:
        return cls(int(measure.scaleb(USD_DECIMALS)) if isinstance(measure, Decimal) else measure, runs)


_NO_RUNS = Rank()


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of all groups in little memory: a key may have many thousands of values."""

    places: Mapping[Group, int]
    """The place of each group in the other fields, the group with the highest rank first."""
    measures: Sequence[int]
    runs: Sequence[int]

    @classmethod
    def of(cls, ranks: Mapping[Group, Rank]) -> Self:
        groups = sorted(ranks, key=lambda group: _order(group, ranks[group]))
        measures: Sequence[int] = [ranks[group].measure for group in groups]
        with suppress(OverflowError):
            measures = array("q", measures)
        places = {group: place for place, group in enumerate(groups)}
        return cls(places, measures, array("q", (ranks[group].runs for group in groups)))

    def rank(self, group: Group) -> Rank:
        """Return the rank of a group; zero if it has no runs."""
        place = self.places.get(group)
        return _NO_RUNS if place is None else Rank(self.measures[place], self.runs[place])


def highest(ranks: Sequence[Ranks], limit: int) -> tuple[Group, ...]:
    """Return the groups with the highest rank over one or two time ranges together."""
    first, *others = ranks
    if not others:
        return tuple(islice(first.places, limit))
    [second] = others
    # Of groups that only the first has, as many as can be among the highest.
    left = islice((group for group in first.places if group not in second.places), limit)
    sums = {group: added((first.rank(group), second.rank(group))) for group in (*second.places, *left)}
    return tuple(nsmallest(limit, sums, key=lambda group: _order(group, sums[group])))


def added(ranks: Sequence[Rank]) -> Rank:
    """Return the rank of a group in several times together."""
    return Rank(sum(one.measure for one in ranks), sum(one.runs for one in ranks))


def _order(group: Group, rank: Rank) -> tuple[Any, ...]:
    """Return the sort key of a group: highest rank first, groups without a value last."""
    return -rank.measure, -rank.runs, tuple((value is None, value or "") for value in group)
