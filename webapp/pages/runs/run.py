"""The page of a run with its cost explained, and of a trace with its runs in order."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import keys
from runtally.access.scopes import Scope, demand
from runtally.models.run import Status, StoredRun
from runtally.runs import read
from runtally.runs.archived import RunSource
from runtally.runs.session import Step, Trace
from runtally.runs.totals import read_totals
from runtally.units import FURTHER
from runtally.usage.dimensions import MODEL
from runtally.usage.filter import Outcome, Period, RunFilter
from webapp import currency, formats
from webapp.charts.look import OTHER
from webapp.pages.panel.chart_answer import read_slots
from webapp.pages.project.frame import ProjectHeading, heading_of
from webapp.pages.runs.costs import CostCard, cost_of
from webapp.pages.runs.rows import TONES, moment, status_of
from webapp.pages.runs.views import archived_at, run_url, runs_url, session_url, trace_url
from webapp.rendering import Page, render
from webapp.report import Figure
from webapp.security import signed_in
from webapp.zone import local

# A bar shorter than this share of the width could not be seen.
SHORTEST_BAR = 0.4

MAX_PAIR = 80
# A trace is mostly within one.
MAX_SESSIONS = 3
SECOND_MS = 1_000

blueprint = Blueprint("run", __name__)


class Fact(Struct, frozen=True):
    """A property of a run; some link to other runs that have it."""

    name: str
    value: str
    url: str | None = None
    is_code: bool = False


class RunPage(Page, frozen=True):
    """The page of one run."""

    fragment: ClassVar[str] = "runs/_run.html"

    project: ProjectHeading
    run: StoredRun
    at: str
    status: str
    tone: str
    trace_url: str | None
    session_url: str | None
    cost: CostCard
    facts: tuple[Fact, ...]
    metadata: str | None
    failure: str | None
    """What went wrong; None for a run that succeeded."""
    similar: str
    """The number of runs of the last 7 days that ended alike, this one among them."""
    similar_url: str
    pairs: tuple[Fact, ...]
    """What of its metadata other runs can be found by."""

    @property
    def document_title(self) -> str:
        return f"{self.run.model} · {self.at} · {self.run.project_id}"


class Bar(Struct, frozen=True):
    """A step of a trace; `offset` and `length` are percent of the whole."""

    run: StoredRun
    url: str
    slot: str
    purpose: str
    """The agent that made the call, and the operation, where they are known."""
    starts_after: str
    latency: str
    status: str
    tone: str
    tokens: str
    cost: str
    share: str
    offset: float
    length: float
    first_token: float | None
    """Where in the whole its first token came; None if that is unknown."""


class TracePage(Page, frozen=True):
    """The runs of a trace."""

    fragment: ClassVar[str] = "runs/_trace.html"

    project: ProjectHeading
    trace_id: str
    all_runs_url: str
    at: str
    figures: tuple[Figure, ...]
    sessions: tuple[Fact, ...]
    """The sessions that its runs belong to."""
    bars: tuple[Bar, ...]
    is_whole: bool
    unpriced: int

    @property
    def document_title(self) -> str:
        return f"Trace {self.trace_id} · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>/runs/<id:run_id>")
@signed_in
async def run(project_id: str, run_id: str) -> ResponseReturnValue:
    """Show a run and the explanation of its cost."""
    demand(actor(), Scope.RUNS_READ, project_id)
    async with (
        services().cells.snapshots(project_id) as snapshots,
        services().open_control(snapshots) as control,
    ):
        connection = snapshots.connection
        run = await read.read_run(
            control,
            connection,
            project_id,
            run_id,
            services().cells.for_project(project_id).archived_runs,
            archived_at(request.args),
        )
        one = run.run
        key_name = await keys.name_of(control, one.key_id) if one.key_id else None
        project = await heading_of(connection, project_id)
        alike = RunFilter(project_id=project_id, status=Outcome(one.status.value), error_code=one.error_code)
        similar = (
            None
            if one.status is Status.SUCCESS
            else await read_totals([RunSource(connection)], alike, services().clock())
        )
    at = one.occurred_at if run.is_archived else None
    currency.as_of(one.occurred_at)
    page = RunPage(
        project=project,
        run=one,
        at=moment(one.occurred_at, services().clock()),
        status=status_of(one.status, one.error_code),
        tone=TONES[one.status],
        trace_url=trace_url(project_id, one.trace_id, at) if one.trace_id else None,
        session_url=session_url(project_id, one.session_id) if one.session_id else None,
        cost=cost_of(one, run.explanation),
        facts=tuple(_facts(one, key_name, at)),
        metadata=_pretty(one.metadata),
        failure=_failure(one),
        similar=f": {formats.runs(similar.runs)}" if similar else "",
        similar_url=runs_url(project_id=project_id, status=alike.status, error_code=alike.error_code),
        pairs=tuple(_pairs(one)),
    )
    return await render(page)


@blueprint.get("/projects/<project_id:project_id>/traces/<id:trace_id>")
@signed_in
async def trace(project_id: str, trace_id: str) -> ResponseReturnValue:
    """The runs of a trace as a waterfall, each with its cost."""
    demand(actor(), Scope.RUNS_READ, project_id)
    async with services().cells.for_project(project_id).reading.snapshot() as connection:
        trace = await read.read_trace(
            connection,
            project_id,
            trace_id,
            services().cells.for_project(project_id).archived_runs,
            archived_at(request.args),
        )
        project = await heading_of(connection, project_id)
    slots = await read_slots(MODEL, list(dict.fromkeys(step.run.model for step in trace.steps)))
    currency.as_of(trace.starts_at)
    page = TracePage(
        project=project,
        trace_id=trace_id,
        all_runs_url=runs_url(project_id=project_id, trace_id=trace_id, range=Period.ALL),
        at=formats.moment(local(trace.starts_at)),
        figures=tuple(_figures(trace)),
        sessions=tuple(
            Fact("Session", session, session_url(project_id, session), is_code=True)
            for session in trace.sessions[:MAX_SESSIONS]
        ),
        bars=_bars(trace, slots, is_archived=archived_at(request.args) is not None),
        is_whole=trace.is_whole,
        unpriced=trace.unpriced,
    )
    return await render(page)


def _facts(run: StoredRun, key_name: str | None, archived_at: datetime | None) -> Iterator[Fact]:
    project_id = run.project_id
    yield from _outcome(run)
    yield Fact("Time", formats.moment(local(run.occurred_at)))
    yield Fact("Model", run.model, runs_url(project_id=project_id, model=run.model))
    yield Fact("Provider", run.provider, runs_url(project_id=project_id, provider=run.provider))
    yield Fact("Tokens in", formats.count(run.input_tokens))
    yield Fact("Tokens out", formats.count(run.output_tokens))
    for name, number in (run.units or {}).items():
        yield Fact(FURTHER[name].label if name in FURTHER else name, f"{number:,}")
    if run.service_tier:
        yield Fact("Service tier", run.service_tier, runs_url(project_id=project_id, service_tier=run.service_tier))
    if run.region:
        yield Fact("Region", run.region, runs_url(project_id=project_id, region=run.region))
    yield from _speed(run)
    yield from _instrumentation(run)
    yield from _belongings(run, archived_at)
    if key_name:
        yield Fact("Ingest key", key_name, runs_url(project_id=project_id, key_id=run.key_id))
    for name, value in (
        ("Run id", run.id),
        ("Client's id", run.client_id),
        ("Idempotency key", run.idempotency_key),
        ("Prompt hash", run.prompt_hash),
    ):
        if value:
            yield Fact(name, value, is_code=True)
    if run.prompt_preview:
        yield Fact("Prompt preview", run.prompt_preview)
    yield Fact("Received", formats.moment(local(run.created_at)))
    if archived_at is not None:
        yield Fact("Kept in", "the archive")


def _belongings(run: StoredRun, archived_at: datetime | None) -> Iterator[Fact]:
    """Yield what it is a part of, each with a link to that."""
    project_id = run.project_id
    if run.experiment_id:
        yield Fact("Experiment", run.experiment_id, runs_url(project_id=project_id, experiment_id=run.experiment_id))
    if run.trace_id:
        yield Fact("Trace", run.trace_id, trace_url(project_id, run.trace_id, archived_at), is_code=True)
    if run.session_id:
        yield Fact("Session", run.session_id, session_url(project_id, run.session_id))
    if run.user_id:
        yield Fact("User", run.user_id, runs_url(project_id=project_id, user_id=run.user_id))
    for tag in run.tags or ():
        yield Fact("Tag", tag, runs_url(project_id=project_id, tag=tag))


def _outcome(run: StoredRun) -> Iterator[Fact]:
    """Yield how it ended."""
    project_id = run.project_id
    yield Fact("Status", run.status.value, runs_url(project_id=project_id, status=Outcome(run.status.value)))
    if run.error_code:
        yield Fact("Error", run.error_code, runs_url(project_id=project_id, error_code=run.error_code))
    if run.finish_reason:
        yield Fact("Finish reason", run.finish_reason)


def _speed(run: StoredRun) -> Iterator[Fact]:
    """Yield how fast it answered."""
    yield Fact("Latency", formats.duration(run.latency_ms))
    if run.time_to_first_token_ms is not None:
        yield Fact("Time to first token", formats.duration(run.time_to_first_token_ms))
    if run.output_tokens and run.latency_ms:
        yield Fact("Output speed", f"{run.output_tokens * SECOND_MS / run.latency_ms:,.0f} tokens/s")


def _instrumentation(run: StoredRun) -> Iterator[Fact]:
    """Yield what recorded it, if it was a span; then its id is that of the span in its trace."""
    scope = (run.metadata or {}).get("instrumentation")
    if isinstance(scope, str) and run.trace_id and run.id.startswith(f"{run.trace_id}-"):
        url = runs_url(project_id=run.project_id, metadata_key="instrumentation", metadata_value=scope)
        yield Fact("From", f"OpenTelemetry, {scope}", url)


def _failure(run: StoredRun) -> str | None:
    if run.status is Status.SUCCESS:
        return None
    what = "Timed out" if run.status is Status.TIMEOUT else "Failed"
    return f"{what}: {run.error_code}" if run.error_code and run.error_code != run.status.value else what


def _pairs(run: StoredRun) -> Iterator[Fact]:
    """Yield the keys of its metadata that have a short text or a number."""
    for key, value in (run.metadata or {}).items():
        if isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value)) <= MAX_PAIR:
            url = runs_url(project_id=run.project_id, metadata_key=key, metadata_value=str(value))
            yield Fact(key, str(value), url)


def _figures(trace: Trace) -> Iterator[Figure]:
    steps = len(trace.steps)
    yield Figure("Cost", formats.money(trace.cost_usd))
    yield Figure("Steps", f"{formats.count(steps)}{'' if trace.is_whole else ' or more'}")
    yield Figure("Duration", formats.duration(trace.length_ms))
    yield Figure("Failed", formats.count(trace.failed))
    yield Figure("Tokens", formats.tokens(trace.tokens))


def _bars(trace: Trace, slots: Mapping[str, str], *, is_archived: bool) -> tuple[Bar, ...]:
    # A sum over all steps, which each of them is a share of.
    whole_usd = trace.cost_usd
    duration = formats.column_duration(
        [*(step.run.latency_ms for step in trace.steps), *(step.starts_after_ms for step in trace.steps)]
    )
    money = formats.column_run_money(step.run.cost_usd for step in trace.steps)
    return tuple(
        replace(bar, url=run_url(step.run.project_id, step.run.id, step.run.occurred_at)) if is_archived else bar
        for step in trace.steps
        for bar in [_bar(step, slots.get(step.run.model, OTHER), whole_usd, duration, money)]
    )


def _bar(
    step: Step, slot: str, whole_usd: Decimal, duration: Callable[[float | None], str], money: formats.Write
) -> Bar:
    one = step.run
    length = max(step.length * 100, SHORTEST_BAR)
    offset = min(step.offset * 100, 100 - length)
    return Bar(
        run=one,
        url=run_url(one.project_id, one.id),
        slot=slot,
        purpose=" · ".join(_purpose(one)),
        starts_after=f"+{duration(step.starts_after_ms)}",
        latency=duration(one.latency_ms),
        status="" if one.status is Status.SUCCESS else status_of(one.status, one.error_code),
        tone=TONES[one.status],
        tokens=" · ".join(_tokens(one)),
        cost="no price" if one.cost_usd is None else money(one.cost_usd),
        share=formats.share(one.cost_usd, whole_usd) if one.cost_usd is not None else formats.NOTHING,
        offset=round(offset, 3),
        length=round(length, 3),
        first_token=_first_token(one, offset, length),
    )


def _purpose(run: StoredRun) -> Iterator[str]:
    for key in ("agentName", "agent", "operation"):
        value = (run.metadata or {}).get(key)
        if isinstance(value, str) and 0 < len(value) <= MAX_PAIR:
            yield value


def _first_token(run: StoredRun, offset: float, length: float) -> float | None:
    if run.time_to_first_token_ms is None or not run.latency_ms or run.time_to_first_token_ms > run.latency_ms:
        return None
    return round(offset + length * run.time_to_first_token_ms / run.latency_ms, 3)


def _tokens(run: StoredRun) -> Iterator[str]:
    yield f"{formats.count(run.input_tokens)} in"
    if run.cached_input_tokens:
        yield f"{formats.count(run.cached_input_tokens)} cached"
    yield f"{formats.count(run.output_tokens)} out"
    if run.time_to_first_token_ms is not None:
        yield f"first token {formats.duration(run.time_to_first_token_ms)}"


def _pretty(metadata: object) -> str | None:
    if not metadata:
        return None
    return msgspec.json.format(msgspec.json.encode(metadata), indent=2).decode()
