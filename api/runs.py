"""GET /api/runs: single runs that match the explorer's filters, page by page."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.current import actor, services
from api.operation import Answer, Content, Operation, documents
from api.reply import answered, reply
from runtally.access.scopes import Scope, demand
from runtally.errors import Forbidden, InvalidFilter, QueryTooSlow, StoreUnavailable
from runtally.fields import camel
from runtally.runs.read import read_page
from runtally.runs.values import Position
from runtally.usage.filter import NAMES, RunFilter

blueprint = Blueprint("api_runs", __name__, url_prefix="/api/runs")

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


class AnsweredRun(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """A run, as lists show it."""

    project_id: str
    id: str
    occurred_at: datetime
    provider: str
    model: str
    status: str
    error_code: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    latency_ms: int | None
    time_to_first_token_ms: int | None
    cost_usd: Annotated[
        msgspec.Raw | None, Meta(description="null: not known yet.", extra_json_schema={"type": "number"})
    ] = msgspec.field(name="costUSD")
    cost_estimated: bool | None
    without_usage: bool | None
    experiment_id: str | None
    trace_id: str | None
    session_id: str | None
    user_id: str | None
    is_archived: bool


class Runs(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """A page of runs, the newest first."""

    ok: Literal[True] = True
    runs: tuple[AnsweredRun, ...]
    next_before: Annotated[
        str | None, Meta(description="`before` of the next page, also where few runs matched so far; null on the last.")
    ]
    left_out: Annotated[str | None, Meta(description="Why archived runs are missing; null where none are.")]


@blueprint.get("")
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
    sent = request.args.to_dict()
    before = sent.pop("before", None)
    asked = sent.pop("projectId", actor().project_id)
    demand(actor(), Scope.RUNS_READ, asked)
    run_filter = RunFilter.parse_strictly({**sent, _PROJECT: asked or ""})
    position = Position.parse(before, None)
    async with services().cells.snapshots(asked) as snapshots:
        page = await read_page(snapshots.run_sources, run_filter, services().clock(), position)
    older = page.older.token if page.older else None
    return reply(
        Runs(runs=tuple(answered(AnsweredRun, run) for run in page.runs), next_before=older, left_out=page.problem)
    )
