"""GET /api/badge/experiment/{id}."""

from typing import Annotated

import msgspec
from msgspec import Meta
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue
from werkzeug.routing import BaseConverter

from api.access import public
from api.badge_answer import SVG, Asking, BadgeStatus, Format, ShieldsEndpoint, badge_for
from api.current import services
from api.operation import Answer, Content, Operation, documents
from runtally.errors import InvalidFormat, StoreBusy, StoreUnavailable, UnknownExperiment

blueprint = Blueprint("badge", __name__, url_prefix="/api/badge")

CONVERTER = "experiment"
_PATH = f"/experiment/<{CONVERTER}:experiment_id>"
RULE = f"{blueprint.url_prefix}{_PATH}"


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


@blueprint.get(_PATH)
@public
@documents(BADGE)
async def get_badge(experiment_id: str) -> ResponseReturnValue:
    """Whether an experiment holds its thresholds, as a badge for a README, or as JSON for a build that depends on it.

    Nothing is shown but the label and the verdict. JSON is 404 for an experiment that is unknown, has too few runs or is
    private, so that a gate stays closed; an image says `unknown` then.
    """
    asking = Asking(experiment_id, request.args, request.headers.get("Accept"), request.headers.get("Accept-Encoding"))
    badge = await badge_for(asking, services().verdicts)
    response = Response(badge.body, content_type=badge.content_type, headers=dict(badge.headers))
    response.set_etag(badge.etag)
    return await response.make_conditional(request)
