"""Groups of runs by any dimension: sums are exact and complete, percentiles are within 1 %.

The memo has the answers of closed days, so that only the time since is read. First the ranks of all groups
are read, then the sums of those with the highest rank, and of all others as one.
"""

from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from runtally.db.combined import gathered
from runtally.errors import DimensionNotTracked
from runtally.usage import masking
from runtally.usage.groups.derived import named_rows, ranks_of
from runtally.usage.groups.parts import GroupLatencies, Part, parts_of
from runtally.usage.groups.queries import GroupRows
from runtally.usage.groups.ranks import Name, Ranks, highest
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.groups.slices import SliceKey
from runtally.usage.plan import Group, LatencyDetail, Question, TooManyGroups
from runtally.usage.sketch import NO_LATENCIES, Latencies, Latency
from runtally.usage.totals import Totals, group_sum, total_of

Found = TypeVar("Found")
Place = TypeVar("Place", bound=Hashable)

FEW_ROWS = 500
"""Groups in buckets that are read at once rather than those with the highest rank alone."""

MAX_RANKS = 100_000
"""Groups in a part of the time whose ranks are all read; of more, the database chooses those with the highest."""
_SPARE_RANKS = 1_000
"""Groups that are read in addition, as those that are called as the rest are not named."""

MAX_VALUES_READ = 100_000
"""The values of a dimension whose ranks are all read; they are counted before."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums and the latencies of the runs of a group."""

    totals: Totals
    latency: Latency | None
    """None where it was not asked for, or would have to be read from more runs than may be."""


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """The sums and latencies of groups over a whole time range and in each of its buckets."""

    question: Question
    groups: Mapping[Group, Sums]
    """The group with the highest rank first; all that have none of their own are the last."""
    slices: Mapping[SliceKey, Sums]
    has_more: bool = False
    """Whether those that have none of their own include groups that a higher limit would name."""

    @property
    def total(self) -> Totals:
        """The sums of all runs; meaningless for groups that overlap."""
        return total_of(group.totals for group in self.groups.values())


@dataclass(frozen=True, slots=True)
class Values:
    """The measure of each value of a dimension, with money in pico-dollars, without their names."""

    measures: tuple[int, ...]
    runs: int
    """The runs with these values and without any; fewer than all runs where some values have no sums of their own."""


async def read_groups(readers: Sequence[GroupRowReader], question: Question) -> GroupAnswer:
    """Answer a question about groups of runs: those of a database, or of several together, each of which is seen at one moment.

    Raises `DimensionNotTracked` where too many runs would have to be read.
    """
    return await _answer(question, await _parts_of_each(readers, question))


async def read_highest(readers: Sequence[GroupRowReader], question: Question) -> tuple[Group, ...]:
    """Return the groups with the highest rank, one more than wanted where there are as many, without their sums.

    They are not masked. Raises `DimensionNotTracked` where too many runs would have to be read.
    """
    names, _ = await _names(question, await _parts_of_each(readers, question))
    return names


async def count_groups(readers: Sequence[GroupRowReader], question: Question, most: int) -> int:
    """Count the groups of each part of the time, so that a group of several parts counts several times.

    Stops at the part where there are more than `most`. Raises `DimensionNotTracked` where too many runs would have to be read.
    """
    count = 0
    for part in await _parts_of_each(readers, question):
        count += await part.count(question, most)
        if count > most:
            break
    return count


async def has_hidden_values(readers: Sequence[GroupRowReader], question: Question) -> bool:
    """Return whether values of the question's key have no sums of their own on some day, so that the rest includes them."""
    parts = await _parts_of_each(readers, question)
    return any(await _each(parts, lambda part: part.has_hidden_values(question)))


async def _parts_of_each(readers: Sequence[GroupRowReader], question: Question) -> list[Part]:
    """Return the parts of a question's time in each database."""
    found = await gathered(parts_of(reader, question, is_added=len(readers) > 1) for reader in readers)
    return [part for parts in found for part in parts]


async def _each(parts: Sequence[Part], read: Callable[[Part], Coroutine[Any, Any, Found]]) -> list[Found]:
    """Read each part: those of a database in as few statements as possible, databases at the same time."""
    by_database = [[*of_one] for _, of_one in groupby(parts, attrgetter("reader"))]
    found = await gathered(of_one[0].reader.reads.each([read(part) for part in of_one]) for of_one in by_database)
    return [of_part for of_one in found for of_part in of_one]


async def _answer(question: Question, parts: Sequence[Part]) -> GroupAnswer:
    """Add up what the parts of a question's runs have: times of a database, and databases."""
    ranked, known = await _names(question, parts)
    names = ranked[: question.limit]
    named = replace(question, named=names)
    has_latencies = _has_latencies(named, parts)
    found = await _each(
        parts, lambda part: _read(part, named, known if part is parts[-1] else None, has_latencies=has_latencies)
    )
    rows = [of_part for of_part, _ in found]
    of_groups, of_slices = _added_latencies(named, [latencies for _, latencies in found])
    sums = group_sum(item for row in rows for item in row.groups.items())
    groups = {group: sums.pop(group) for group in names} | sums
    slices = group_sum(item for row in rows for item in row.slices.items())
    if len(question.timeline.starts) == 1:
        slices = {(0, group): totals for group, totals in groups.items()}
    if shown := masking.group_mask(question.filter.project_id, question.by):
        # The memo holds the original names. A name and its stored hash become one group.
        groups = group_sum((shown(group), totals) for group, totals in groups.items())
        slices = group_sum(((number, shown(group)), totals) for (number, group), totals in slices.items())
        of_groups = of_groups and _sum((shown(group), one) for group, one in of_groups.items())
        of_slices = of_slices and _sum(((number, shown(group)), one) for (number, group), one in of_slices.items())
    return GroupAnswer(
        question,
        {group: Sums(totals, _percentiles(of_groups, group)) for group, totals in groups.items()},
        {place: Sums(totals, _percentiles(of_slices, place)) for place, totals in slices.items()},
        has_more=len(ranked) > len(names),
    )


async def read_values(reader: GroupRowReader, question: Question, runs: int) -> Values:
    """Read the measure of every value of the dimension that a question groups by; there are no more of them than its runs.

    Raises `DimensionNotTracked` where too many runs would have to be read, or too many values.
    """
    parts = await parts_of(reader, question)
    for part in parts if runs > MAX_VALUES_READ else ():
        if await part.count(question, MAX_VALUES_READ) > MAX_VALUES_READ:
            names = " and ".join(dimension.name for dimension in question.by)
            raise DimensionNotTracked(
                f"There are more than {MAX_VALUES_READ:,} values of {names}: ask for a shorter time."
            )
    return _values_of(await reader.reads.each([part.ranks(question) for part in parts]))


def _values_of(found: Sequence[Ranks]) -> Values:
    measures: dict[Name, int] = {}
    for ranks in found:
        # Few of very many values have runs in several parts of the time.
        shared = {name: measures[name] for name in measures.keys() & ranks.places.keys()}
        measures.update(zip(ranks.places, ranks.measures, strict=True))
        for name, measure in shared.items():
            measures[name] += measure
    measures.pop(None, None)
    return Values(tuple(measures.values()), sum(sum(ranks.runs) for ranks in found))


async def read_whole_latencies(reader: GroupRowReader, question: Question) -> Latencies | None:
    """Read the latencies of all runs of a question without groups; None where too many runs would have to be read."""
    whole = replace(question, by=(), named=(), latencies=LatencyDetail.WHOLE)
    parts = await parts_of(reader, whole)
    if not _has_latencies(whole, parts):
        return None
    found, _ = _added_latencies(whole, await reader.reads.each([part.latencies(whole) for part in parts]))
    return None if found is None else found.get((), NO_LATENCIES)


async def _names(question: Question, parts: Sequence[Part]) -> tuple[tuple[Group, ...], GroupRows | None]:
    """Find the groups with the highest rank, one more than wanted, and the sums of all of the last part, if known after that."""
    if not question.by:
        return (), None
    *closed, open_ = parts
    is_remembered = closed and not open_.is_added and all(part.has_ranks(question, MAX_RANKS) for part in closed)
    if not is_remembered:
        found = await _each(parts, lambda part: part.ranks_up_to(question, MAX_RANKS))
        return await _highest(question, parts, found), None
    ranks = [one for part in closed if (one := await part.ranks_up_to(question, MAX_RANKS)) is not None]
    if len(ranks) < len(closed):
        return await _highest(question, parts, [None]), None
    if max(len(rank.places) for rank in ranks) * open_.buckets > FEW_ROWS:
        return await _highest(question, parts, [*ranks, await open_.ranks_up_to(question, MAX_RANKS)]), None
    try:
        # The sums of few take no longer than the ranks, and one statement instead of two.
        rows = await open_.rows(replace(question, named=None, most=FEW_ROWS))
    except TooManyGroups:
        return await _highest(question, parts, [*ranks, await open_.ranks_up_to(question, MAX_RANKS)]), None
    return highest([*ranks, ranks_of(question, rows.groups)], question.limit + 1), rows


async def _highest(question: Question, parts: Sequence[Part], found: Sequence[Ranks | None]) -> tuple[Group, ...]:
    """Return the groups with the highest rank over all parts, given the ranks of each; None is that of one with too many.

    They are one more than wanted, where there are as many.
    """
    ranks = [one for one in found if one is not None]
    if len(ranks) < len(found):
        whole = replace(parts[0], timeline=question.timeline)
        try:
            ranks = [await whole.highest_ranks(question, question.limit + _SPARE_RANKS)]
        except DimensionNotTracked:
            # All parts together have too many runs to read, but each has few enough.
            ranks = await _each(parts, lambda part: part.ranks(question))
    return highest(ranks, question.limit + 1)


async def _read(
    part: Part, question: Question, known: GroupRows | None, *, has_latencies: bool
) -> tuple[GroupRows, GroupLatencies | None]:
    """Read the sums of the question's named groups in a part and those of all others as one, and their latencies."""
    if not has_latencies:
        return await _named_rows(part, question, known), None
    return await part.reader.reads.together(_named_rows(part, question, known), part.latencies(question))


async def _named_rows(part: Part, question: Question, known: GroupRows | None) -> GroupRows:
    return await part.rows(question) if known is None else named_rows(known, question.named or ())


def _has_latencies(question: Question, parts: Sequence[Part]) -> bool:
    """Return whether latencies are asked for, and no part is remembered to have too many runs for that."""
    is_asked = question.latencies is not LatencyDetail.NONE
    return is_asked and not any(part.is_known_as_too_large(question) for part in parts)


def _added_latencies(
    question: Question, parts: Sequence[GroupLatencies | None]
) -> tuple[Mapping[Group, Latencies] | None, Mapping[SliceKey, Latencies] | None]:
    """Add up the latencies of all parts, over the whole time and in each bucket; None where a part has none."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None, None
    groups = group_sum(item for one in known for item in one.groups.items())
    has_buckets = question.latencies is LatencyDetail.BUCKETS
    return groups, group_sum(item for one in known for item in one.slices.items()) if has_buckets else None


def _sum(latencies: Iterable[tuple[Place, Latencies]]) -> dict[Place, Latencies]:
    """Add up the latencies of each group; those of which only the percentiles were read cannot be, and are left out."""
    found: dict[Place, Latencies] = {}
    for place, more in latencies:
        known = found.get(place, NO_LATENCIES)
        can_add = not (known and more) or known.known is more.known is None
        found[place] = known + more if can_add else NO_LATENCIES
    return found


def _percentiles(
    latencies: Mapping[Group, Latencies] | Mapping[SliceKey, Latencies] | None, place: object
) -> Latency | None:
    if latencies is None:
        return None
    return latencies.get(place, NO_LATENCIES).percentiles  # type: ignore[call-overload, no-any-return]  # Keys of either kind.
