"""POST /api/ingest."""

from typing import cast

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import ingest_key
from api.current import services
from api.reply import ok
from runtally.errors import UnsupportedMediaType
from runtally.ingest.accept import OnError, Receipt
from runtally.ingest.decode import inflate

blueprint = Blueprint("ingest", __name__, url_prefix="/api")


@blueprint.post("/ingest")
@ingest_key
async def post_ingest() -> ResponseReturnValue:
    """Store one run or a batch; 200 means committed.

    422 lists every field that breaks its constraint; nothing is stored then, unless `onError=skip` keeps the good runs
    of a batch.
    """
    on_error = OnError.parse(request.args.get("onError"))
    receipt = await services().ingest.accept(await _json_body(), on_error)
    return ok(_answer(receipt))


async def _json_body() -> bytes:
    if request.mimetype != "application/json" and not request.mimetype.endswith("+json"):
        raise UnsupportedMediaType
    body = cast(bytes, await request.get_data(cache=False))
    encoding = request.headers.get("Content-Encoding", "identity").strip().casefold()
    if encoding in {"gzip", "x-gzip"}:
        return inflate(body, services().settings.max_body_bytes)
    if encoding not in {"identity", ""}:
        raise UnsupportedMediaType("Send the body plain, or with Content-Encoding: gzip.")
    return body


def _answer(receipt: Receipt) -> dict[str, object]:
    answer: dict[str, object] = (
        {"processed": len(receipt.ids), "ids": receipt.ids} if receipt.is_batch else {"id": receipt.ids[0]}
    )
    if receipt.duplicates:
        answer["duplicates"] = receipt.duplicates
    if receipt.warnings:
        answer["warnings"] = receipt.warnings
    if receipt.rejected:
        answer["rejected"] = receipt.rejected
    return answer
