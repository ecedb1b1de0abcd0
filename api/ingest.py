"""POST /api/ingest."""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from quart import Blueprint

from api.auth import ingest_actor_at_hand, ingest_key
from api.endpoint import endpoint
from api.limits import ingest_key_for, ingest_limit, ingest_rate, refuse_unless_granted
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply, Success, reply
from api.request import Request, opened, sent_request
from runtally.errors import (
    BatchTooLarge,
    BodyTooLarge,
    BodyTooSlow,
    InvalidJson,
    InvalidPayload,
    MissingProjectId,
    RuntallyError,
    StoreBusy,
    UnsupportedMediaType,
)
from runtally.fields import camel
from runtally.ingest.accept import LARGE_BYTES, OnError, Receipt, RejectedRun
from runtally.ingest.wire import Batch, SingleRun
from runtally.limits.rate import Decision
from runtally.waiter import Then, Waiter

blueprint = Blueprint("ingest", __name__, url_prefix="/api")

Duplicates = Annotated[int, Meta(ge=1, description="How many of the runs were stored before; they are unchanged.")]
Warnings = Annotated[
    tuple[str, ...],
    Meta(description="What was dropped: prompt_dropped, completion_dropped, metadata_content_dropped and the like."),
]


class IngestQuery(msgspec.Struct, frozen=True, rename=camel):
    """The treatment of a batch."""

    on_error: Annotated[
        OnError, Meta(description="`skip` stores the good runs of a batch and lists the others in `rejected`.")
    ] = OnError.REFUSE


class IngestedRun(Success, frozen=True, kw_only=True):
    """The run is committed."""

    id: Annotated[str, Meta(description="Identity of the run: the runId that was sent, else a UUIDv7.")]
    duplicates: Duplicates | UnsetType = UNSET
    warnings: Warnings | UnsetType = UNSET


class IngestedBatch(Success, frozen=True, kw_only=True):
    """The runs are committed."""

    processed: Annotated[int, Meta(ge=0, description="How many runs are stored now, duplicates included.")]
    ids: Annotated[tuple[str, ...], Meta(description="Their identities, in the order sent.")]
    duplicates: Duplicates | UnsetType = UNSET
    warnings: Warnings | UnsetType = UNSET
    rejected: (
        Annotated[tuple[RejectedRun, ...], Meta(description="With onError=skip: the runs that were left out.")]
        | UnsetType
    ) = UNSET


_RUN = {
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
    "inputTokens": 1200,
    "outputTokens": 350,
    "latencyMs": 2140,
    "status": "success",
}
INGEST = Operation(
    tag="Runs",
    query=IngestQuery,
    body=Content(
        (Annotated[SingleRun, Meta(extra_json_schema={"not": {"required": ["runs"]}})], Batch),
        {
            "One run": {"projectId": "shop", **_RUN},
            "A batch": {
                "projectId": "shop",
                "runs": [
                    {**_RUN, "runId": "checkout-1", "timestamp": "2026-11-20T09:30:00Z", "traceId": "4bf92f3577b34da6"},
                    {**_RUN, "runId": "checkout-2", "status": "timeout", "metadata": {"region": "eu"}},
                ],
            },
        },
    ),
    answers={
        200: Answer(
            "What was sent is committed.",
            (
                Content(
                    (IngestedRun, IngestedBatch),
                    {
                        "One run": {"ok": True, "id": "019a9f4e-7c30-7d0c-8f4e-3f2a1b5c6d7e"},
                        "A batch, of which one run was known": {
                            "ok": True,
                            "processed": 2,
                            "ids": ["checkout-1", "checkout-2"],
                            "duplicates": 1,
                        },
                    },
                ),
            ),
        )
    },
    raises=(
        InvalidJson,
        MissingProjectId,
        BodyTooSlow,
        BodyTooLarge,
        UnsupportedMediaType,
        InvalidPayload,
        BatchTooLarge,
        StoreBusy,
    ),
)


def _begin(request: Request, answer: Waiter[Reply]) -> bool:
    """Begin what `post_ingest` does; what is wrong before it is counted is left to that."""
    services, body, actor = request.services, request.sent, ingest_actor_at_hand(request)
    if actor is None or services.cells.directory is not None or not isinstance(body, bytes):
        return False
    rate = ingest_rate(services.settings)

    def counted(decision: Decision) -> None:
        request.actor, request.decision = actor, decision
        refuse_unless_granted(decision)
        on_error = OnError.parse(request.query.get("onError"))
        services.cells.main.ingest.begin(sent, by=actor, on_error=on_error, receipt=Then(stored, answer))

    def stored(receipt: Receipt) -> None:
        answer.set_result(reply(_answer_to(receipt)))

    try:
        sent = opened(request, body)
        key = ingest_key_for(actor.project_id or sent.project_id, request.address, rate)
        if len(sent.body) > LARGE_BYTES or services.limiter.refusal(key, rate) is not None:
            return False
        services.limiter.ask(key, rate, Then(counted, answer))
    except RuntallyError:
        return False
    return True


@blueprint.post("/ingest")
@partial(endpoint, at_once=_begin)
@ingest_key
@ingest_limit
@documents(INGEST)
async def post_ingest(request: Request) -> Reply:
    """Store one run or a batch; 200 means committed.

    A body with `runs` is a batch, any other a single run; either may be sent with `Content-Encoding: gzip`. A run with
    a `runId` that is stored already changes nothing, so a request can always be sent again.

    422 lists every field that breaks its constraint; nothing is stored then, unless `onError=skip` keeps the good runs
    of a batch. Fields that the server does not know are ignored.
    """
    on_error = OnError.parse(request.query.get("onError"))
    sent = await request.once(sent_request)
    return reply(_answer_to(await request.services.ingest.accept(sent, by=request.actor, on_error=on_error)))


def _answer_to(receipt: Receipt) -> IngestedRun | IngestedBatch:
    duplicates, warnings = receipt.duplicates or UNSET, receipt.warnings or UNSET
    if not receipt.is_batch:
        return IngestedRun(id=receipt.ids[0], duplicates=duplicates, warnings=warnings)
    return IngestedBatch(
        processed=len(receipt.ids),
        ids=receipt.ids,
        duplicates=duplicates,
        warnings=warnings,
        rejected=UNSET if receipt.rejected is None else receipt.rejected,
    )
