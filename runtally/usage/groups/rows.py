"""Read the sums and latencies of a question's groups from the sources that its plan chose.

Sums that are kept answer where they tell the groups apart. What they do not tell is read from the runs, of which no more than
`MAX_RUNS_READ` are read for one time: a question that needs more is refused, and the refusal says what would answer it. Runs that
are archived are read as well, if all that left the database are.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from runtally.clock import DAY, start_of_day
from runtally.db.combined import CombinedReads
from runtally.db.database import Connection
from runtally.errors import ArchiveError, ArchiveNotRead, ArchiveTooLarge, DimensionNotTracked, MissingExtra
from runtally.usage.days.version_queries import Days, select_hours
from runtally.usage.dimensions import OTHER, STATUS
from runtally.usage.groups import latency_queries as group_latency_queries
from runtally.usage.groups import queries as group_queries
from runtally.usage.groups.derived import (
    Counts,
    named_group,
    named_rows,
    ranks_by_group,
    ranks_of,
    rest_of_latencies,
    succeeded,
    with_rest,
)
from runtally.usage.groups.queries import GroupRows, TrackedState
from runtally.usage.groups.ranks import Ranks
from runtally.usage.groups.slices import ANY_VALUE, PlannedQuestion, SliceKey, WaitingRuns, select_waiting
from runtally.usage.memo import DayMemo, ReadOnce, Version
from runtally.usage.overview.project_queries import select_dropped_before
from runtally.usage.plan import (
    Group,
    LatencyDetail,
    Plan,
    Question,
    Source,
    TooManyGroups,
    keeps_all_but_failed,
    plan_of,
    with_status,
    without_key,
)
from runtally.usage.snapshots import ArchivedGroups, Snapshot
from runtally.usage.timeline import TimeSpan

MAX_RUNS_READ = 100_000


class GroupRowReader:
    """A reader of groups over a connection whose statements see one snapshot."""

    def __init__(
        self, reads: CombinedReads, archive: ArchivedGroups | None = None, memo: DayMemo | None = None
    ) -> None:
        """Without an archive runs that left the database are not read; without a memo all days are."""
        self.reads = reads
        self.connection = reads.connection
        self.archive = archive
        self.memo = memo
        self.days: Days | None = None
        """The days of the questions, where they were read already."""
        self._once = ReadOnce()

    @classmethod
    def over(cls, connection: Connection, memo: DayMemo | None = None) -> "GroupRowReader":
        return cls(CombinedReads.over(connection), memo=memo)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "GroupRowReader":
        return cls(snapshot.reads, snapshot.archive, snapshot.memo)

    async def tracked(self, question: Question) -> TrackedState:
        """Return whether sums of the question's key are stored; read once."""
        key, project_id = question.key, question.filter.project_id
        if key is None or key.tracked_as is None:
            return TrackedState()
        place = project_id, key.tracked_as
        return await self._once.get_or_read(
            ("tracked", place), lambda: group_queries.select_tracked(self.connection, *place)
        )

    async def hours(self, project_id: str | None, span: TimeSpan) -> Version:
        """Return a value that changes whenever a run of these hours changes; None for all projects. Read once."""
        if project_id is None:
            return None
        asked = self.connection, project_id, *span
        return await self._once.get_or_read(("hours", project_id, span), lambda: select_hours(*asked))

    async def ranks(self, question: Question, most: int | None = None) -> Ranks:
        """Read the rank of each group, or of so many with the highest, and of the group without a value.

        Raises `DimensionNotTracked` where too many runs would have to be read.
        """
        question = question.of_ranks()
        if keeps_all_but_failed(question):
            return ranks_of(question, (await self._rows(question)).groups)
        asked = await self._readable(question)
        reading, rest_of = group_queries.select_ranks(self.connection, asked, most), asked.plan.rest_of
        if rest_of is None:
            return await reading
        ranks, valued, whole = await self.reads.together(
            reading,
            group_queries.select_valued(self.connection, asked, rest_of),
            self._rows(replace(without_key(question, rest_of), named=None)),
        )
        without_value = with_rest(question, rest_of, valued, whole).groups
        return ranks.with_groups(ranks_by_group(question, without_value))

    async def count(self, question: Question, most: int) -> int:
        """Count the groups with a value, up to one more than `most`; with a filter on success those of all runs.

        Raises `DimensionNotTracked` where too many runs would have to be read.
        """
        question = question.of_ranks()
        if keeps_all_but_failed(question):
            question = replace(question, filter=question.filter.replace(status=None))
        return await group_queries.count_groups(self.connection, await self._readable(question), most)

    async def has_hidden_values(self, question: Question) -> bool:
        """Return whether the stored sums of a day combine some values of the question's key as "(other)"."""
        asked = await self._planned(question)
        if asked.plan.sums is Source.SLICES and asked.plan.cover.stored:
            return await group_queries.select_has_other(self.connection, asked)
        if asked.plan.sums is not Source.VALUES or not asked.plan.cover.stored:
            return False
        return await group_queries.select_has_hidden(self.connection, asked)

    async def rows(self, question: Question) -> GroupRows:
        """Read the sums of the named groups, and of all others as one; without names those of all groups.

        Raises `DimensionNotTracked` where too many runs would have to be read.
        """
        found = await self._rows(question)
        return found if question.named is None else named_rows(found, question.named)

    async def _rows(self, question: Question) -> GroupRows:
        """Read the sums of the named groups, of all others as one, and of the group without a value."""
        if keeps_all_but_failed(question):
            return succeeded(await self._rows(replace(with_status(question), named=None)))
        asked = await self._readable(question)
        reading, rest_of = self._groups(asked), asked.plan.rest_of
        if rest_of is None:
            return await reading
        rows, whole = await self.reads.together(
            reading, self._rows(replace(without_key(question, rest_of), named=None))
        )
        return with_rest(question, rest_of, rows, whole)

    async def _groups(self, asked: PlannedQuestion) -> GroupRows:
        rows, most = await group_queries.select_groups(self.connection, asked), asked.question.most
        if most is not None and len(rows.groups) > most:
            raise TooManyGroups
        return rows

    async def latencies(self, question: Question) -> Counts | None:
        """Read the latencies of the named groups, and of all others as one; None if there are too many runs to read.

        Raises `ArchiveNotRead`.
        """
        named = set(question.named or ())
        counts = await self._latencies(question, named)
        if counts is None:
            return None
        added: Counts = defaultdict(Counter)
        for (number, group), more in counts.items():
            added[number, named_group(group, named)].update(more)
        return added

    async def _latencies(self, question: Question, named: Collection[Group] | None) -> Counts | None:
        if keeps_all_but_failed(question):
            with_failed = await self._latencies(
                with_status(question), None if named is None else {(*one, STATUS.usual) for one in named}
            )
            if with_failed is None:
                return None
            return {(at, group[:-1]): one for (at, group), one in with_failed.items() if group[-1] == STATUS.usual}
        asked = await self._planned(question)
        plan = replace(asked.plan, rest_of=asked.plan.latency_rest_of)
        try:
            old = await self._archived_spans(question, plan, plan.latency_cover.runs)
            of_old: Mapping[SliceKey, Counter[int]] = {}
            if old and self.archive is not None:
                with _explained():
                    of_old = await self.archive.latencies(self.connection, question, plan, old)
        except ArchiveNotRead:
            raise
        except DimensionNotTracked:
            return None
        reading = self._counts(replace(asked, plan=plan), named, of_old)
        if plan.rest_of is None:
            return await reading
        found, whole = await self.reads.together(reading, self._latencies(without_key(question, plan.rest_of), None))
        rest = {} if whole is None else rest_of_latencies(question, plan.rest_of, found, whole)
        return {key: counts for key, counts in found.items() if ANY_VALUE not in key[1]} | rest

    async def _counts(
        self,
        asked: PlannedQuestion,
        named: Collection[Group] | None,
        of_old: Mapping[SliceKey, Counter[int]],
    ) -> Counts:
        """Read the latencies that a plan's stored sums and runs have, and add those of archived runs."""
        by, plan = asked.question.by, asked.plan
        readings: list[Coroutine[Any, Any, Mapping[SliceKey, Counter[int]]]] = []
        if plan.latencies is Source.SKETCHES:
            readings.append(self._stored_latencies(asked.question))
        elif plan.latency_cover.stored:
            place = by.index(asked.key) if by else 0
            values = [value for group in named or () if group and (value := group[place]) not in {None, OTHER}]
            readings.append(group_latency_queries.select_value_latencies(self.connection, asked, values))
        if plan.latencies is not Source.SKETCHES:
            readings += [
                group_latency_queries.select_run_latencies(self.connection, asked, span, named)
                for span in plan.latency_cover.runs
            ]
        found: Counts = defaultdict(Counter)
        for more in (of_old, *await self.reads.each(readings)):
            _add(found, more)
        return found

    async def _stored_latencies(self, question: Question) -> Counts:
        of_buckets, _ = await group_latency_queries.select_stored_latencies(
            self.connection, question.filter, question.timeline, LatencyDetail.BUCKETS
        )
        merged = {number: one.merged().sketches for number, one in of_buckets.items()}
        return {(number, ()): Counter(dict(zip(*sketch, strict=True))) for number, [sketch] in merged.items()}

    async def _readable(self, question: Question) -> PlannedQuestion:
        """Plan a question, and read the slices of its runs that are archived. Raises `DimensionNotTracked`."""
        asked = await self._planned(question)
        old = await self._archived_spans(question, asked.plan, asked.plan.cover.runs)
        if not old or self.archive is None:
            return asked
        with _explained():
            return replace(asked, archived=await self.archive.slices(self.connection, question, asked.plan, old))

    async def _planned(self, question: Question) -> PlannedQuestion:
        """Plan a question, and read the runs of its days that are not merged into the sums of its key yet, if there are any."""
        key, state = question.key, await self.tracked(question)
        plan = plan_of(question, is_tracked=state.is_tracked)
        if key is None or plan.sums is not Source.VALUES:
            return PlannedQuestion(question, plan)
        plan = replace(plan, key_id=state.key_id)
        if state.complete_since is not None and question.timeline.span.since < state.complete_since:
            plan = plan.without([TimeSpan(start_of_day(question.timeline.span.since), state.complete_since)])
        asked = PlannedQuestion(question, plan)
        if state.is_waiting:
            asked = replace(asked, waiting=await self._waiting_on(asked))
        if plan.cover.stored and question.filter.value_of(key) is not None:
            place = "hidden", question.filter, key, plan.cover.stored
            hidden = await self._once.get_or_read(
                place, lambda: group_queries.select_hidden_days(self.connection, asked)
            )
            plan = plan.without([TimeSpan(day, day + DAY) for day in hidden])
        return replace(asked, plan=plan)

    async def _waiting_on(self, asked: PlannedQuestion) -> WaitingRuns | None:
        """Return the runs that are not merged into the sums of a key yet, if any is of a plan's days. Read once."""
        stored = (*asked.plan.cover.stored, *asked.plan.latency_cover.stored)
        if not stored:
            return None
        place = "waiting", asked.question.filter.project_id, asked.key.tracked_as
        found = await self._once.get_or_read(place, lambda: select_waiting(self.connection, asked))
        first, last = min(one.since for one in stored).date(), max(one.until for one in stored).date()
        return found if any(first <= day <= last for day in found.days) else None

    async def _archived_spans(self, question: Question, plan: Plan, spans: Sequence[TimeSpan]) -> Sequence[TimeSpan]:
        """Return which parts of these spans the archive has runs of. Raises `DimensionNotTracked` if others cannot be read."""
        if not spans:
            return ()
        project_id, days = question.filter.project_id, self.days
        dropped_before = days.dropped_before if days else await select_dropped_before(self.connection, project_id)
        old = [
            TimeSpan(span.since, min(span.until, dropped_before))
            for span in spans
            if dropped_before and span.since < dropped_before
        ]
        for span in old:
            if await self._are_missing(question, span):
                since = (await self.tracked(question)).complete_since
                raise DimensionNotTracked(
                    f"Single runs before {dropped_before:%Y-%m-%dT%H:%MZ} were deleted; only totals remain. Choose a later "
                    "start or group by fewer dimensions."
                    if since is None or question.key is None or plan.sums is not Source.VALUES
                    else f"The sums of {question.key.name} begin on {since:%Y-%m-%d} (UTC): earlier runs were deleted before "
                    f"it became tracked. Choose a start from {since:%Y-%m-%d} on."
                )
        if await self._count_runs(question, plan, spans) > MAX_RUNS_READ:
            raise DimensionNotTracked(_advice(question, plan))
        return old

    async def _count_runs(self, question: Question, plan: Plan, spans: Sequence[TimeSpan]) -> int:
        """Count the runs to read in these spans, up to one more than may be; not read if their days have no more."""
        if self.days is not None and all(span.since >= self.days.since for span in spans):
            of_days = sum(map(self.days.runs_in, spans))
            if of_days <= MAX_RUNS_READ:
                return of_days
        place = "runs", question.filter.as_indexed, plan.rest_of, tuple(spans)
        asked = self.connection, question, plan.rest_of, spans, MAX_RUNS_READ
        return await self._once.get_or_read(place, lambda: group_queries.count_runs(*asked))

    async def _are_missing(self, question: Question, span: TimeSpan) -> bool:
        """Return whether runs of a span were dropped without being archived; asked once for each span."""
        if self.archive is None:
            return True
        place, missing_in = ("missing", question.filter.project_id, span), self.archive.missing_in
        with _explained():
            return await self._once.get_or_read(place, lambda: missing_in(self.connection, question, span)) != 0


@contextmanager
def _explained() -> Iterator[None]:
    """Raise `DimensionNotTracked` where the archive asks too much, and `ArchiveNotRead` where it cannot be read."""
    try:
        yield
    except ArchiveTooLarge as error:
        raise DimensionNotTracked(error.message) from error
    except (ArchiveError, MissingExtra) as error:
        raise ArchiveNotRead(error.message) from error


def _advice(question: Question, plan: Plan) -> str:
    """Return advice on how to ask so that stored sums can answer."""
    too_many = f"More than {MAX_RUNS_READ:,} runs would have to be read one by one"
    key = question.key
    if key and key.tracked_as and question.filter.is_of_dimensions and plan.sums is Source.RUNS:
        return (
            f"{too_many} for {key.name}: track the key in the settings of the project, under Tracked keys, so that sums "
            "are kept of it; or ask for a shorter time."
        )
    if question.is_of_models or plan.sums is Source.VALUES:
        return f"{too_many}: use longer buckets, or ask for a shorter time."
    return (
        f"{too_many}: sums are kept by provider and model, and by one tracked key of metadata together with these; group and "
        "filter by no more than that, or ask for a shorter time."
    )


def _add(found: Counts, more: Mapping[SliceKey, Counter[int]]) -> None:
    for key, counts in more.items():
        found[key].update(counts)
