"""POST /api/internal/pg-sync."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from quart import Blueprint

from api.auth import sync_signature
from api.endpoint import endpoint
from api.errors import Problem, problem
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply, Success, reply
from api.request import Request
from runtally.errors import (
    BodyTooLarge,
    BodyTooSlow,
    InvalidJson,
    InvalidPayload,
    StoreBusy,
    StoreUnavailable,
    UnsupportedMediaType,
)
from runtally.reporting.document import LiveRun, RunBatch
from runtally.reporting.sync import RefusedDocument, Synced, SyncedBatch

blueprint = Blueprint("pg_sync", __name__, url_prefix="/api/internal")


class SyncedRun(Success, frozen=True, kw_only=True):
    """The reporting table has this version of the run, or a newer one."""

    id: str
    applied: Annotated[bool, Meta(description="Whether the document was newer than what was there.")]


class DocumentResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a document of a batch: `applied` if it was accepted, else `error`."""

    id: Annotated[str | None, Meta(description="Null if the document has none that can be read.")]
    applied: Annotated[bool, Meta(description="Whether it was newer than what was there.")] | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class SyncedRuns(Success, frozen=True, kw_only=True):
    """The results for the documents of a batch, in the order sent."""

    results: list[DocumentResult]


_RUN = {
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
PG_SYNC = Operation(
    tag="Sync",
    body=Content((LiveRun, RunBatch), {"A run": _RUN, "A batch": {"documents": [_RUN]}}),
    answers={
        200: Answer(
            "The document, or each of a batch that could be, was taken.",
            (
                Content(
                    (SyncedRun, SyncedRuns),
                    {
                        "A newer version": {"ok": True, "id": "checkout-1", "applied": True},
                        "A batch": {"ok": True, "results": [{"id": "checkout-1", "applied": True}]},
                    },
                ),
            ),
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
@endpoint
@sync_signature
@documents(PG_SYNC)
async def post_pg_sync(request: Request) -> Reply:
    """Copy live runs into the reporting table; 200 means committed.

    The body is one live run, or `documents`, a list of at most 500; the signature is of the whole body. Of a batch each
    document is taken or refused by itself: `results` says which, in the order sent.

    A document whose `version` is not newer than what is there changes nothing, so replays, duplicates and documents
    that overtake each other do no harm. The time of the run is `occurredAt`, or `timestamp`; one of them is required.
    Fields that the server does not know are ignored.
    """
    return reply(answer_to(await request.services.cells.main.reporting.accept(await _json_body(request))))


def answer_to(synced: Synced | SyncedBatch) -> SyncedRun | SyncedRuns:
    if isinstance(synced, Synced):
        return SyncedRun(id=synced.id, applied=synced.applied)
    return SyncedRuns(results=list(map(_result, synced)))


def _result(synced: Synced | RefusedDocument) -> DocumentResult:
    if isinstance(synced, Synced):
        return DocumentResult(id=synced.id, applied=synced.applied)
    return DocumentResult(id=synced.id, error=problem(synced.error))


async def _json_body(request: Request) -> bytes:
    """Return the signed body as it was sent: it must not be decompressed before its signature is verified."""
    if not request.is_json:
        raise UnsupportedMediaType
    if request.content_encoding != "identity":
        raise UnsupportedMediaType("Send the document plain, without Content-Encoding.")
    return await request.body()
