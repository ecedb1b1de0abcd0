"""Sums and latencies of groups over archived runs, in the form in which `usage.group_slices` has those of the database."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from runtally.archive.queries import KeptFile
from runtally.archive.reading import ArchivedRuns
from runtally.clock import DAY, start_of_day
from runtally.db.database import Connection
from runtally.models.measures import columns_over_runs, measures_named
from runtally.usage.conditions import ArchiveConditions
from runtally.usage.groups.slices import INPUTS, SliceKey, names_of, read_group, value_columns
from runtally.usage.plan import Plan, Question
from runtally.usage.sketch import LATENCY
from runtally.usage.timeline import EPOCH, BucketWidth, Timeline, TimeSpan

_MICROSECOND = timedelta(microseconds=1)


class ArchivedGroupReader:
    """Answers questions about groups from the archive, for one request."""

    def __init__(self, runs: ArchivedRuns) -> None:
        self._runs = runs.of_one_reader()

    async def missing_in(self, connection: Connection, question: Question, span: TimeSpan) -> int:
        """Count the runs of a span's days that are neither in the database nor in the archive."""
        until = start_of_day(span.until - _MICROSECOND) + DAY
        return await self._runs.missing(connection, question.filter.project_id, start_of_day(span.since), until)

    async def slices(
        self, connection: Connection, question: Question, plan: Plan, spans: Sequence[TimeSpan]
    ) -> Sequence[Sequence[Any]]:
        """Read the sums of each bucket and group."""
        found = ArchiveConditions()
        columns = ", ".join(("number", *names_of(question.by)))
        sql = f"""SELECT {columns}, {columns_over_runs(measures_named(*question.measures))}
  FROM {_runs_sql(found, question, plan, spans)}
 GROUP BY {columns}"""
        return await self._runs.ask(await self._files(connection, question, spans), sql, found.values)

    async def latencies(
        self, connection: Connection, question: Question, plan: Plan, spans: Sequence[TimeSpan]
    ) -> dict[SliceKey, Counter[int]]:
        """Count the latencies of each bucket and group."""
        found = ArchiveConditions()
        columns = ", ".join(("number", *names_of(question.by), "latency"))
        sql = f"""SELECT {columns}, count(*)
  FROM {_runs_sql(found, question, plan, spans)}
 WHERE latency IS NOT NULL
 GROUP BY {columns}"""
        counts: dict[SliceKey, Counter[int]] = defaultdict(Counter)
        for number, *group, latency, runs in await self._runs.ask(
            await self._files(connection, question, spans), sql, found.values
        ):
            counts[number, read_group(group)][latency] += runs
        return counts

    async def _files(self, connection: Connection, question: Question, spans: Sequence[TimeSpan]) -> list[KeptFile]:
        found: dict[str, KeptFile] = {}
        for span in spans:
            files = await self._runs.files_in(connection, question.filter.project_id, *span)
            found |= {file.path: file for file in files}
        return list(found.values())


def _runs_sql(conditions: ArchiveConditions, question: Question, plan: Plan, spans: Sequence[TimeSpan]) -> str:
    """SQL of the runs of some spans, each with the number of its bucket and its values; once for each value of a list."""
    number = _number_sql(question.timeline) if len(question.timeline.starts) > 1 else "0"
    columns, joined, which = value_columns(conditions, question.by, plan.rest_of)
    conditions.add(question.filter)
    times = " OR ".join(
        f"(occurred_at >= {conditions.value(span.since, 'timestamptz')} AND occurred_at < {conditions.value(span.until, 'timestamptz')})"
        for span in spans
    )
    return f"""(SELECT {number} AS number{columns}, {LATENCY} AS latency, {INPUTS}
          FROM runs{joined}
         WHERE {conditions.sql} AND ({times}){which}) AS valued"""


def _number_sql(timeline: Timeline) -> str:
    """SQL of the number of a run's bucket: computed, because a join keeps all runs in memory, to sort them."""
    assert timeline.width is not None  # noqa: S101  # There are several buckets.
    first = (timeline.width.start(timeline.starts[0]) - EPOCH) // _MICROSECOND
    if timeline.width is BucketWidth.MONTH:
        return f"datediff('month', make_timestamp({first}), make_timestamp(epoch_us(runs.occurred_at)))"
    return f"(epoch_us(runs.occurred_at) - {first}) // {timeline.width.length // _MICROSECOND}"
