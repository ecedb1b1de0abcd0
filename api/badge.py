"""GET /api/badge/experiment/{id}."""

from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta
from quart import Blueprint
from werkzeug.http import parse_etags
from werkzeug.routing import BaseConverter

from api.access import public
from api.badge_answer import SVG, BadgeRequest, BadgeStatus, Format, ShieldsEndpoint, badge_for
from api.endpoint import endpoint
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply
from api.request import Request
from runtally.errors import InvalidFormat, StoreBusy, StoreUnavailable, UnknownExperiment

blueprint = Blueprint("badge", __name__, url_prefix="/api/badge")

CONVERTER = "experiment"

# Clients that have the same badge send the same header.
_etags = lru_cache(256)(parse_etags)


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
    accept, accept_encoding = request.headers.get("accept"), request.headers.get("accept-encoding")
    asked = BadgeRequest(experiment_id, request.query, accept, accept_encoding)
    badge = await badge_for(asked, request.services.cells.verdicts)
    headers = dict(badge.headers)
    if _etags(request.headers.get("if-none-match")).contains_weak(badge.etag):
        return Reply(b"", 304, headers)
    if badge.is_packed:
        headers["Content-Encoding"] = "gzip"
    return Reply(badge.body, 200, headers)
