"""Process an OTLP request: read its spans, keep one record of each call of a model, and pass them to ingest.

A span that is no call of a model is dropped as soon as it was read.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeVar

from runtally.audit import Actor
from runtally.errors import BodyTooLarge, Detail, InvalidOtlp
from runtally.ingest.accept import Intake
from runtally.ingest.normalize import NormalRun
from runtally.otlp import json, protobuf
from runtally.otlp.agents.files import ReadKept, recognise
from runtally.otlp.agents.known import EMAIL, Signal, find_agent
from runtally.otlp.agents.metrics import METRICS, Counted, Sum, added_by, combine, drop_untimed, read_sums
from runtally.otlp.agents.metrics import NAMES as POINT_NAMES
from runtally.otlp.agents.records import BODIES, Place, RecordReader, add_agent, is_agents_call, read_other_span
from runtally.otlp.agents.records import NAMES as RECORD_NAMES
from runtally.otlp.attributes import COUNTS, Facts, read_facts, read_free, wanted_of_resources, wanted_of_spans
from runtally.otlp.bodies import LargeBodies
from runtally.otlp.calls import (
    Call,
    drop_counts_of_cache,
    ending,
    latency_ms,
    normalize_tokens,
    resolve_first_token,
    resolve_models,
)
from runtally.otlp.clients import ClientCounter
from runtally.otlp.nesting import Below, Lineage, brief, joined, keep_innermost
from runtally.otlp.origins import Origins, ProjectRule, valid_project
from runtally.otlp.recent import Recent, SpanPlace
from runtally.otlp.runs import INVALID_ID, stored_run
from runtally.otlp.spans import counts_apart, has_failed, is_call, output_of, start_of, vendor_of
from runtally.otlp.twins import keep_one_of_each
from runtally.otlp.values import LogRecord, Malformed, Metric, Rules, Span, Wanted
from runtally.settings import Settings
from runtally.telemetry import count_otlp

MAX_SPANS = 100_000
"""The most spans in one request, so that many small ones take no more memory than a few large ones."""
MAX_PROJECTS = 50
"""The most projects in one request."""
MAX_SUMS = 1_000
"""The most sums of agents in one request: of each, what was counted before is read."""
PIECE = 1_000
"""The most runs that are stored at once."""
# Other requests are answered after so many spans.
_TURN = 100
# Comparing more calls than that takes longer than another request should wait.
_MANY_CALLS = 2_000
# The AI SDK's suffix for streamed calls.
_STREAM = ".doStream"
_NAMED_FAULTS = 5
_WITHOUT_TIMES = Detail("timeUnixNano", "is missing, or startTimeUnixNano of a cumulative sum")
_TOO_MANY_PROJECTS = Detail("project", f"is one of more than {MAX_PROJECTS} in one request")

_Record = TypeVar("_Record", Span, LogRecord, Metric)
_One = TypeVar("_One", Call, Sum)

Admit = Callable[[Collection[str]], Awaitable[None]]
"""Count the request for each of these projects; raises `RateLimited` before anything is stored."""
Count = Callable[[str, Collection[str]], Awaitable[Mapping[str, Counted]]]
"""Read the tokens that the runs of a project's series have, by series. Raises `StoreUnavailable`."""


class Sender(NamedTuple):
    """The sender of a request, and the rule for its projects."""

    by: Actor
    exporter: str
    """The User-Agent of its requests."""
    rule: ProjectRule
    admit: Admit
    counted: Count
    kept: ReadKept


@dataclass(slots=True)
class Outcome:
    """The outcomes of a request's spans or log records."""

    read: int = 0
    runs: int = 0
    """Runs stored now or before."""
    twins: int = 0
    """Calls that another record already reported, in this request or shortly before it."""
    faults: Counter[Detail] = field(default_factory=Counter)

    @property
    def rejected(self) -> int:
        return self.faults.total()

    @property
    def message(self) -> str:
        """The errors of the rejected records, without any of their values."""
        shown = (f"{fault.path} {fault.message} ({times})" for fault, times in self.faults.most_common(_NAMED_FAULTS))
        return f"Not stored: {self.rejected}; {'; '.join(shown)}."


class _Read(NamedTuple):
    """The calls and spans of a request."""

    calls: list[Call]
    apart: list[Call]
    """Calls of agents that are identified by their content instead of their spans."""
    lineage: Lineage
    above: dict[SpanPlace, Below]
    """Spans that arrived after calls below them had been stored."""
    origins: Origins


class _Stored(NamedTuple):
    """The calls of a project that are stored, now or before, and how many of them were before."""

    calls: list[Call]
    duplicates: int


class Receiver:
    """Receives OTLP requests; one per process."""

    def __init__(
        self,
        ingest: Intake,
        settings: Settings,
        clients: ClientCounter,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bodies = LargeBodies(settings.otlp_max_body_bytes)
        self.default_project = valid_project(settings.otlp_project) or "default"
        self._clients = clients
        self._ingest = ingest
        self._recent = Recent(seconds)
        self._dropped = frozenset(settings.otlp_drop)
        self._more = frozenset(settings.otlp_attributes) - self._dropped
        self._keeps_email = EMAIL in self._more
        of_resources = wanted_of_resources(self._more | RECORD_NAMES)
        self._spans = Rules(of_resources, wanted_of_spans(self._more | RECORD_NAMES))
        self._records = Rules(of_resources, Wanted(RECORD_NAMES), BODIES)
        self._metrics = Rules(of_resources, Wanted(POINT_NAMES), METRICS)
        self._summing = frozenset(settings.otlp_metrics)

    async def take_traces(self, body: bytes, sender: Sender, *, is_json: bool) -> Outcome:
        """Store the calls of models among the spans; when this returns they are committed.

        Raises `InvalidOtlp`, `BodyTooLarge`, `RateLimited`, `StoreUnavailable` and `StoreBusy`. After the last two the
        request can be sent again: runs that were stored are recognised.
        """
        outcome = Outcome()
        if not body:
            return outcome
        read = await self._read(body, sender, outcome, is_json=is_json)
        kept = keep_innermost(read.calls, read.lineage, {key: calls for (_, key), calls in read.above.items()})
        read.lineage.fill_people(kept, self._recent.people_of)
        kept = await (asyncio.to_thread(keep_one_of_each, kept) if len(kept) > _MANY_CALLS else _at_once(kept))
        kept, stored = await self._store_once(kept, read.apart, sender, outcome)
        calls = [*read.calls, *read.apart]
        outcome.twins = len(calls) - len(kept)
        with_spans = [call for call in stored if call.key]
        self._recent.add(_still_to_come(with_spans, read.above, read.lineage), read.lineage.people)
        read.origins.count(calls, kept, stored)
        read.origins.tell(self._clients, sender.exporter, "traces")
        count_otlp("traces", read=outcome.read, runs=outcome.runs, rejected=outcome.rejected, twins=outcome.twins)
        return outcome

    async def _store_once(
        self, calls: Sequence[Call], apart: Sequence[Call], sender: Sender, outcome: Outcome
    ) -> tuple[list[Call], list[Call]]:
        """Store calls but twins of other requests' calls, and return those that are none, and those that were stored."""
        kept, stored = list[Call](), list[Call]()
        while True:
            claim = self._recent.claim(calls)
            found = [*claim.calls, *apart]
            kept += found
            try:
                stored += await self._store(await _admitted(found, sender, outcome), sender, outcome)
            finally:
                claim.settle(stored)
            # A request that failed may never come again, so what waited for it is stored instead.
            calls, apart = await claim.given_back(), ()
            if not calls:
                return kept, stored

    async def take_logs(self, body: bytes, sender: Sender, *, is_json: bool) -> Outcome:
        """Store the calls of models among the log records of coding agents. Raises what `take_traces` does."""
        outcome = Outcome()
        if not body:
            return outcome
        calls: list[Call] = []
        reader, origins = RecordReader(), Origins(sender.rule)
        for record in _checked((json if is_json else protobuf).read_logs(body, self._records)):
            await _take_turns(outcome)
            event = str(record.attributes.get("event.name", ""))
            agent = find_agent(record.resource.attributes, record.scope, event)
            project_id, _, tally = origins.of(record.resource)
            tally.records += 1
            if agent is not None and agent.signal is not Signal.LOGS:
                tally.told_elsewhere += 1
                continue
            place = Place(record.resource, project_id, self._keeps_email)
            call = reader.read(agent, record, place) if agent is not None else None
            if call is None:
                tally.no_calls += 1
            else:
                calls.append(call)
        stored = await self._store(await _admitted(calls, sender, outcome), sender, outcome)
        origins.count(calls, calls, stored)
        origins.tell(self._clients, sender.exporter, "logs")
        count_otlp("logs", read=outcome.read, runs=outcome.runs, rejected=outcome.rejected)
        return outcome

    def reads_metrics(self, rule: ProjectRule) -> bool:
        """Return whether the request's project asked for what agents report as metrics alone, or might have."""
        return rule.named in self._summing if rule.named is not None else bool(self._summing)

    async def take_metrics(self, body: bytes, sender: Sender, *, is_json: bool) -> Outcome:
        """Store what was added to the sums that agents report, in projects that ask for it. Raises what `take_traces` does."""
        outcome, origins = Outcome(), Origins(sender.rule)
        if not body:
            return outcome
        sums: list[Sum] = []
        for metric in _checked((json if is_json else protobuf).read_metrics(body, self._metrics)):
            await _take_turns(outcome)
            agent = find_agent(metric.resource.attributes, metric.scope)
            if agent is None or agent.signal is not Signal.METRICS or not metric.points:
                continue
            project_id = sender.rule.project_of(metric.resource.attributes)
            if project_id in self._summing:
                tally = origins.of(metric.resource).tally
                tally.records += len(metric.points)
                if faulty := drop_untimed(metric):
                    outcome.faults[_WITHOUT_TIMES] += faulty
                    tally.rejected += faulty
                sums += read_sums(agent, metric, Place(metric.resource, project_id, self._keeps_email))
        if len(sums) > MAX_SUMS:
            raise BodyTooLarge(f"Send at most {MAX_SUMS:,} sums of agents in one request; set a smaller batch size.")
        for project_id, its in (await _admitted(sums, sender, outcome)).items():
            calls, stored = await self._add_sums(project_id, combine(its), sender, outcome)
            origins.count(calls, calls, stored)
        origins.tell(self._clients, sender.exporter, "metrics")
        count_otlp("metrics", read=outcome.read, runs=outcome.runs, rejected=outcome.rejected)
        return outcome

    async def _add_sums(
        self, project_id: str, sums: Sequence[Sum], sender: Sender, outcome: Outcome
    ) -> tuple[list[Call], list[Call]]:
        """Store what combined sums add, and return their calls and those that were stored."""
        calls: list[Call] = []
        stored: list[Call] = []
        series = {one.series for one in sums if not one.is_delta}
        before: Mapping[str, Counted] | None = None
        while True:
            counted = await sender.counted(project_id, series) if series else {}
            added = [
                call
                for one in sums
                if before is None or counted.get(one.series) != before.get(one.series)
                if (call := added_by(one, counted.get(one.series, {}))) is not None
            ]
            done = await self._store_project(project_id, added, sender.by, outcome)
            calls += added
            stored += done.calls
            # Another export of the same series came first, or the same one was sent again.
            if not done.duplicates:
                return calls, stored
            before = counted

    async def _read(self, body: bytes, sender: Sender, outcome: Outcome, *, is_json: bool) -> _Read:
        read = _Read([], [], Lineage(), {}, Origins(sender.rule))
        for span in _checked((json if is_json else protobuf).read_spans(body, self._spans)):
            await _take_turns(outcome)
            project_id, of_resource, tally = read.origins.of(span.resource)
            tally.records += 1
            key = read.lineage.add(span, project_id)
            if key and (below := self._recent.below(project_id, key)):
                read.above[project_id, key] = below
            agent = find_agent(span.resource.attributes, span.scope)
            if agent is not None and agent.signal is not Signal.TRACES:
                apart = read_other_span(agent, span, Place(span.resource, project_id, self._keeps_email))
                if apart is None:
                    tally.told_elsewhere += 1
                else:
                    read.apart.append(apart)
            elif not (is_call(span) if agent is None else is_agents_call(agent, span)):
                tally.no_calls += 1
            elif not key:
                tally.rejected += 1
                outcome.faults[INVALID_ID] += 1
            else:
                call = call_of(span, key, project_id, of_resource, self._more)
                if agent is not None:
                    add_agent(call, agent, span, self._more, keeps_email=self._keeps_email)
                read.calls.append(call)
        return read

    async def _store(self, projects: Mapping[str, Sequence[Call]], sender: Sender, outcome: Outcome) -> list[Call]:
        """Store the calls as runs, each project's in pieces, and return those that were stored."""
        for project_id, calls in projects.items():
            await recognise(project_id, calls, sender.kept)
        stored = await asyncio.gather(
            *(self._store_project(*project, sender.by, outcome) for project in projects.items()),
            # One project's error must not leave the statements of another running unattended.
            return_exceptions=True,
        )
        for failed in stored:
            if isinstance(failed, BaseException):
                raise failed
        return [call for done in stored if not isinstance(done, BaseException) for call in done.calls]

    async def _store_project(self, project_id: str, calls: Sequence[Call], by: Actor, outcome: Outcome) -> "_Stored":
        stored: list[Call] = []
        duplicates = 0
        for start in range(0, len(calls), PIECE):
            piece = calls[start : start + PIECE]
            accepted: list[NormalRun] = []
            for turn in range(0, len(piece), _TURN):
                few = piece[turn : turn + _TURN]
                runs = [stored_run(call, self._dropped) for call in few]
                prepared = await self._ingest.prepare(project_id, runs, takes_turns=False)
                accepted += prepared.accepted
                bad = {run.index for run in prepared.rejected}
                outcome.faults.update(run.details[0] for run in prepared.rejected)
                stored += [call for index, call in enumerate(few) if index not in bad] if bad else few
                await asyncio.sleep(0)
            duplicates += (await self._ingest.store(accepted, by=by)).duplicates
            outcome.runs += len(accepted)
        return _Stored(stored, duplicates)


async def _admitted(found: Sequence[_One], sender: Sender, outcome: Outcome) -> dict[str, list[_One]]:
    """Return what was found by project, once the request is counted for each; projects beyond the most are rejected."""
    projects: dict[str, list[_One]] = {}
    for one in found:
        projects.setdefault(one.project_id, []).append(one)
    for project_id in list(projects)[MAX_PROJECTS:]:
        outcome.faults[_TOO_MANY_PROJECTS] += len(projects.pop(project_id))
    await sender.admit(projects.keys())
    return projects


def _still_to_come(
    stored: Sequence[Call], above: Mapping[SpanPlace, Below], lineage: Lineage
) -> Iterator[tuple[SpanPlace, Below]]:
    """Yield the spans above stored calls that are not in this request, with those calls."""
    places: dict[SpanPlace, Below] = {}
    of_stored = (((call.project_id, call.key), call) for call in stored)
    found: Iterator[tuple[SpanPlace, Call | Below]] = chain(of_stored, above.items())
    for (project_id, key), calls in found:
        last = next((above for above in lineage.enclosing(key) if lineage.is_unknown(above)), None)
        if last is not None:
            below = (brief(calls),) if isinstance(calls, Call) else calls
            places[project_id, last] = joined(places.get((project_id, last), ()), below)
    yield from places.items()


async def _take_turns(outcome: Outcome) -> None:
    """Count a span or record, and let other requests be answered now and then. Raises `BodyTooLarge`."""
    outcome.read += 1
    if outcome.read % _TURN == 0:
        await asyncio.sleep(0)
    if outcome.read > MAX_SPANS:
        raise BodyTooLarge(f"Send at most {MAX_SPANS:,} spans or records in one request; set a smaller batch size.")


def _checked(records: Iterator[_Record]) -> Iterator[_Record]:
    try:
        yield from records
    except Malformed:
        raise InvalidOtlp from None


async def _at_once(calls: Sequence[Call]) -> list[Call]:
    return keep_one_of_each(calls)


def call_of(span: Span, key: bytes, project_id: str, of_resource: Facts, more: frozenset[str]) -> Call:
    """Convert the span to a call, with the fields of its resource; `more` are further attributes to keep."""
    facts = read_facts(span.attributes, of_resource)
    resolve_models(facts)
    if str(facts.get("operation", "")).endswith(_STREAM):
        facts.setdefault("streamed", True)
    failed = has_failed(span) or (facts.get("finish_reasons") == ["error"] and facts.keys().isdisjoint(COUNTS))
    if counts_apart(span, facts.get("provider", ""), facts.get("model", "")):
        facts["counted_apart"] = True
    if "output" in facts:
        facts["output"] = output_of(span, facts)
    if "provider" not in facts and (vendor := vendor_of(span.scope)):
        facts["provider"] = vendor
    normalize_tokens(facts, has_failed=failed)
    drop_counts_of_cache(facts)
    start = start_of(span, facts)
    resolve_first_token(facts, start, span.end)
    ended = ending(facts, span.exception_type, has_failed=failed)
    trace_id = span.trace_id.hex()
    return Call(
        key=key,
        run_id=f"{trace_id}-{span.span_id.hex()}",
        trace_id=trace_id,
        parent_id=span.parent_id,
        project_id=project_id,
        resource=span.resource,
        scope=span.scope,
        start=start,
        end=span.end,
        latency_ms=latency_ms(start, span.end),
        status=ended.status,
        error_code=ended.error_code,
        facts=facts,
        free=read_free(span.attributes, more),
    )
