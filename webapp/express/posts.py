"""Runs that a client sends, and documents that the relay pushes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from werkzeug.exceptions import RequestTimeout

from api import ingest, pg_sync
from api.auth import INGEST, is_any_of, refuse_unless_signed
from api.limits import ingest_key_for, ingest_rate, limit_headers, refuse_unless_granted, wrong_keys_of
from api.reply import JSON, encoded
from runtally.errors import RuntallyError
from runtally.ingest.decode import read_envelope
from runtally.reporting.document import SIGNATURE_HEADER
from runtally.reporting.push import PATH as SYNC
from runtally.services import Services
from webapp.express.exchange import Answer, Request, refused
from webapp.tracing import Message, Receive, Send

_PLAIN_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})
_SIGNATURE = SIGNATURE_HEADER.lower().encode()


@dataclass(frozen=True, slots=True)
class _Lane:
    """For whom it is, and what is done with a body; what is to be said in headers goes into the mapping."""

    is_for: Callable[[Request], bool]
    take: Callable[[Request, bytes, dict[str, str]], Awaitable[bytes]]


async def take(request: Request, receive: Receive, send: Send, *, patience: float) -> Receive | None:
    """Answer the request; or, if it is out of the ordinary, nothing but what can be received of it.

    A body that does not come within `patience` seconds is not waited for.
    """
    lane = _LANES.get(request.scope["path"])
    if lane is None or not _is_plain(request) or not lane.is_for(request):
        return receive
    try:
        async with asyncio.timeout(patience):
            message = await receive()
    except TimeoutError:
        answer = refused(RequestTimeout(), {})
    else:
        if message["type"] != "http.request" or message.get("more_body"):
            return _again(message, receive)
        answer = await _answer(lane, request, message.get("body", b""))
    # The pattern of the route: there is nothing variable in these paths.
    await answer.send_to(request, send, route=request.scope["path"])
    return None


def _is_plain(request: Request) -> bool:
    """Whether there is nothing to a request but its body: no query, nothing packed."""
    headers, length = request.headers, request.headers.get(b"content-length", b"")
    return (
        not request.scope["query_string"]
        and headers.get(b"content-type", b"").lower() in _PLAIN_JSON
        and b"content-encoding" not in headers
        and length.isdigit()
        and int(length) <= request.services.settings.max_body_bytes
    )


def _again(message: Message, receive: Receive) -> Receive:
    """As `receive`, from before the message was taken."""
    taken = [message]

    async def receive_again() -> Message:
        return taken.pop() if taken else await receive()

    return receive_again


async def _answer(lane: _Lane, request: Request, body: bytes) -> Answer:
    headers: dict[str, str] = {}
    try:
        answer = await lane.take(request, body, headers)
    except Exception as error:  # noqa: BLE001  # As Quart's handler of errors does.
        return refused(error, headers)
    return Answer(200, answer, {"Content-Type": JSON, **headers})


def _has_shared_key(request: Request) -> bool:
    """A shared key that is right, from an address that may still send keys."""
    settings = request.services.settings
    wrong_keys, rate = wrong_keys_of(request.address, settings)
    return bool(
        request.key
        and request.services.limiter.refusal(wrong_keys, rate) is None
        and is_any_of(request.key, settings.ingest_api_key)
    )


async def _take_runs(request: Request, body: bytes, headers: dict[str, str]) -> bytes:
    """What is wrong with a body is said after it was counted."""
    services, rate = request.services, ingest_rate(request.services.settings)
    try:
        sent = read_envelope(body)
    except RuntallyError as error:
        await _count(ingest_key_for(None, request.address, rate), services, headers)
        raise error from None
    await _count(ingest_key_for(sent.project_id, request.address, rate), services, headers)
    return encoded(ingest.answer_to(await services.ingest.accept(sent, by=INGEST)))


async def _count(key: str, services: Services, headers: dict[str, str]) -> None:
    decision = await services.limiter.take(key, ingest_rate(services.settings))
    headers |= limit_headers(decision)
    refuse_unless_granted(decision)


def _is_signed(request: Request) -> bool:
    return _SIGNATURE in request.headers and bool(request.services.settings.service_sync_sign)


async def _take_document(request: Request, body: bytes, _headers: dict[str, str]) -> bytes:
    signature = request.headers[_SIGNATURE].decode("latin-1")
    refuse_unless_signed(body, signature, request.services.settings.service_sync_sign)
    return encoded(pg_sync.answer_to(await request.services.reporting.accept(body)))


_LANES: Mapping[str, _Lane] = {
    "/api/ingest": _Lane(_has_shared_key, _take_runs),
    SYNC: _Lane(_is_signed, _take_document),
}
