"""Reading what groups of runs come to, by any dimension: exact sums, never a part of one. Percentiles are within 1 %.

Sums that are kept answer where they tell the groups apart. What they do not tell is read from the runs, of which no more than
`MAX_RUNS_READ` are read for an answer: a question that needs more is refused, and the refusal says what would answer it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.usage import group_queries
from runtally.usage.dimensions import OTHER, STATUS, Dimension
from runtally.usage.group_queries import CellKey, Group, GroupRows, TrackedState
from runtally.usage.plan import (
    GroupQuestion,
    Plan,
    Rows,
    keeps_all_but_failed,
    plan_of,
    with_status,
    without_key,
)
from runtally.usage.project_queries import select_dropped_before
from runtally.usage.sketch import NO_LATENCY, Latency, binned, percentiles, sketch_of_counts
from runtally.usage.timeline import DAY, Cover
from runtally.usage.totals import NO_RUNS, Totals, group_sum
from runtally.usage.window import TimeSpan

MAX_RUNS_READ = 100_000
# Models, and how runs end: all of them are needed to tell what is left.
_ALL_GROUPS = 100_000
_Counts = dict[CellKey, Counter[int]]


@dataclass(frozen=True, slots=True)
class Sums:
    """What the runs of a group come to."""

    totals: Totals
    latency: Latency | None
    """None where it would have to be read from more runs than may be."""


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What groups of runs come to, over all of a time and in each of its buckets."""

    question: GroupQuestion
    groups: Mapping[Group, Sums]
    """The group with the highest rank first; all that have none of their own are the last."""
    cells: Mapping[CellKey, Sums]

    @property
    def is_overlapping(self) -> bool:
        """Whether a run may be in several groups."""
        return any(one.is_list for one in self.question.by)

    @property
    def total(self) -> Totals:
        """What all runs come to; of groups that overlap it says nothing."""
        return next(iter(group_sum(("", one.totals) for one in self.groups.values()).values()), NO_RUNS)


async def read_groups(connection: Connection, question: GroupQuestion) -> GroupAnswer:
    """Answer a question about groups of runs. Raises `DimensionNotTracked` where too many runs would have to be read.

    The statements of the connection must see one moment.
    """
    rows = await _read(connection, question)
    groups = _ranked(question, rows.groups)
    named = {group for group, _ in groups}
    cells = group_sum((_cell(place, named), totals) for place, totals in rows.cells.items())
    if len(question.timeline.starts) == 1:
        cells = {(0, group): totals for group, totals in groups}
    counts = await _read_latencies(connection, question, named) if question.has_latencies else None
    of_groups = None if counts is None else _of_groups(counts)
    return GroupAnswer(
        question,
        {group: Sums(totals, _latency(of_groups, group)) for group, totals in groups},
        {place: Sums(totals, _latency(counts, place)) for place, totals in cells.items()},
    )


async def _read(connection: Connection, question: GroupQuestion) -> GroupRows:
    """Read the sums of the groups with the highest rank, of all others, and of those without a value."""
    if keeps_all_but_failed(question):
        return _succeeded(await _read(connection, replace(with_status(question), limit=_ALL_GROUPS)))
    plan, state = await _plan(connection, question)
    await _demand_readable(connection, question, plan, plan.cover.runs)
    rows = await group_queries.select_groups(connection, question, plan, question.key, is_waiting=state.is_waiting)
    if plan.rest_of is None:
        return rows
    whole = await _read(connection, replace(without_key(question, plan.rest_of), limit=_ALL_GROUPS))
    return _with_rest(question, plan.rest_of, rows, whole)


async def _plan(connection: Connection, question: GroupQuestion) -> tuple[Plan, TrackedState]:
    key, state = question.key, TrackedState()
    if key is not None and key.tracked_as is not None:
        state = await group_queries.select_tracked(connection, question.filter.project_id, key.tracked_as)
    plan = plan_of(question, is_tracked=state.is_tracked)
    is_of_value = key is not None and question.filter.value_of(key) is not None
    if plan.rows is Rows.VALUES and plan.cover.stored and key is not None and is_of_value:
        hidden = await group_queries.select_hidden_days(connection, question, plan, key, is_waiting=state.is_waiting)
        plan = _without_days(plan, hidden)
    return plan, state


def _without_days(plan: Plan, days: Sequence[datetime]) -> Plan:
    """Return the plan that reads these days from the runs."""
    if not days:
        return plan
    spans = [TimeSpan(day, day + DAY) for day in days]
    return replace(plan, cover=_without(plan.cover, spans), latency_cover=_without(plan.latency_cover, spans))


def _without(cover: Cover, spans: Iterable[TimeSpan]) -> Cover:
    stored, runs = list(cover.stored), list(cover.runs)
    for span in spans:
        left = []
        for one in stored:
            within = TimeSpan(max(one.since, span.since), min(one.until, span.until))
            if not within:
                left.append(one)
                continue
            runs.append(within)
            left += [
                replace(one, since=since, until=until)
                for since, until in ((one.since, within.since), (within.until, one.until))
                if since < until
            ]
        stored = left
    return Cover(tuple(stored), tuple(runs))


async def _demand_readable(
    connection: Connection, question: GroupQuestion, plan: Plan, spans: Sequence[TimeSpan]
) -> None:
    problem = await _unreadable(connection, question, plan, spans)
    if problem:
        raise DimensionNotTracked(problem)


async def _unreadable(
    connection: Connection, question: GroupQuestion, plan: Plan, spans: Sequence[TimeSpan]
) -> str | None:
    """Return why these spans cannot be read from the runs; None where they can."""
    if not spans:
        return None
    dropped_before = await select_dropped_before(connection, question.filter.project_id)
    if dropped_before and any(span.since < dropped_before for span in spans):
        return (
            f"Runs before {dropped_before:%Y-%m-%dT%H:%MZ} are kept as sums alone, and these do not tell apart what is "
            "asked for: ask for a later start, or group by fewer dimensions."
        )
    read = await group_queries.count_runs(connection, question, plan, spans, MAX_RUNS_READ)
    return None if read <= MAX_RUNS_READ else _advice(question, plan)


def _advice(question: GroupQuestion, plan: Plan) -> str:
    """Say how to ask so that sums which are kept answer."""
    too_many = f"More than {MAX_RUNS_READ:,} runs would have to be read one by one"
    key = question.key
    if key and key.tracked_as and question.filter.is_of_dimensions and plan.rows is Rows.RUNS:
        return (
            f"{too_many} for {key.name}: track the key in the settings of the project, under Tracked keys, so that sums "
            "are kept of it; or ask for a shorter time."
        )
    if question.is_of_models or plan.rows is Rows.VALUES:
        return f"{too_many}: use longer buckets, or ask for a shorter time."
    return (
        f"{too_many}: sums are kept by provider and model, and by one tracked key of metadata together with these; group and "
        "filter by no more than that, or ask for a shorter time."
    )


def _succeeded(rows: GroupRows) -> GroupRows:
    """Return the groups of the runs that succeeded, without how they ended."""

    def kept(group: Group) -> bool:
        return group[-1] == STATUS.usual

    return GroupRows(
        {group[:-1]: totals for group, totals in rows.groups.items() if kept(group)},
        {(number, group[:-1]): totals for (number, group), totals in rows.cells.items() if kept(group)},
    )


def _with_rest(question: GroupQuestion, rest_of: Dimension, rows: GroupRows, whole: GroupRows) -> GroupRows:
    """Add the groups of the runs that have no value: what all runs come to without those that have one."""
    place = question.by.index(rest_of)
    all_cells = whole.cells or {(0, group): totals for group, totals in whole.groups.items()}
    valued = rows.valued if whole.cells else group_sum(((0, group), one) for (_, group), one in rows.valued.items())
    left = {cell: totals - valued.get(cell, NO_RUNS) for cell, totals in all_cells.items()}
    rest = {
        (number, (*group[:place], rest_of.usual, *group[place:])): totals
        for (number, group), totals in left.items()
        if totals.runs
    }
    return GroupRows(
        group_sum((*rows.groups.items(), *((group, totals) for (_, group), totals in rest.items()))),
        {**rows.cells, **rest},
    )


def _ranked(question: GroupQuestion, groups: Mapping[Group, Totals]) -> list[tuple[Group, Totals]]:
    """Return the groups with the highest rank, and after them all others as one."""
    names = sorted(
        (group for group in groups if OTHER not in group),
        key=lambda group: (
            -getattr(groups[group], question.rank_by),
            -groups[group].runs,
            tuple((value is None, value or "") for value in group),
        ),
    )
    kept = [(group, groups[group]) for group in names[: question.limit]]
    rest = [groups[group] for group in (*names[question.limit :], *(group for group in groups if OTHER in group))]
    if not rest:
        return kept
    other = (OTHER,) * len(question.by)
    return [*kept, *group_sum((other, totals) for totals in rest).items()]


def _cell(place: CellKey, named: set[Group]) -> CellKey:
    number, group = place
    return number, _named(group, named)


def _named(group: Group, named: set[Group]) -> Group:
    return group if group in named else (OTHER,) * len(group)


async def _read_latencies(connection: Connection, question: GroupQuestion, named: set[Group]) -> _Counts | None:
    """Read the latencies of these groups, and of all others as one; None where too many runs would have to be read."""
    counts = await _latencies(connection, question, named)
    if counts is None:
        return None
    added: _Counts = defaultdict(Counter)
    for (number, group), more in counts.items():
        added[number, _named(group, named)].update(more)
    return added


async def _latencies(connection: Connection, question: GroupQuestion, named: set[Group]) -> _Counts | None:
    if keeps_all_but_failed(question):
        with_failed = await _latencies(connection, with_status(question), {(*one, STATUS.usual) for one in named})
        if with_failed is None:
            return None
        return {(at, group[:-1]): one for (at, group), one in with_failed.items() if group[-1] == STATUS.usual}
    plan, state = await _plan(connection, question)
    plan = replace(plan, rest_of=plan.latency_rest_of)
    if await _unreadable(connection, question, plan, plan.latency_cover.runs):
        return None
    found: _Counts = defaultdict(Counter)
    if plan.latency_cover.stored and plan.latency_rows is Rows.TOTALS:
        _add(found, await group_queries.select_sketch_latencies(connection, question, plan))
    elif plan.latency_cover.stored and question.key is not None:
        place = question.by.index(question.key) if question.by else 0
        values = [group[place] for group in named if group]
        _add(
            found,
            await group_queries.select_value_latencies(
                connection,
                question,
                plan,
                question.key,
                [value for value in values if value is not None and value != OTHER],
                is_waiting=state.is_waiting,
            ),
        )
    for span in plan.latency_cover.runs:
        _add(found, await group_queries.select_run_latencies(connection, question, plan, span))
    if plan.rest_of is None:
        return found
    whole = await _latencies(connection, without_key(question, plan.rest_of), set())
    rest = {} if whole is None else _rest_of_latencies(question, plan.rest_of, found, whole)
    return {cell: counts for cell, counts in found.items() if group_queries.ANY_VALUE not in cell[1]} | rest


def _rest_of_latencies(question: GroupQuestion, rest_of: Dimension, found: _Counts, whole: _Counts) -> _Counts:
    """Return the latencies of the runs that have no value. They are taken away bin by bin, so that all of them meet."""
    place = question.by.index(rest_of)
    left = {cell: _in_bins(counts) for cell, counts in whole.items()}
    for (number, group), counts in found.items():
        is_counted = group[place] == group_queries.ANY_VALUE if rest_of.is_list else True
        cell = number, (*group[:place], *group[place + 1 :])
        if is_counted and cell in left:
            left[cell].subtract(_in_bins(counts))
    return {
        (number, (*group[:place], rest_of.usual, *group[place:])): +counts for (number, group), counts in left.items()
    }


def _in_bins(counts: Counter[int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for latency, runs in counts.items():
        found[binned(latency)] += runs
    return found


def _add(found: _Counts, more: Mapping[CellKey, Counter[int]]) -> None:
    for cell, counts in more.items():
        found[cell].update(counts)


def _of_groups(counts: _Counts) -> dict[Group, Counter[int]]:
    found: dict[Group, Counter[int]] = defaultdict(Counter)
    for (_, group), more in counts.items():
        found[group].update(more)
    return found


def _latency(
    counts: Mapping[Group, Counter[int]] | Mapping[CellKey, Counter[int]] | None, place: object
) -> Latency | None:
    if counts is None:
        return None
    of_place = counts.get(place)  # type: ignore[call-overload]  # Keys of either kind.
    if not of_place:
        return NO_LATENCY
    return Latency(*percentiles(sketch_of_counts(of_place), 50, 95))
