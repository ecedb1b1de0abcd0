"""GET /api/runs and GET /api/sessions: single runs that match the explorer's filters, or their sessions, page by page."""

from decimal import Decimal
from typing import Annotated, get_args

import msgspec
from msgspec import Meta
from quart import Blueprint, request
from quart.typing import ResponseReturnValue
from sqlmodel import SQLModel

from api.auth import project_key
from api.current import actor, services
from api.operation import Answer, Content, Operation, documents
from api.reply import Success, answered, reply, utc
from runtally.access.scopes import Scope, demand
from runtally.errors import Detail, Forbidden, InvalidFilter, QueryTooSlow, StoreUnavailable
from runtally.fields import camel
from runtally.models.run import StoredRun
from runtally.runs.read import read_whole_page
from runtally.runs.run_groups import MAX_RUNS, read_sessions
from runtally.runs.values import Position
from runtally.usage.filter import NAMES, RunFilter
from runtally.usage.overview.project_queries import select_dropped_before

blueprint = Blueprint("api_runs", __name__, url_prefix="/api")

_PROJECT = NAMES["project_id"]

RunsQuery = msgspec.defstruct(
    "RunsQuery",
    [
        ("project_id", Annotated[str | None, Meta(description="The project; a project key knows its own.")], None),
        ("before", Annotated[str | None, Meta(description="`nextBefore` of the page before.")], None),
        *(
            (
                f"by_{field}",
                Annotated[str | None, Meta(description="Filter, as in the explorer.")],
                msgspec.field(default=None, name=name),
            )
            for field, name in NAMES.items()
            if name != _PROJECT
        ),
    ],
    frozen=True,
    rename=camel,
)
RunsQuery.__doc__ = "Which runs. Keys of metadata are `metadata.<key>`."


_AMOUNT = msgspec.Raw | None


def _answered_field(field: msgspec.structs.FieldInfo) -> tuple[str, object] | tuple[str, object, object]:
    """Return the field of an answer for a field of a run, with what is said of its column."""
    is_amount = Decimal in get_args(field.type)
    meaning = SQLModel.metadata.tables["runs"].columns[field.name].comment
    meta = Meta(description=meaning, extra_json_schema={"type": "number"} if is_amount else None)
    type_: object = Annotated[_AMOUNT if is_amount else field.type, meta]
    return (field.name, type_, None) if field.default is None else (field.name, type_)


AnsweredRun = msgspec.defstruct(
    "AnsweredRun",
    [_answered_field(field) for field in msgspec.structs.fields(StoredRun)],
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename=camel,
)
AnsweredRun.__doc__ = "A run with the fields of an export; those that it has no value for are left out."


class Runs(Success, frozen=True, kw_only=True, rename=camel):
    """A page of runs, the newest first."""

    runs: tuple[AnsweredRun, ...]  # type: ignore[valid-type]  # It is made from the fields of runs.
    next_before: Annotated[
        str | None, Meta(description="`before` of the next page, also where few runs matched so far; null on the last.")
    ]
    left_out: Annotated[str | None, Meta(description="Why archived runs are missing; null where none are.")]


class AnsweredNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names that the runs of a session have."""

    count: int
    first: Annotated[tuple[str, ...], Meta(description="At most two of them.")]


class AnsweredSession(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """A session: what its runs that match come to."""

    project_id: str
    id: Annotated[str, Meta(description="The `sessionId` of its runs.")]
    runs: int
    failed: int
    unpriced: Annotated[int, Meta(description="Runs whose cost is not known yet, which are not in `costUSD`.")]
    cost_usd: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "number"})] = msgspec.field(name="costUSD")
    first_at: str
    last_at: Annotated[str, Meta(description="When its last run began.")]
    duration_ms: Annotated[int, Meta(description="From the start of the first run to the end of the last answer.")]
    users: AnsweredNames
    models: AnsweredNames


class Sessions(Success, frozen=True, kw_only=True, rename=camel):
    """A page of sessions, that with the latest run first."""

    sessions: tuple[AnsweredSession, ...]
    next_before: Annotated[str | None, Meta(description="`before` of the next page; null on the last.")]
    left_out: Annotated[str | None, Meta(description="Why earlier runs are missing; null where none are.")]


@blueprint.get("/runs")
@project_key
@documents(
    Operation(
        tag="Metrics",
        query=RunsQuery,
        answers={200: Answer("The runs.", (Content((Runs,)),))},
        raises=(Forbidden, InvalidFilter, QueryTooSlow, StoreUnavailable),
    )
)
async def get_runs() -> ResponseReturnValue:
    """List single runs with the filters of the explorer, at most 50 a page. Needs the scope `runs:read`."""
    run_filter, position = _asked()
    async with services().cells.snapshots(run_filter.project_id) as snapshots:
        page = await read_whole_page(snapshots.run_sources, run_filter, services().clock(), position)
    older = page.older.token if page.older else None
    return reply(
        Runs(runs=tuple(answered(AnsweredRun, run) for run in page.runs), next_before=older, left_out=page.problem)
    )


@blueprint.get("/sessions")
@project_key
@documents(
    Operation(
        tag="Metrics",
        query=RunsQuery,
        answers={200: Answer("The sessions.", (Content((Sessions,)),))},
        raises=(Forbidden, InvalidFilter, QueryTooSlow, StoreUnavailable),
    )
)
async def get_sessions() -> ResponseReturnValue:
    """List the sessions of a project that have runs of the filters, at most 50 a page. Needs the scope `runs:read`.

    All figures are of the runs that match: of a session that began before the time asked for, those of its later part.
    """
    run_filter, position = _asked()
    if run_filter.project_id is None:
        raise InvalidFilter(details=(Detail("projectId", "must name the project: each has sessions of its own"),))
    async with services().cells.for_project(run_filter.project_id).reading.snapshot() as connection:
        page, place = await read_sessions(connection, run_filter, services().clock(), position.place)
        dropped = await select_dropped_before(connection, run_filter.project_id)
    since = max(filter(None, (page.since, dropped)), default=None)
    starts = run_filter.starts_at(services().clock())
    why = f"more than {MAX_RUNS:,} match" if since == page.since else "those before are no longer in the database"
    is_short = since is not None and (starts is None or starts < since)
    return reply(
        Sessions(
            sessions=tuple(
                answered(
                    AnsweredSession,
                    group,
                    project_id=run_filter.project_id,
                    users=answered(AnsweredNames, group.users),
                    models=answered(AnsweredNames, group.models),
                )
                for group in page.groups
            ),
            next_before=place.token if place else None,
            left_out=f"These are of runs since {utc(since)}: {why}." if since and is_short else None,
        )
    )


def _asked() -> tuple[RunFilter, Position]:
    """Read the query. Raises `Forbidden`, and `InvalidFilter`."""
    sent = request.args.to_dict()
    before = sent.pop("before", None)
    asked = sent.pop("projectId", actor().project_id)
    demand(actor(), Scope.RUNS_READ, asked)
    return RunFilter.parse_strictly({**sent, _PROJECT: asked or ""}), Position.parse(before, None)
