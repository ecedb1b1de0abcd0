"""The page of a session: its runs in order by trace, and their cumulative cost."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.errors import NotFound
from runtally.models.run import Status
from runtally.runs.session import MAX_STEPS, PAGE_STEPS, Session, SessionStep, count_steps, read_points, read_session
from runtally.runs.values import ListedRun
from runtally.usage.filter import Period
from webapp import formats
from webapp.addresses import address_of, requested_project
from webapp.charts.costs import cost_so_far
from webapp.pages.panel.chart_answer import payload_of
from webapp.pages.project.frame import ProjectHeading, heading_of
from webapp.pages.runs.rows import TONES, moment, short, status_of
from webapp.pages.runs.views import run_url, runs_url, session_url, trace_url
from webapp.pages.sessions.sessions import cost_text, list_names, long_duration
from webapp.rendering import Page, render
from webapp.report import ChartPart, Column, Figure, Head, Table, table_of
from webapp.security import signed_in
from webapp.zone import local

NumberedStep = tuple[int, SessionStep]

blueprint = Blueprint("session", __name__)


class StepHead(Head, frozen=True, kw_only=True):
    """A run by its number and its model; `note` says how it failed."""

    number: str
    tone: str


class TraceSteps(Struct, frozen=True):
    """Steps of one trace that follow each other; without a name, of none."""

    name: str | None
    url: str | None
    is_continued: bool
    """Whether steps of another trace were between these and earlier ones."""
    table: Table


class SessionPage(Page, frozen=True):
    """The page of one session."""

    fragment: ClassVar[str] = "sessions/_session.html"

    project: ProjectHeading
    session_id: str
    all_runs_url: str
    too_many: str | None
    """The longest session that is added up, where this one is longer."""
    at: str = ""
    figures: tuple[Figure, ...] = ()
    unpriced: int = 0
    chart: ChartPart | None = None
    traces: tuple[TraceSteps, ...] = ()
    shown: str = ""
    previous_url: str | None = None
    next_url: str | None = None

    @property
    def document_title(self) -> str:
        return f"Session {self.session_id} · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>/sessions/<id:session_id>")
@signed_in
async def session(project_id: str, session_id: str) -> ResponseReturnValue:
    """Show the runs of a session, with what it had cost after each."""
    demand(actor(), Scope.RUNS_READ, project_id)
    number = max(request.args.get("page", 1, int), 1)
    async with services().cells.for_project(project_id).reading.snapshot() as connection:
        steps = await count_steps(connection, project_id, session_id)
        project = await heading_of(connection, project_id)
        number = min(number, -(-steps // PAGE_STEPS))
        found = await read_session(connection, project_id, session_id, number) if steps <= MAX_STEPS else None
    all_runs_url = runs_url(project_id=project_id, session_id=session_id, range=Period.ALL)
    if found is None:
        return await render(SessionPage(project, session_id, all_runs_url, formats.count(MAX_STEPS)))
    return await render(_page(project, session_id, all_runs_url, found, number))


@blueprint.get("/charts/session.json")
@signed_in
async def chart() -> ResponseReturnValue:
    """Return what the session in the query had cost after each step."""
    project_id, session_id = requested_project(request.args), request.args.get("session", "")
    demand(actor(), Scope.RUNS_READ, project_id)
    if project_id is None or "\0" in session_id:
        raise NotFound
    async with services().cells.for_project(project_id).reading.snapshot() as connection:
        if await count_steps(connection, project_id, session_id) > MAX_STEPS:
            raise NotFound("This session has too many runs to be drawn.")
        points = await read_points(connection, project_id, session_id)
    return await payload_of(cost_so_far(points))


def _page(project: ProjectHeading, session_id: str, all_runs_url: str, session: Session, number: int) -> SessionPage:
    whole = session.group
    runs, last_number = whole.runs or 0, session.first_number + len(session.steps) - 1
    shown = "" if len(session.steps) == runs else f"{session.first_number:,} to {last_number:,} of {runs:,}"
    url = session_url(project.id, session_id)
    src = address_of("session.chart", {"project": project.id, "session": session_id})
    return SessionPage(
        project=project,
        session_id=session_id,
        all_runs_url=all_runs_url,
        too_many=None,
        at=formats.moment(local(session.steps[0].run.occurred_at)) if number == 1 else "",
        figures=tuple(_figures(session)),
        unpriced=whole.unpriced or 0,
        chart=ChartPart(cost_so_far(session.points), src) if runs > 1 and whole.cost_usd else None,
        traces=tuple(_by_trace(project.id, session)),
        shown=shown,
        previous_url=f"{url}?page={number - 1}" if number > 1 else None,
        next_url=f"{url}?page={number + 1}" if last_number < runs else None,
    )


def _figures(session: Session) -> Iterator[Figure]:
    whole, tokens = session.group, session.tokens
    traces = f"{session.traces:,} {'trace' if session.traces == 1 else 'traces'}" if session.traces else ""
    yield Figure("Cost", cost_text(whole))
    yield Figure("Runs", formats.count(whole.runs or 0), traces)
    yield Figure("Duration", long_duration(whole.duration_ms))
    yield Figure("Failed", formats.count(whole.failed or 0))
    cached = (
        f"{formats.share(Decimal(tokens.cached_input), Decimal(tokens.input))} of input cached" if tokens.input else ""
    )
    yield Figure("Tokens", formats.tokens(tokens.input + tokens.output), cached)
    if whole.users and whole.users.count:
        yield Figure("User" if whole.users.count == 1 else "Users", list_names(whole.users))


def _by_trace(project_id: str, session: Session) -> Iterator[TraceSteps]:
    """Yield the steps of a page, one part for each trace, or several where traces run at the same time."""
    parts: list[tuple[str | None, list[NumberedStep]]] = []
    for number, step in enumerate(session.steps, session.first_number):
        trace_id = step.run.trace_id or None
        if not parts or parts[-1][0] != trace_id:
            parts.append((trace_id, []))
        parts[-1][1].append((number, step))
    seen = set[str | None]()
    head, columns = _columns(session)
    for trace_id, steps in parts:
        yield TraceSteps(
            short(trace_id) if trace_id else None,
            trace_url(project_id, trace_id) if trace_id else None,
            trace_id in seen,
            table_of("Model", head, columns, steps),
        )
        seen.add(trace_id)


def _columns(session: Session) -> tuple[Callable[[NumberedStep], Head], tuple[Column[NumberedStep], ...]]:
    """Return what writes the name of a step, and its columns."""
    now = services().clock()
    latency = formats.column_duration(step.run.latency_ms for step in session.steps)
    cost = formats.column_run_money(step.run.cost_usd for step in session.steps)
    total = formats.column_run_money(step.total_usd for step in session.steps)

    def cached(run: ListedRun) -> str:
        if not run.input_tokens:
            return formats.NOTHING
        return formats.share(Decimal(run.cached_input_tokens or 0), Decimal(run.input_tokens))

    def head(row: NumberedStep) -> Head:
        number, run = row[0], row[1].run
        return StepHead(
            name=run.model,
            note=None if run.status is Status.SUCCESS else status_of(run.status, run.error_code),
            summary=f"{moment(run.occurred_at, now)} · {latency(run.latency_ms)} · {cached(run)} cached",
            url=run_url(run.project_id, run.id),
            number=formats.count(number),
            tone=TONES[run.status],
        )

    def price(run: ListedRun) -> str:
        return "no price" if run.cost_usd is None else cost(run.cost_usd)

    return head, (
        Column("Time", lambda row: moment(row[1].run.occurred_at, now), "fold"),
        Column("Latency", lambda row: latency(row[1].run.latency_ms)),
        Column("Tokens in", lambda row: formats.count(row[1].run.input_tokens)),
        Column("Cached", lambda row: cached(row[1].run)),
        Column("Tokens out", lambda row: formats.count(row[1].run.output_tokens)),
        Column("Cost", lambda row: price(row[1].run), "number", "cost"),
        Column("Cumulative", lambda row: total(row[1].total_usd), "number"),
    )
