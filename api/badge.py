"""GET /api/badge/experiment/{id}: a verdict as an image or as JSON, over Quart or the fast path."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Meta
from quart import Blueprint
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header, parse_etags, unquote_etag
from werkzeug.routing import BaseConverter

from api.access import public
from api.endpoint import endpoint
from api.operation import Answer, Content, Operation, documents
from api.reply import JSON, Reply, encoded, gzipped, takes_gzip
from api.request import Request
from runtally.errors import InvalidFormat, StoreBusy, StoreUnavailable, UnknownExperiment
from runtally.experiments.badge import COLOURS, Badge, Style, badge_of, cleaned
from runtally.experiments.read import Question
from runtally.experiments.verdict import Outcome
from runtally.fields import camel, trimmed
from runtally.files import ROOT

# Not the pages' environment, which renders asynchronously and has other globals.
_templates = Environment(
    loader=FileSystemLoader(ROOT / "templates" / "badges"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def svg_of(outcome: Outcome, label: str, style: Style) -> bytes:
    """The badge of a verdict."""
    return drawn(badge_of(outcome, label, style))


def drawn(badge: Badge) -> bytes:
    """The badge, drawn by the template of its style."""
    return _templates.get_template(f"{badge.style}.svg").render(badge=badge).encode()


SVG = "image/svg+xml"
CACHE_CONTROL = "max-age=60"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# Browsers and proxies send few different headers.
_KEPT_HEADERS = 64
# Every reader of a README requests the same badge.
_KEPT_BADGES = 1024
# Clients that have the same badge send the same header.
_etags = lru_cache(256)(parse_etags)


class Format(StrEnum):
    SVG = "svg"
    JSON = "json"
    SHIELDS = "shields"


class BadgeStatus(msgspec.Struct, frozen=True):
    """The verdict on an experiment: whether every threshold that is set holds."""

    status: Literal["pass", "fail"]


class ShieldsEndpoint(msgspec.Struct, frozen=True, rename=camel):
    """The JSON from which shields.io makes its endpoint badge."""

    label: str
    message: Literal["pass", "fail", "unknown"]
    color: Literal["brightgreen", "red", "lightgrey"]
    schema_version: Literal[1] = 1


@lru_cache(_KEPT_BADGES)
def _badge(  # noqa: PLR0913  # All that a badge depends on.
    format_: Format, vary: tuple[str, ...], outcome: Outcome, label: str, style: Style, *, is_packed: bool
) -> Reply:
    """Make the answer with a verdict. Raises `UnknownExperiment` where its format has no word for it."""
    if format_ is Format.SVG:
        body, headers = svg_of(outcome, label, style), {"Content-Type": SVG, "Content-Security-Policy": POLICY}
    else:
        body, headers = encoded(_json_of(format_, outcome, label)), {"Content-Type": JSON}
    # A client that accepts gzip may get other bytes: a strong tag must not be the same for both.
    etag = hashlib.sha256(f"{headers['Content-Type']} {is_packed} ".encode() + body).hexdigest()[:32]
    headers |= {"Cache-Control": CACHE_CONTROL, "Vary": ", ".join(vary), "ETag": f'"{etag}"'}
    packed = gzipped(body) if is_packed else None
    return Reply(body, 200, headers) if packed is None else Reply(packed, 200, headers | {"Content-Encoding": "gzip"})


def unless_known(request: Request, answer: Reply) -> Reply:
    """Return the answer, or 304 without its body where the request names its tag; the headers are copied, as it may be kept."""
    headers = dict(answer.headers)
    tag, _ = unquote_etag(headers["ETag"])
    if not _etags(request.headers.get("if-none-match")).contains_weak(tag):
        return answer._replace(headers=headers)
    headers.pop("Content-Encoding", None)
    return Reply(b"", 304, headers)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The format of the answer, and the request headers that decided it."""

    experiment_id: str
    format: Format
    vary: tuple[str, ...] = ("Accept-Encoding",)


def _asked_for(path: str, format_: str | None, accept: str | None) -> _Asked:
    """Find the format of the answer. Raises `InvalidFormat`, also if a suffix contradicts the parameter."""
    try:
        said = None if format_ is None else Format(format_)
    except ValueError:
        raise InvalidFormat from None
    for suffix in (Format.SVG, Format.JSON):
        if path.endswith(f".{suffix}") and len(path) > len(suffix) + 1:
            return _Asked(path.removesuffix(f".{suffix}"), suffix)
    if said:
        return _Asked(path, said)
    return _Asked(path, Format.JSON if prefers_json(accept) else Format.SVG, ("Accept", "Accept-Encoding"))


@lru_cache(_KEPT_HEADERS)
def prefers_json(accept: str | None) -> bool:
    """Return whether the Accept header prefers JSON to images and HTML, by quality and by how exact it is."""
    accepted = parse_accept_header(accept, MIMEAccept)
    json = _rank(accepted, "application/json", "application/*", "*/*")
    return json > max(_rank(accepted, "image/*", "*/*"), _rank(accepted, "text/html", "text/*", "*/*"))


def _rank(accept: MIMEAccept, *ranges: str) -> tuple[float, int]:
    """Return the best of these ranges in the header: its quality, and how exact it is."""
    found = []
    for value, quality in accept:
        name = value.partition(";")[0].strip().casefold()
        range_ = "image/*" if name.startswith("image/") else name
        if range_ in ranges:
            found.append((quality, -ranges.index(range_)))
    return max(found, default=(0.0, 0))


def _json_of(format_: Format, outcome: Outcome, label: str) -> BadgeStatus | ShieldsEndpoint:
    """Build the JSON of a verdict. Raises `UnknownExperiment` where it has no word for it."""
    if format_ is Format.SHIELDS:
        return ShieldsEndpoint(label=label, message=outcome.value, color=COLOURS[outcome].value)
    if outcome is Outcome.UNKNOWN:
        raise UnknownExperiment
    return BadgeStatus("pass" if outcome is Outcome.PASS else "fail")


blueprint = Blueprint("badge", __name__, url_prefix="/api/badge")

CONVERTER = "experiment"


class ExperimentId(BaseConverter):
    """Converts an id, which may hold slashes, also at its start, and any other character."""

    regex = "(?s:.+)"
    part_isolating = False


class BadgePath(msgspec.Struct, frozen=True):
    """The experiment of a badge."""

    experiment_id: Annotated[
        str,
        Meta(description="The `experimentId` of its runs, with `.svg` or `.json` after it or nothing.", min_length=1),
    ]


class BadgeQuery(msgspec.Struct, frozen=True):
    """The experiment where its id is ambiguous, and the look of the badge."""

    format: Annotated[
        Format | None, Meta(description="What to answer with; a suffix of the path wins over it, and it over `Accept`.")
    ] = None
    project: Annotated[str | None, Meta(description="The project, where several have an experiment of this id.")] = None
    token: Annotated[str | None, Meta(description="The token of a private experiment.")] = None
    label: Annotated[
        str | None, Meta(description="Text on the left, cut at 64 characters; the id without it, none when empty.")
    ] = None
    style: Annotated[str | None, Meta(description="`flat`, `flat-square` or `for-the-badge`; any other is flat.")] = (
        None
    )


BADGE = Operation(
    tag="Experiments",
    path=BadgePath,
    query=BadgeQuery,
    answers={
        200: Answer(
            "The verdict. As SVG and for shields.io, `unknown` is one too.",
            (
                Content((str,), {"An image": "<svg>…</svg>"}, SVG),
                Content(
                    (BadgeStatus, ShieldsEndpoint),
                    {
                        "format=json": {"status": "pass"},
                        "format=shields": {
                            "schemaVersion": 1,
                            "label": "prompt-v2",
                            "message": "pass",
                            "color": "brightgreen",
                        },
                    },
                ),
            ),
            {"ETag": "Changes with the answer.", "Cache-Control": "A verdict may be kept for a minute."},
        ),
        304: Answer("The verdict is the one that `If-None-Match` names."),
    },
    raises=(InvalidFormat, UnknownExperiment, StoreUnavailable, StoreBusy),
)


@blueprint.get(f"/experiment/<{CONVERTER}:experiment_id>")
@endpoint
@public
@documents(BADGE)
async def get_badge(request: Request, experiment_id: str) -> Reply:
    """Show the verdict on an experiment, as a badge for a README or as JSON for a build that depends on it.

    Nothing is shown but the label and the verdict. JSON is 404 for an experiment that is unknown, has too few runs or
    is private, so that a gate stays closed; an image says `unknown` then.
    """
    query, headers = request.query, request.headers
    asked = _asked_for(experiment_id, query.get("format"), headers.get("accept"))
    project_id = query.get("project")
    question = Question(trimmed(asked.experiment_id), project_id and trimmed(project_id), query.get("token"))
    verdict = await request.services.cells.verdicts.verdict(question)
    outcome, style = verdict.outcome if verdict else Outcome.UNKNOWN, Style.parse(query.get("style"))
    label, is_packed = cleaned(query.get("label", asked.experiment_id)), takes_gzip(headers.get("accept-encoding"))
    return unless_known(request, _badge(asked.format, asked.vary, outcome, label, style, is_packed=is_packed))
