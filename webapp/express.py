"""The express lanes: a plain POST of runs, by a client or by the relay, is answered before Quart.

Quart's request and response cost more time than decoding, pricing and storing a run do.

They decide nothing: each step is a call of what the route's own hooks call, in their order. Whatever is in any way out of the
ordinary, such as a project key, gzip, a query, a body that comes in pieces, goes on to Quart as if it had not been looked at.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from quart import Quart
from werkzeug.exceptions import RequestTimeout

from api import ingest, pg_sync
from api.auth import INGEST, is_any_of, refuse_unless_signed
from api.current import EXTENSION
from api.errors import refusal
from api.limits import ingest_key_for, ingest_rate, limit_headers, refuse_unless_granted, wrong_keys_of
from api.reply import JSON, encoded
from runtally.errors import RuntallyError
from runtally.ingest.decode import read_envelope
from runtally.reporting.document import SIGNATURE_HEADER
from runtally.reporting.push import PATH
from runtally.services import Services
from webapp import tracing
from webapp.hosts import is_foreign
from webapp.security import headers_for
from webapp.tracing import Application, Message, Receive, Scope, Send

_PLAIN_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})

SIGNATURE = SIGNATURE_HEADER.lower().encode()

Headers = Mapping[bytes, bytes]


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_ALWAYS = {is_secure: _raw(headers_for(is_secure=is_secure) | {"Content-Type": JSON}) for is_secure in (False, True)}


@dataclass(frozen=True, slots=True)
class _Request:
    """A request whose body is still to come."""

    scope: Scope
    headers: Headers
    services: Services

    @property
    def address(self) -> str | None:
        client = self.scope.get("client")
        return client[0] if client else None

    @property
    def key(self) -> str:
        scheme, _, key = self.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return key.strip() if scheme.casefold() == "bearer" else ""


@dataclass(frozen=True, slots=True)
class _Lane:
    """For whom it is, and what is done with a body; what is to be said in headers goes into the mapping."""

    is_for: Callable[[_Request], bool]
    take: Callable[[_Request, bytes, dict[str, str]], Awaitable[bytes]]


class ExpressLane:
    """Quart's application, with a shorter way beside it."""

    def __init__(self, app: Application, quart: Quart) -> None:
        self._app = app
        self._extensions = quart.extensions
        self._config = quart.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lane = LANES.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        services: Services | None = self._extensions.get(EXTENSION)
        if lane is not None and services is not None:
            request = _Request(scope, dict(scope["headers"]), services)
            if _is_plain(request) and lane.is_for(request):
                try:
                    async with asyncio.timeout(self._config["BODY_TIMEOUT"]):
                        message = await receive()
                except TimeoutError:
                    await _refuse(scope, RequestTimeout(), send)
                    return
                if message["type"] == "http.request" and not message.get("more_body"):
                    await _answer(lane, request, message.get("body", b""), send)
                    return
                receive = _again(message, receive)
        await self._app(scope, receive, send)


def _is_plain(request: _Request) -> bool:
    """Whether there is nothing to a request but its body: no query, nothing said twice, nothing packed."""
    scope, headers, settings = request.scope, request.headers, request.services.settings
    length = headers.get(b"content-length", b"")
    return (
        not scope["query_string"]
        and len(headers) == len(scope["headers"])
        and headers.get(b"content-type", b"").lower() in _PLAIN_JSON
        and b"content-encoding" not in headers
        and length.isdigit()
        and int(length) <= settings.max_body_bytes
        and not is_foreign(headers.get(b"host", b"").decode("latin-1"), settings)
    )


def _again(message: Message, receive: Receive) -> Receive:
    """As `receive`, from before the message was taken."""
    taken = [message]

    async def receive_again() -> Message:
        return taken.pop() if taken else await receive()

    return receive_again


async def _answer(lane: _Lane, request: _Request, body: bytes, send: Send) -> None:
    headers: dict[str, str] = {}
    try:
        answer = await lane.take(request, body, headers)
    except Exception as error:  # noqa: BLE001  # As Quart's handler of errors does.
        await _refuse(request.scope, error, send, headers)
    else:
        await _send(request.scope, 200, answer, headers, send)


async def _refuse(scope: Scope, error: Exception, send: Send, headers: Mapping[str, str] | None = None) -> None:
    tracing.failed(error)
    refused = refusal(error)
    await _send(scope, refused.status, refused.body, {**(headers or {}), **refused.headers}, send)


async def _send(scope: Scope, status: int, answer: bytes, headers: Mapping[str, str], send: Send) -> None:
    # The pattern of the route: there is nothing variable in these paths.
    tracing.matched(scope["path"])
    sized = {**headers, "Content-Length": str(len(answer))}
    always = _ALWAYS[scope["scheme"] == "https"]
    await send({"type": "http.response.start", "status": status, "headers": [*_raw(sized), *always]})
    await send({"type": "http.response.body", "body": answer})


def _has_shared_key(request: _Request) -> bool:
    """A shared key that is right, from an address that may still send keys."""
    settings = request.services.settings
    wrong_keys, rate = wrong_keys_of(request.address, settings)
    return bool(
        request.key
        and request.services.limiter.refusal(wrong_keys, rate) is None
        and is_any_of(request.key, settings.ingest_api_key)
    )


async def _take_runs(request: _Request, body: bytes, headers: dict[str, str]) -> bytes:
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


def _is_signed(request: _Request) -> bool:
    return SIGNATURE in request.headers and bool(request.services.settings.service_sync_sign)


async def _take_document(request: _Request, body: bytes, _headers: dict[str, str]) -> bytes:
    signature = request.headers[SIGNATURE].decode("latin-1")
    refuse_unless_signed(body, signature, request.services.settings.service_sync_sign)
    return encoded(pg_sync.answer_to(await request.services.reporting.accept(body)))


LANES: Mapping[str, _Lane] = {
    "/api/ingest": _Lane(_has_shared_key, _take_runs),
    PATH: _Lane(_is_signed, _take_document),
}
