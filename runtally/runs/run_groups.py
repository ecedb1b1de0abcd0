"""Lists of sessions and of traces: the sums of each in a time, sorted, page by page.

A list is added up from the runs of its time, if these are at most `MAX_RUNS`. Of more, another reading says which rank highest:
the sums of sessions that the project tracks, the index of failed runs, or the newest runs. What these then come to is
looked up. Where nothing says it, the list is of the newest runs, and says since when.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.runs import run_group_queries
from runtally.runs.bounds import find_bound
from runtally.runs.failures import MAX_FAILED_RUNS
from runtally.runs.run_group_queries import GroupKind, GroupSort, RunGroup
from runtally.usage.dimensions import OTHER, SESSION
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.groups.groups import has_hidden_values, read_groups
from runtally.usage.groups.queries import select_tracked
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.plan import GroupQuestion
from runtally.usage.question import LatencyDetail
from runtally.usage.timeline import Timeline
from runtally.usage.totals import Totals
from runtally.usage.window import TimeSpan

MAX_RUNS = 50_000
"""Runs that are added up for a list, in some 100 ms."""
# Readers who look for the costliest look at the first pages, and skipping a page costs as much as showing it.
MAX_PAGES = 20
PAGE_GROUPS = 50
_IN_SUMS = {GroupSort.COST: "cost_usd", GroupSort.RUNS: "runs"}
# What a list shows of a session that has too many runs to be looked up.
_MEASURES = ("runs", "errors", "timeouts", "unpriced", "cost_usd")


@dataclass(frozen=True, slots=True)
class ListQuestion:
    """A list of sessions or traces: its filter, its time range and its order."""

    project_id: str
    kind: GroupKind
    span: TimeSpan
    sort: GroupSort = GroupSort.COST
    is_ascending: bool = False
    page: int = 1
    """The first is 1."""

    @property
    def offset(self) -> int:
        return (self.page - 1) * PAGE_GROUPS

    def since(self, since: datetime | None) -> "ListQuestion":
        """Return the same question about the time since then."""
        return self if since is None else replace(self, span=TimeSpan(since, self.span.until))


@dataclass(frozen=True, slots=True)
class GroupPage:
    """A page of sessions or traces."""

    groups: tuple[RunGroup, ...]
    has_more: bool
    count: int | None = None
    """How many there are; None where only the highest are known."""
    since: datetime | None = None
    """With it, only runs since then are in the list, because before there are too many."""
    has_hidden: bool = False
    """Whether some sessions have no sums of their own on some day, and may rank too low."""


async def read_run_groups(connection: Connection, question: ListQuestion, now: datetime) -> GroupPage:
    """Read a page of the list. The statements of the connection must see one moment."""
    question = replace(question, page=min(max(question.page, 1), MAX_PAGES))
    since = await find_bound(connection, _runs_of(question), now, MAX_RUNS)
    if since is not None and not question.is_ascending:
        if question.sort in _IN_SUMS and question.kind is GroupKind.SESSION:
            found = await _by_sums(connection, question, now)
            if found is not None:
                return found
        if question.sort is GroupSort.FAILED:
            return await _by_failed(connection, question, now)
        if question.sort is GroupSort.LATEST:
            return await _by_latest(connection, question, since)
    covered = question.since(since)
    groups, count = await _ranked(connection, covered)
    shown = groups[:PAGE_GROUPS]
    known = await _figures(connection, covered, [one.id for one in shown])
    named = (
        replace(one, users=known[one.id].users, models=known[one.id].models) if one.id in known else one
        for one in shown
    )
    return GroupPage(tuple(named), _has_more(question, groups), count, since)


async def _by_latest(connection: Connection, question: ListQuestion, since: datetime) -> GroupPage:
    """List the groups with the latest runs, found from the newest runs; their sums include all of their runs."""
    groups, _ = await _ranked(connection, question.since(since))
    found = await _looked_up(connection, question, [RunGroup(one.id) for one in groups])
    has_more = _has_more(question, groups)
    return GroupPage(found, has_more, since=None if has_more else since)


async def _by_failed(connection: Connection, question: ListQuestion, now: datetime) -> GroupPage:
    """List the groups with the most failed runs, found through the index of failed runs."""
    failed = _runs_of(question).replace(status=Outcome.FAILED)
    since = await find_bound(connection, failed, now, MAX_FAILED_RUNS)
    covered = question.since(since)
    ids = await run_group_queries.select_by_failed(
        connection, question.project_id, question.kind, covered.span, limit=_LIMIT, offset=question.offset
    )
    found = await _looked_up(connection, covered, [RunGroup(id_) for id_ in ids])
    return GroupPage(found, _has_more(question, ids), since=since)


async def _by_sums(connection: Connection, question: ListQuestion, now: datetime) -> GroupPage | None:
    """Rank sessions by the sums that are kept of them; None where none are, or too many runs are outside of these."""
    tracked = await select_tracked(connection, question.project_id, GroupKind.SESSION)
    if not tracked.is_tracked:
        return None
    of_sums = GroupQuestion(
        Timeline.whole(question.span, now),
        RunFilter(project_id=question.project_id),
        (SESSION,),
        _MEASURES,
        # All runs without a session are a group too.
        limit=question.offset + _LIMIT + 1,
        rank_by=_IN_SUMS[question.sort],
        latencies=LatencyDetail.NONE,
    )
    reader = GroupRowReader.over(connection)
    try:
        answer = await read_groups(reader, of_sums)
    except DimensionNotTracked:
        return None
    ranked = [_of_totals(id_, sums.totals) for [id_], sums in answer.groups.items() if id_ not in {None, OTHER}]
    shown = ranked[question.offset : question.offset + _LIMIT]
    found = await _looked_up(connection, question, shown)
    has_hidden = await has_hidden_values([reader], of_sums)
    return GroupPage(found, _has_more(question, shown), has_hidden=has_hidden)


async def _ranked(connection: Connection, question: ListQuestion) -> tuple[list[RunGroup], int]:
    return await run_group_queries.select_ranked(
        connection,
        question.project_id,
        question.kind,
        question.span,
        question.sort,
        is_ascending=question.is_ascending,
        limit=_LIMIT,
        offset=question.offset,
    )


async def _figures(connection: Connection, question: ListQuestion, ids: Sequence[str]) -> dict[str, RunGroup]:
    return await run_group_queries.select_figures(connection, question.project_id, question.kind, question.span, ids)


async def _looked_up(
    connection: Connection, question: ListQuestion, groups: Sequence[RunGroup]
) -> tuple[RunGroup, ...]:
    """Return the sums of the groups on the page; for a group with too many runs, those that are known already."""
    shown = groups[:PAGE_GROUPS]
    known = await _figures(connection, question, [one.id for one in shown])
    return tuple(known.get(one.id, one) for one in shown)


_LIMIT = PAGE_GROUPS + 1


def _has_more(question: ListQuestion, groups: Sequence[object]) -> bool:
    return len(groups) > PAGE_GROUPS and question.page < MAX_PAGES


def _runs_of(question: ListQuestion) -> RunFilter:
    since, until = question.span
    return RunFilter(project_id=question.project_id, range=Period.ALL, since=since, until=until)


def _of_totals(id_: str | None, totals: Totals) -> RunGroup:
    return RunGroup(id_ or "", totals.runs, totals.failed, totals.unpriced, totals.cost_usd)
