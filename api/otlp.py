"""The OTLP receiver: traces and logs, and metrics for exporters that send them unasked.

The same views answer under several paths: the one that exporters add to a host, one for proxies that pass only /api,
one with the project for clients that cannot set headers, and one where Langfuse's SDKs and LiteLLM post.
"""

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from api.limits import ingest_key_for, ingest_rate, refuse_unless_granted
from api.operation import Answer, Content, Operation, documents
from api.otlp_answers import JSON, PROTOBUF, Exported, RpcStatus, Signal, exported, is_json
from api.otlp_body import drop_body, read_body, refuse_other_types
from api.otlp_key import named_project, otlp_key
from api.reply import reply
from runtally.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Forbidden,
    InvalidOtlp,
    StoreBusy,
    StoreUnavailable,
    UnsupportedMediaType,
)
from runtally.otlp.clients import select_counted
from runtally.otlp.origins import ProjectRule
from runtally.otlp.receive import Outcome, Sender
from runtally.runs.queries import select_projects

blueprint = Blueprint("otlp", __name__)

BASES = ("", "/api/otlp", "/api/otlp/p/<path:project_id>", "/api/public/otel")


class OtlpPath(msgspec.Struct, frozen=True):
    """A project in the path."""

    project_id: Annotated[str, Meta(pattern=r"^[^\x00-\x1f]+$", description="The project, percent-encoded.")]


class Organization(msgspec.Struct, frozen=True):
    """The organization that Langfuse's SDKs expect a project to have."""

    id: Literal["runtally"] = "runtally"
    name: Literal["Runtally"] = "Runtally"


class KnownProject(msgspec.Struct, frozen=True):
    """The project of the credentials, in the form that Langfuse's SDKs expect."""

    id: str
    name: str
    organization: Organization = Organization()
    metadata: dict[str, str] = {}


class KnownProjects(msgspec.Struct, frozen=True):
    """The projects of the credentials: always one."""

    data: tuple[KnownProject, ...]


_DECODED = dict[str, Any]
"""A decoded body. The specification names its fields; exporters write them with a library."""


def _taking(what: str, *body: Any) -> Operation:  # noqa: ANN401  # Types, as `Content` takes them.
    return Operation(
        tag="OTLP",
        path=OtlpPath,
        body=Content(body, also_as=(PROTOBUF,)),
        answers={200: Answer(what, (Content((Exported,), also_as=(PROTOBUF,)),))},
        raises=(InvalidOtlp, Forbidden, BodyTooSlow, BodyTooLarge, UnsupportedMediaType, StoreBusy),
        failure=Content((RpcStatus,), also_as=(PROTOBUF,)),
    )


@otlp_key
@documents(_taking("The model calls among the spans are committed, now or earlier.", _DECODED))
async def post_traces(project_id: str | None = None) -> ResponseReturnValue:
    """Store the model calls among OTLP spans; 200 means committed.

    The body is what an OpenTelemetry exporter writes. One call is one run, whichever instrumentations saw it; other spans are
    left out, and so is all content. Spans that break a constraint are counted in `partialSuccess`, and the others are stored.
    503 with `Retry-After` means to send the same again: runs that were stored already are recognised.
    """
    refuse_other_types()
    sender, source = await _counted(project_id)
    async with read_body(source) as body:
        outcome = await services().otlp.take_traces(body, sender, is_json=is_json(request.mimetype))
    return _answer("traces", outcome)


@otlp_key
@documents(_taking("The model calls that coding agents reported are committed, now or earlier.", _DECODED))
async def post_logs(project_id: str | None = None) -> ResponseReturnValue:
    """Store the model calls that coding agents report in log records; 200 means committed.

    Claude Code, Codex, Gemini CLI, Qwen Code and Cline do. All other records are accepted and not stored, since some SDKs send
    them by default.
    """
    refuse_other_types()
    sender, source = await _counted(project_id)
    async with read_body(source) as body:
        outcome = await services().otlp.take_logs(body, sender, is_json=is_json(request.mimetype))
    return _answer("logs", outcome)


@otlp_key
@documents(_taking("The metrics were read."))
async def post_metrics(project_id: str | None = None) -> ResponseReturnValue:
    """Accept OTLP metrics, which most exporters send by default, and store nothing: a metric does not tell its calls apart.

    Projects in `OTLP_METRICS` store the sums of an agent that reports nothing else, as runs with `metadata.aggregated`.
    """
    refuse_other_types()
    sender, source = await _counted(project_id)
    if not services().otlp.reads_metrics(sender.rule):
        await drop_body()
        return _answer("metrics", Outcome())
    async with read_body(source) as body:
        outcome = await services().otlp.take_metrics(body, sender, is_json=is_json(request.mimetype))
    return _answer("metrics", outcome)


@blueprint.get("/api/public/projects")
@otlp_key
@documents(
    Operation(
        tag="OTLP",
        answers={200: Answer("The key is right.", (Content((KnownProjects,)),))},
        raises=(Forbidden, StoreUnavailable),
    )
)
async def get_projects() -> ResponseReturnValue:
    """Return the project of the key, which Langfuse's SDKs ask for before they send.

    It is the key's own or the one that is named, and may have no run yet.
    """
    project_id = named_project(None) or services().otlp.default_project
    async with services().cells.of(project_id).intake.connection() as connection:
        names = await select_projects(connection, [project_id])
    return reply(KnownProjects((KnownProject(project_id, names.get(project_id, project_id)),)))


for _base in BASES:
    for _signal, _view in (("traces", post_traces), ("logs", post_logs), ("metrics", post_metrics)):
        _path = f"{_base}/v1/{_signal}"
        blueprint.add_url_rule(_path, f"{_view.__name__}_{BASES.index(_base)}", _view, methods=["POST"])


async def _counted(project_id: str | None) -> tuple[Sender, str]:
    """Return the sender, and whom its large bodies wait for. Where a project is named, the request is counted for it now.

    Otherwise each call says its project, and the request is counted once it was read. Raises `Forbidden` and `RateLimited`.
    """
    named = named_project(project_id)
    if named is not None:
        await _admit([named])
    rule = ProjectRule(named, services().otlp.default_project)
    sender = Sender(
        actor(), request.headers.get("User-Agent", ""), rule, _admit if named is None else _admitted, _count
    )
    return sender, ingest_key_for(named, request.remote_addr, ingest_rate(services().settings))


async def _admitted(_: Collection[str]) -> None:
    """Do nothing: the request was counted before it was read."""


async def _admit(project_ids: Collection[str]) -> None:
    """Count the request once for each of these projects, as ingest does. Raises `RateLimited`."""
    rate = ingest_rate(services().settings)
    for project_id in project_ids:
        decision = await services().limiter.take(ingest_key_for(project_id, request.remote_addr, rate), rate)
        refuse_unless_granted(decision)


async def _count(project_id: str, series: Collection[str]) -> dict[str, dict[str, int]]:
    """Read the tokens that the runs of each series have."""
    async with services().cells.of(project_id).intake.connection() as connection:
        return await select_counted(connection, project_id, series)


def _answer(signal: Signal, outcome: Outcome) -> Response:
    as_json = is_json(request.mimetype)
    body = exported(signal, rejected=outcome.rejected, message=outcome.message, as_json=as_json)
    return Response(body, 200, {"Content-Type": JSON if as_json else PROTOBUF, "Cache-Control": "no-store"})
