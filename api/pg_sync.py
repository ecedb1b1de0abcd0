"""POST /api/internal/pg-sync."""

from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import sync_signature
from api.current import services
from api.operation import Answer, Content, Operation, documents
from api.reply import reply
from runtally.errors import (
    BodyTooLarge,
    BodyTooSlow,
    InvalidJson,
    InvalidPayload,
    StoreBusy,
    StoreUnavailable,
    UnsupportedMediaType,
)
from runtally.reporting.document import LiveRun
from runtally.reporting.sync import Synced

blueprint = Blueprint("pg_sync", __name__, url_prefix="/api/internal")


class SyncedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The reporting table has this version of the run, or a newer one."""

    ok: Literal[True] = True
    id: str
    applied: Annotated[bool, Meta(description="Whether the document was newer than what was there.")]


PG_SYNC = Operation(
    tag="Sync",
    body=Content(
        (LiveRun,),
        {
            "A run": {
                "projectId": "shop",
                "id": "checkout-1",
                "occurredAt": "2026-11-20T09:30:00Z",
                "provider": "anthropic",
                "model": "claude-sonnet-4-5",
                "status": "success",
                "inputTokens": 1200,
                "outputTokens": 350,
                "latencyMs": 2140,
                "costUSD": 0.00885,
                "costSource": "catalog",
                "costEstimated": False,
                "createdAt": "2026-11-20T09:30:02.125Z",
                "version": 1,
            }
        },
    ),
    answers={
        200: Answer(
            "The document was taken.",
            (Content((SyncedRun,), {"A newer version": {"ok": True, "id": "checkout-1", "applied": True}}),),
        )
    },
    raises=(
        InvalidJson,
        BodyTooSlow,
        BodyTooLarge,
        UnsupportedMediaType,
        InvalidPayload,
        StoreUnavailable,
        StoreBusy,
    ),
)


@blueprint.post("/pg-sync")
@sync_signature
@documents(PG_SYNC)
async def post_pg_sync() -> ResponseReturnValue:
    """Copy one live run into the reporting table; 200 means committed.

    A document whose `version` is not newer than what is there changes nothing, so replays, duplicates and documents
    that overtake each other do no harm. The time of the run is `occurredAt`, or `timestamp`; one of them is required.
    Fields that the server does not know are ignored.
    """
    return reply(answer_to(await services().reporting.accept(await _json_body())))


def answer_to(synced: Synced) -> SyncedRun:
    return SyncedRun(id=synced.id, applied=synced.applied)


async def _json_body() -> bytes:
    """The body that was signed: as it is, for unpacking it would be reading it."""
    if request.mimetype != "application/json" and not request.mimetype.endswith("+json"):
        raise UnsupportedMediaType
    if request.headers.get("Content-Encoding", "identity").strip().casefold() not in {"identity", ""}:
        raise UnsupportedMediaType("Send the document plain, without Content-Encoding.")
    return cast(bytes, await request.get_data())
