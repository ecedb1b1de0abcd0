"""The ranks of groups, by which the groups that an answer names are chosen. Pure."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Any, NamedTuple, Self, TypeAlias

from runtally.money import USD_DECIMALS
from runtally.usage.dimensions import OTHER_NAME
from runtally.usage.plan import Group

Name: TypeAlias = str | Group | None
"""A group in little memory: of a single dimension its value."""


class Rank(NamedTuple):
    """The measure by which a group is ranked, with money in pico-dollars, and its number of runs."""

    measure: int = 0
    runs: int = 0

    @classmethod
    def of(cls, measure: Decimal | int, runs: int) -> Self:
        return cls(int(measure.scaleb(USD_DECIMALS)) if isinstance(measure, Decimal) else measure, runs)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of all groups in little memory: a key may have many thousands of values."""

    places: Mapping[Name, int]
    """The place of each group in the other fields, the group with the highest rank first."""
    measures: Sequence[int]
    runs: Sequence[int]

    @classmethod
    def of(cls, ranks: Mapping[Group, Rank]) -> Self:
        names = sorted(((_name(group), rank) for group, rank in ranks.items()), key=lambda item: _order(*item))
        return cls.sorted(
            [name for name, _ in names], [one.measure for _, one in names], [one.runs for _, one in names]
        )

    @classmethod
    def sorted(cls, names: Sequence[Name], measures: Sequence[int], runs: Sequence[int]) -> Self:
        """Return the ranks of groups that have the highest rank first."""
        with suppress(OverflowError):
            measures = array("q", measures)
        return cls({name: place for place, name in enumerate(names)}, measures, array("q", runs))

    def with_groups(self, ranks: Mapping[Group, Rank]) -> "Ranks":
        """Return the ranks of further groups as well, of which there are few."""
        names, measures, runs = list(self.places), list(self.measures), list(self.runs)
        for group, rank in ranks.items():
            name = _name(group)
            place = bisect_left(
                range(len(names)),
                _order(name, rank),
                key=lambda place: _order(names[place], Rank(measures[place], runs[place])),
            )
            names.insert(place, name)
            measures.insert(place, rank.measure)
            runs.insert(place, rank.runs)
        return Ranks.sorted(names, measures, runs)

    def rank(self, group: Group) -> Rank:
        """Return the rank of a group; zero if it has no runs."""
        place = self.places.get(_name(group))
        return _NO_RUNS if place is None else Rank(self.measures[place], self.runs[place])

    @property
    def groups(self) -> list[Group]:
        """All groups, the one with the highest rank first."""
        return list(map(_group, self.places))


_NO_RUNS = Rank()


def highest(ranks: Sequence[Ranks], limit: int) -> tuple[Group, ...]:
    """Return the groups with the highest rank over several time ranges together.

    Each range is walked from its highest rank down, until no group that is left can be among them. A value that is called as the
    rest is in an answer belongs to the rest: the answer could not tell the two apart.
    """
    ranks = [one for one in ranks if one.places]
    walks = [_named(one) for one in ranks]
    if len(walks) == 1:
        return tuple(_group(name) for name, _ in islice(walks[0], limit))
    known: dict[Name, Rank] = {}
    step, least = max(limit, 1), 0
    while walks:
        parts = [list(islice(walk, step)) for walk in walks]
        walks = [walk for walk, part in zip(walks, parts, strict=True) if len(part) == step]
        for name in (name for part in parts for name, _ in part if name not in known):
            known[name] = _rank_in_all(ranks, name)
        least = min(nlargest(limit, (rank.measure for rank in known.values())), default=0)
        most_of_rest = sum(max(part[-1][1], 0) for part in parts if len(part) == step)
        if least > most_of_rest:
            break
        step *= 2
    # Only the runs and names of these matter, as all others have less.
    orders = ((*_order(name, rank), name) for name, rank in known.items() if rank.measure >= least)
    return tuple(_group(name) for *_, name in nsmallest(limit, orders))


def _rank_in_all(ranks: Sequence[Ranks], name: Name) -> Rank:
    """Return the rank of a group over several time ranges together; of many thousands of groups, so without any detour."""
    measure = runs = 0
    for one in ranks:
        place = one.places.get(name)
        if place is not None:
            measure += one.measures[place]
            runs += one.runs[place]
    return Rank(measure, runs)


def _named(ranks: Ranks) -> Iterator[tuple[Name, int]]:
    """Yield the groups that an answer may name, and their measures, the one with the highest rank first."""
    for name, measure in zip(ranks.places, ranks.measures, strict=True):
        if OTHER_NAME not in (name if isinstance(name, tuple) else (name,)):
            yield name, measure


def added(ranks: Sequence[Rank]) -> Rank:
    """Return the rank of a group in several times together."""
    return Rank(sum(one.measure for one in ranks), sum(one.runs for one in ranks))


def _order(name: Name, rank: Rank) -> tuple[Any, ...]:
    """Return the sort key of a group: highest rank first, groups without a value last."""
    if isinstance(name, tuple):
        return -rank.measure, -rank.runs, tuple((value is None, value or "") for value in name)
    return -rank.measure, -rank.runs, name is None, name or ""


def _name(group: Group) -> Name:
    return group[0] if len(group) == 1 else group


def _group(name: Name) -> Group:
    return name if isinstance(name, tuple) else (name,)
