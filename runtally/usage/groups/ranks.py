"""The ranks of groups, by which the groups that an answer names are chosen. Pure."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from heapq import nlargest, nsmallest
from itertools import combinations, count, islice
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
        names = sorted(
            ((_name(group), rank) for group, rank in ranks.items()), key=lambda item: _order(item[0], *item[1])
        )
        return cls.sorted(
            [name for name, _ in names], [name.measure for _, name in names], [name.runs for _, name in names]
        )

    @classmethod
    def sorted(cls, names: Sequence[Name], measures: Sequence[int], runs: Sequence[int]) -> Self:
        """Return the ranks of groups that have the highest rank first."""
        with suppress(OverflowError):
            measures = array("q", measures)
        return cls(dict(zip(names, count(), strict=False)), measures, array("q", runs))

    def with_groups(self, ranks: Mapping[Group, Rank]) -> "Ranks":
        """Return the ranks of further groups as well, of which there are few."""
        names, measures, runs = list(self.places), list(self.measures), list(self.runs)
        for group, rank in ranks.items():
            name = _name(group)
            place = bisect_left(
                range(len(names)),
                _order(name, *rank),
                key=lambda place: _order(names[place], measures[place], runs[place]),
            )
            names.insert(place, name)
            measures.insert(place, rank.measure)
            runs.insert(place, rank.runs)
        return Ranks.sorted(names, measures, runs)


def highest(ranks: Sequence[Ranks], limit: int) -> tuple[Group, ...]:
    """Return the groups with the highest rank over several time ranges together.

    Each range is walked from its highest rank down, until no group that is left can be among them; where that is not soon, as among
    many groups of the same rank, those are added up that several ranges have. A value that is called as the rest is in an answer
    belongs to the rest: the answer could not tell the two apart.
    """
    ranks = [rank for rank in ranks if rank.places]
    found = _walked(ranks, limit) or _added_where_shared(ranks, limit)
    return tuple(map(_group, nsmallest(limit, found, key=lambda name: _order(name, *found[name]))))


def _walked(ranks: Sequence[Ranks], limit: int) -> dict[Name, Rank] | None:
    """Add up the groups among which the highest are, if a short walk finds them."""
    walks, found, step = [_named(rank) for rank in ranks], dict[Name, Rank](), max(limit, _MIN_STEP)
    while walks:
        parts = [list(islice(walk, step)) for walk in walks]
        if step > _MOST_STEPS * max(limit, _MIN_STEP) or all(part[0][1] == part[-1][1] for part in parts if part):
            return None
        walks = [walk for walk, part in zip(walks, parts, strict=True) if len(part) == step]
        for name in {name for part in parts for name, _ in part}.difference(found):
            found[name] = _added(ranks, name)
        most_of_rest = sum(max(part[-1][1], 0) for part in parts if len(part) == step)
        if min(nlargest(limit, (one.measure for one in found.values())), default=0) > most_of_rest:
            break
        step *= 2
    return found


_MIN_STEP, _MOST_STEPS = 10, 2


def _added_where_shared(ranks: Sequence[Ranks], limit: int) -> dict[Name, Rank]:
    """Add up the groups of several ranges, and those of one alone that are the first of these: they keep their order there."""
    shared = set[Name]().union(*(one.places.keys() & other.places.keys() for one, other in combinations(ranks, 2)))
    alone = ((name for name, _ in _named(rank) if name not in shared) for rank in ranks)
    names = {name for name in shared if _may_be_named(name)}.union(*(islice(of_one, limit) for of_one in alone))
    return {name: _added(ranks, name) for name in names}


def _added(ranks: Sequence[Ranks], name: Name) -> Rank:
    """Return the rank of a group over several time ranges together."""
    measure = runs = 0
    for rank in ranks:
        if (place := rank.places.get(name)) is not None:
            measure += rank.measures[place]
            runs += rank.runs[place]
    return Rank(measure, runs)


def _named(ranks: Ranks) -> Iterator[tuple[Name, int]]:
    """Yield the groups that an answer may name, and their measures, the one with the highest rank first."""
    return (item for item in zip(ranks.places, ranks.measures, strict=True) if _may_be_named(item[0]))


def _may_be_named(name: Name) -> bool:
    return OTHER_NAME not in name if isinstance(name, tuple) else name != OTHER_NAME


def _order(name: Name, measure: int, runs: int) -> tuple[Any, ...]:
    """Return the sort key of a group: highest rank first, groups without a value last."""
    if isinstance(name, tuple):
        return -measure, -runs, tuple((value is None, value or "") for value in name)
    return -measure, -runs, name is None, name or ""


def _name(group: Group) -> Name:
    return group[0] if len(group) == 1 else group


def _group(name: Name) -> Group:
    return name if isinstance(name, tuple) else (name,)
