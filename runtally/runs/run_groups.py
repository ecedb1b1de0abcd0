"""Lists of sessions and of traces: the sums of each in a time, sorted, page by page.

A list is added up from the runs of its time, if these are at most `MAX_RUNS`. Of more, another reading says which rank highest:
the sums of sessions that the project tracks, the index of failed runs, or the newest runs. What these then come to is
looked up. Where nothing says it, the list is of the newest runs, and says since when.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.runs.failures import MAX_FAILED_RUNS
from runtally.runs.scan import conditions_of, find_bound
from runtally.runs.values import Place, ScanBounds
from runtally.usage.dimensions import OTHER, SESSION
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.groups.groups import has_hidden_values, read_groups
from runtally.usage.groups.queries import select_tracked
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.plan import Question
from runtally.usage.timeline import Timeline, TimeSpan

MAX_LOOKED_UP = 5_000
"""Runs of one session or trace that are read for a list; of 50 in some 100 ms."""
SHOWN_NAMES = 2


class GroupKind(StrEnum):
    """The ids that join runs into groups: session or trace."""

    SESSION = "session"
    TRACE = "trace"

    @property
    def column(self) -> str:
        """The column of runs that has its id."""
        return f"{self.value}_id"


class GroupSort(StrEnum):
    """The sort orders of a list, highest first; each value is a column of these statements."""

    COST = "cost_usd"
    RUNS = "runs"
    DURATION = "duration_ms"
    FAILED = "failed"
    LATEST = "last_at"


@dataclass(frozen=True, slots=True)
class GroupNames:
    """The first few values of a field among the runs of a group, and how many there are."""

    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The sums of a session's or trace's runs; fields are None if the group has too many runs to read."""

    id: str
    runs: int | None = None
    failed: int | None = None
    unpriced: int | None = None
    cost_usd: Decimal | None = None
    """The cost of the runs of which it is known."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    """When its last run began."""
    duration_ms: int | None = None
    """From when its first run began until its last answer was there."""
    users: GroupNames | None = None
    models: GroupNames | None = None


# A latency of thousands of years is a unit error, and would exceed the calendar.
YEAR_MS = 365 * 24 * 3600 * 1000
_ENDS = f"occurred_at + least(coalesce(latency_ms, 0), {YEAR_MS}) * interval '1 millisecond'"
FIGURES = f"""count(*) AS runs,
         count(*) FILTER (WHERE status <> 'success') AS failed,
         count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         min(occurred_at) AS first_at,
         max(occurred_at) AS last_at,
         round(extract(epoch FROM max({_ENDS}) - min(occurred_at)) * 1000)::bigint AS duration_ms"""
_FIGURES = ("runs", "failed", "unpriced", "cost_usd", "first_at", "last_at", "duration_ms")
NAMES = f"""count(DISTINCT nullif(user_id, '')) AS user_count,
         (array_agg(DISTINCT nullif(user_id, '')) FILTER (WHERE user_id <> ''))[1:{SHOWN_NAMES}] AS users,
         count(DISTINCT model) AS model_count,
         (array_agg(DISTINCT model))[1:{SHOWN_NAMES}] AS models"""

_SELECT_RANKED = """
  SELECT {column} AS id,
         {figures},
         count(*) OVER () AS groups
    FROM runs
   WHERE project_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND {column} <> ''
GROUP BY {column}
ORDER BY {sort} {way}, last_at DESC, id
   LIMIT $4
  OFFSET $5
"""

# Only failed runs are read, by their index: none of the others can change this order.
_SELECT_BY_FAILED = """
  SELECT {column} AS id
    FROM runs
   WHERE project_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND status <> 'success' AND {column} <> ''
GROUP BY {column}
ORDER BY count(*) DESC, max(occurred_at) DESC, id
   LIMIT $4
  OFFSET $5
"""

# A session may have millions of runs, most of them at another time: the index alone counts them up to a limit.
_SELECT_FIGURES = """
  SELECT ids.id, found.*
    FROM unnest($4::text[]) AS ids (id)
         CROSS JOIN LATERAL (SELECT count(*) AS runs
                               FROM (SELECT
                                       FROM runs
                                      WHERE project_id = $1 AND {column} = ids.id
                                      LIMIT {most} + 1) AS counted) AS sized
         CROSS JOIN LATERAL (SELECT {figures},
                                    {names}
                               FROM runs
                              WHERE project_id = $1 AND {column} = ids.id AND occurred_at >= $2 AND occurred_at < $3
                                AND sized.runs <= {most}) AS found
   WHERE found.runs > 0
"""


_SELECT_MATCHING = """
  SELECT session_id AS id,
         {figures},
         {names}
    FROM runs
   WHERE {matching} AND session_id <> ''
GROUP BY session_id
  HAVING {further}
ORDER BY max(occurred_at) DESC, session_id DESC
   LIMIT {limit}
"""


async def _ranked(connection: Connection, question: "ListQuestion") -> tuple[list[RunGroup], int]:
    """Add up all runs of a span, and return the groups of one page with the number of all."""
    way = "ASC" if question.is_ascending else "DESC"
    sql = _SELECT_RANKED.format(column=question.kind.column, figures=FIGURES, sort=question.sort.value, way=way)
    rows = await connection.fetch(sql, question.project_id, *question.span, _LIMIT, question.offset)
    return [run_group(row) for row in rows], rows[0]["groups"] if rows else 0


async def select_figures(
    connection: Connection, project_id: str, kind: GroupKind, span: TimeSpan, ids: Sequence[str]
) -> dict[str, RunGroup]:
    """Read the sums of these groups over a span, except groups with more than `MAX_LOOKED_UP` runs."""
    sql = _SELECT_FIGURES.format(column=kind.column, figures=FIGURES, names=NAMES, most=MAX_LOOKED_UP)
    rows = await connection.fetch(sql, project_id, *span, ids)
    return {row["id"]: run_group(row, has_names=True) for row in rows}


def run_group(row: Any, *, has_names: bool = False) -> RunGroup:  # noqa: ANN401  # A row of the statements here.
    return RunGroup(
        **{name: row[name] for name in ("id", *_FIGURES)},
        users=GroupNames(row["user_count"], tuple(row["users"] or ())) if has_names else None,
        models=GroupNames(row["model_count"], tuple(row["models"] or ())) if has_names else None,
    )


MAX_RUNS = 50_000
"""Runs that are added up for a list, in some 100 ms."""
# Readers who look for the costliest look at the first pages, and skipping a page costs as much as showing it.
MAX_PAGES = 20
PAGE_GROUPS = 50
_LIMIT = PAGE_GROUPS + 1
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
    known = await _figures(connection, covered, [group.id for group in shown])
    named = (
        replace(group, users=known[group.id].users, models=known[group.id].models) if group.id in known else group
        for group in shown
    )
    return GroupPage(tuple(named), _has_more(question, groups), count, since)


async def read_sessions(
    connection: Connection, run_filter: RunFilter, now: datetime, before: Place | None
) -> tuple[GroupPage, Place | None]:
    """Read a page of the sessions that have runs of a filter, those with the latest such run first, and where the next begins.

    Their figures are of these runs.
    """
    since = await find_bound(connection, run_filter, now, MAX_RUNS)
    found = conditions_of(run_filter, now, bounds=ScanBounds(end=since))
    further = "TRUE"
    if before is not None:
        values = found.value(before.occurred_at, "timestamptz"), found.value(before.id)
        further = f"(max(occurred_at), session_id) < ({', '.join(values)})"
    sql = _SELECT_MATCHING.format(matching=found.sql, figures=FIGURES, names=NAMES, further=further, limit=_LIMIT)
    groups = [run_group(row, has_names=True) for row in await connection.fetch(sql, *found.values)]
    shown, has_more = tuple(groups[:PAGE_GROUPS]), len(groups) > PAGE_GROUPS
    last = shown[-1] if has_more else None
    place = Place(last.last_at, last.id, run_filter.project_id or "") if last and last.last_at else None
    return GroupPage(shown, has_more, since=since), place


async def _by_latest(connection: Connection, question: ListQuestion, since: datetime) -> GroupPage:
    """List the groups with the latest runs, found from the newest runs; their sums include all of their runs."""
    groups, _ = await _ranked(connection, question.since(since))
    found = await _looked_up(connection, question, [RunGroup(group.id) for group in groups])
    has_more = _has_more(question, groups)
    return GroupPage(found, has_more, since=None if has_more else since)


async def _by_failed(connection: Connection, question: ListQuestion, now: datetime) -> GroupPage:
    """List the groups with the most failed runs, found through the index of failed runs."""
    failed = _runs_of(question).replace(status=Outcome.FAILED)
    since = await find_bound(connection, failed, now, MAX_FAILED_RUNS)
    covered = question.since(since)
    sql = _SELECT_BY_FAILED.format(column=question.kind.column)
    rows = await connection.fetch(sql, question.project_id, *covered.span, _LIMIT, question.offset)
    ids = [row[0] for row in rows]
    found = await _looked_up(connection, covered, [RunGroup(id_) for id_ in ids])
    return GroupPage(found, _has_more(question, ids), since=since)


async def _by_sums(connection: Connection, question: ListQuestion, now: datetime) -> GroupPage | None:
    """Rank sessions by the sums that are kept of them; None where none are, or too many runs are outside of these."""
    tracked = await select_tracked(connection, question.project_id, GroupKind.SESSION)
    if not tracked.is_tracked:
        return None
    of_sums = Question(
        Timeline.whole(question.span, now),
        RunFilter(project_id=question.project_id),
        (SESSION,),
        _MEASURES,
        # All runs without a session are a group too.
        limit=question.offset + _LIMIT + 1,
        rank_by=_IN_SUMS[question.sort],
    )
    reader = GroupRowReader.over(connection)
    try:
        answer = await read_groups([reader], of_sums)
    except DimensionNotTracked:
        return None
    ranked = [
        RunGroup(id_ or "", sums.totals.runs, sums.totals.failed, sums.totals.unpriced, sums.totals.cost_usd)
        for [id_], sums in answer.groups.items()
        if id_ not in {None, OTHER}
    ]
    shown = ranked[question.offset : question.offset + _LIMIT]
    found = await _looked_up(connection, question, shown)
    has_hidden = await has_hidden_values([reader], of_sums)
    return GroupPage(found, _has_more(question, shown), has_hidden=has_hidden)


async def _figures(connection: Connection, question: ListQuestion, ids: Sequence[str]) -> dict[str, RunGroup]:
    return await select_figures(connection, question.project_id, question.kind, question.span, ids)


async def _looked_up(
    connection: Connection, question: ListQuestion, groups: Sequence[RunGroup]
) -> tuple[RunGroup, ...]:
    """Return the sums of the groups on the page; for a group with too many runs, those that are known already."""
    shown = groups[:PAGE_GROUPS]
    known = await _figures(connection, question, [group.id for group in shown])
    return tuple(known.get(group.id, group) for group in shown)


def _has_more(question: ListQuestion, groups: Sequence[object]) -> bool:
    return len(groups) > PAGE_GROUPS and question.page < MAX_PAGES


def _runs_of(question: ListQuestion) -> RunFilter:
    since, until = question.span
    return RunFilter(project_id=question.project_id, range=Period.ALL, since=since, until=until)
