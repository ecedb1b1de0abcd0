"""GET /api/badge/experiment/{id}."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue
from werkzeug.datastructures import MIMEAccept
from werkzeug.routing import BaseConverter

from api.access import public
from api.badge_image import svg_of
from api.current import services
from api.operation import Answer, Content, Operation, documents
from api.reply import reply
from runtally.errors import InvalidFormat, StoreUnavailable, UnknownExperiment
from runtally.experiments.badge import COLOURS, Style, cleaned
from runtally.experiments.read import Question
from runtally.experiments.verdict import Outcome
from runtally.fields import camel

blueprint = Blueprint("badge", __name__, url_prefix="/api/badge")

SVG = "image/svg+xml"
CONVERTER = "experiment"
MAX_AGE_SECONDS = 60
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Format(StrEnum):
    SVG = "svg"
    JSON = "json"
    SHIELDS = "shields"


class ExperimentId(BaseConverter):
    """An id may hold slashes, at its start as well, and any other character."""

    regex = "(?s:.+)"
    part_isolating = False


class BadgePath(msgspec.Struct, frozen=True):
    """Which experiment."""

    experiment_id: Annotated[
        str,
        Meta(description="The `experimentId` of its runs, with `.svg` or `.json` after it or nothing.", min_length=1),
    ]


class BadgeQuery(msgspec.Struct, frozen=True):
    """Which experiment it is when the id is not enough, and how its verdict is shown."""

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


class BadgeStatus(msgspec.Struct, frozen=True):
    """Whether every threshold that is set holds."""

    status: Literal["pass", "fail"]


class ShieldsEndpoint(msgspec.Struct, frozen=True, rename=camel):
    """What the endpoint badge of shields.io is made from."""

    label: str
    message: Literal["pass", "fail", "unknown"]
    color: Literal["brightgreen", "red", "lightgrey"]
    schema_version: Literal[1] = 1


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
    raises=(InvalidFormat, UnknownExperiment, StoreUnavailable),
)


@blueprint.get(f"/experiment/<{CONVERTER}:experiment_id>")
@public
@documents(BADGE)
async def get_badge(experiment_id: str) -> ResponseReturnValue:
    """Whether an experiment holds its thresholds, as a badge for a README, or as JSON for a build that depends on it.

    Nothing is shown but the label and the verdict. JSON is 404 for an experiment that is unknown, has too few runs or is
    private, so that a gate stays closed; an image says `unknown` then.
    """
    asked = _asked_for(experiment_id)
    question = Question(asked.experiment_id, request.args.get("project"), request.args.get("token"))
    verdict = await services().verdicts.verdict(question)
    outcome = verdict.outcome if verdict else Outcome.UNKNOWN
    label = cleaned(request.args.get("label", asked.experiment_id))
    return await _cacheable(_answer(asked.format, outcome, label), asked.vary)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the URL asks for, and the headers that decided where it does not."""

    experiment_id: str
    format: Format
    vary: tuple[str, ...] = ("Accept-Encoding",)


def _asked_for(path: str) -> _Asked:
    """Raises `InvalidFormat`, also where a suffix makes the parameter idle."""
    try:
        said = Format(request.args["format"]) if "format" in request.args else None
    except ValueError:
        raise InvalidFormat from None
    for suffix in (Format.SVG, Format.JSON):
        if path.endswith(f".{suffix}") and len(path) > len(suffix) + 1:
            return _Asked(path.removesuffix(f".{suffix}"), suffix)
    if said:
        return _Asked(path, said)
    preferred = Format.JSON if prefers_json(request.accept_mimetypes) else Format.SVG
    return _Asked(path, preferred, ("Accept", "Accept-Encoding"))


def prefers_json(accept: MIMEAccept) -> bool:
    """Whether JSON outranks images and HTML: by its quality, and by being named where the others are but covered."""
    json = _rank(accept, "application/json", "application/*", "*/*")
    return json > max(_rank(accept, "image/*", "*/*"), _rank(accept, "text/html", "text/*", "*/*"))


def _rank(accept: MIMEAccept, *ranges: str) -> tuple[float, int]:
    """The best of these ranges that the header has: its quality, and how exact it is."""
    found = []
    for value, quality in accept:
        name = value.partition(";")[0].strip().casefold()
        range_ = "image/*" if name.startswith("image/") else name
        if range_ in ranges:
            found.append((quality, -ranges.index(range_)))
    return max(found, default=(0.0, 0))


def _answer(format_: Format, outcome: Outcome, label: str) -> Response:
    """Raises `UnknownExperiment` where JSON has no word for it."""
    if format_ is Format.SHIELDS:
        return reply(ShieldsEndpoint(label=label, message=outcome.value, color=COLOURS[outcome].value))
    if format_ is Format.JSON:
        if outcome is Outcome.UNKNOWN:
            raise UnknownExperiment
        return reply(BadgeStatus("pass" if outcome is Outcome.PASS else "fail"))
    svg = svg_of(outcome, label, Style.parse(request.args.get("style")))
    return Response(svg, content_type=SVG, headers={"Content-Security-Policy": POLICY})


async def _cacheable(response: Response, vary: Iterable[str]) -> Response:
    """With what caches need; 304 without a body for a client that has the answer already."""
    body = await response.get_data(as_text=False)
    # Who takes gzip may get other bytes: a strong tag must not be the same for both.
    packed = request.accept_encodings.quality("gzip") > 0
    tag = hashlib.sha256(f"{response.content_type} {packed} ".encode() + body).hexdigest()[:32]
    response.set_etag(tag)
    response.headers["Cache-Control"] = f"max-age={MAX_AGE_SECONDS}"
    response.headers["Vary"] = ", ".join(vary)
    return await response.make_conditional(request)
