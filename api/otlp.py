"""The OTLP receiver: traces and logs, and metrics for exporters that send them unasked.

The same views answer under several paths: the one that exporters add to a host, one for proxies that pass only /api,
one with the project for clients that cannot set headers, and one where Langfuse's SDKs and LiteLLM post.

`OTEL_EXPORTER_OTLP_HEADERS` holds percent-encoded values, which only some SDKs decode; a client that knows only a user
and a password sends the project as the user.
"""

import binascii
from base64 import b64decode
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, cast
from urllib.parse import unquote

import msgspec
from msgspec import Meta
from quart import Blueprint, Response, g, request
from quart.typing import ResponseReturnValue

from api.access import AccessRule, access
from api.auth import ingest_holder
from api.current import actor, incoming, services
from api.limits import ingest_key_for, ingest_rate, refuse_unless_granted
from api.operation import Answer, Content, Operation, documents
from api.otlp_answers import JSON, PROTOBUF, Exported, RpcStatus, Signal, exported, is_json
from api.reply import reply
from api.request import Request
from runtally.audit import Actor
from runtally.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Forbidden,
    InvalidOtlp,
    StoreBusy,
    StoreUnavailable,
    UnsupportedMediaType,
)
from runtally.otlp.agents.files import Kept, select_kept
from runtally.otlp.bodies import ENCODINGS
from runtally.otlp.clients import select_counted
from runtally.otlp.origins import ProjectRule, valid_project
from runtally.otlp.receive import Outcome, Sender
from runtally.runs.queries import select_projects

PROJECT_HEADER = "x-runtally-project"


class Credentials(NamedTuple):
    """The credentials in the headers: the ways in which a key may have been written, and the user of Basic."""

    keys: tuple[str, ...]
    user: str


def read_credentials(authorization: str, api_key: str) -> Credentials:
    """Read the key of `Authorization`, else of `x-api-key`, percent-encoded or not."""
    keys: dict[str, None] = {}
    user = ""
    for written in (authorization, unquote(authorization)):
        scheme, _, value = written.strip().partition(" ")
        value = value.strip()
        if scheme.casefold() == "basic":
            user, _, value = _decoded(value).partition(":")
        elif scheme.casefold() != "bearer":
            continue
        keys |= dict.fromkeys(key for key in (value.strip(), unquote(value).strip()) if key)
    if not keys:
        keys = dict.fromkeys(key for key in (api_key.strip(), unquote(api_key).strip()) if key)
    return Credentials(tuple(keys), user)


def _decoded(value: str) -> str:
    try:
        return b64decode(value + "=" * (-len(value) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


async def sender(request: Request) -> Actor:
    """Return the holder of an ingest key. Raises what `ingest_holder` does."""
    credentials = read_credentials(request.headers.get("authorization", ""), request.headers.get("x-api-key", ""))
    g.basic_user = credentials.user
    return await ingest_holder(request, credentials.keys)


def named_project(in_path: str | None) -> str | None:
    """Return the project that the key or the request names. Raises `Forbidden` where they name different ones."""
    named = [
        project_id
        for sent in (in_path, _header(PROJECT_HEADER), g.basic_user)
        if (project_id := valid_project(sent)) is not None
    ]
    own = actor().project_id
    if own is not None and any(project_id != own for project_id in named):
        raise Forbidden("This key is another project's; name none, or use a key of that project.")
    return own if own is not None else next(iter(named), None)


def _header(name: str) -> str:
    """Return a header as text: percent-encoded, in UTF-8, or as it is."""
    sent = incoming().headers.get(name, "")
    with suppress(UnicodeError):
        sent = sent.encode("latin-1").decode()
    return unquote(sent)


otlp_key = access(AccessRule("otlp key", sender))


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
    async with services().cells.for_project(project_id).intake.connection() as connection:
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
    admit = _admit if named is None else _admitted
    sender = Sender(actor(), request.headers.get("User-Agent", ""), rule, admit, _count, _read_kept)
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
    async with services().cells.for_project(project_id).intake.connection() as connection:
        return await select_counted(connection, project_id, series)


async def _read_kept(project_id: str, sessions: Collection[str], since: datetime, until: datetime) -> list[Kept]:
    """Read the runs that agents' files have brought of these sessions."""
    async with services().cells.for_project(project_id).intake.connection() as connection:
        return await select_kept(connection, project_id, sessions, since, until)


def _answer(signal: Signal, outcome: Outcome) -> Response:
    as_json = is_json(request.mimetype)
    body = exported(signal, rejected=outcome.rejected, message=outcome.message, as_json=as_json)
    return Response(body, 200, {"Content-Type": JSON if as_json else PROTOBUF, "Cache-Control": "no-store"})


def refuse_other_types() -> None:
    """Raise `UnsupportedMediaType` for a type that is not OTLP, or a compression that is not supported."""
    if request.mimetype not in {PROTOBUF, JSON}:
        raise UnsupportedMediaType(f"Send OTLP as {PROTOBUF} or {JSON}; a Collector does with the exporter otlp_http.")
    if _encoding() not in ENCODINGS:
        raise UnsupportedMediaType("Send the body plain, or with Content-Encoding: gzip or deflate.")


@asynccontextmanager
async def read_body(sender: str) -> AsyncIterator[bytes]:
    """Read and decompress the body. Raises `BodyTooLarge`, `InvalidOtlp` and `StoreBusy`."""
    sent = cast(bytes, await request.get_data(cache=False))
    async with services().otlp.bodies.unpacked(sent, _encoding(), sender) as body:
        del sent
        yield body


async def drop_body() -> None:
    """Read the body to its end, and keep nothing of it."""
    async for _ in request.body:
        pass


def _encoding() -> str:
    return request.headers.get("Content-Encoding", "").strip().casefold()
