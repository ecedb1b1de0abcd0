"""The express lane of ingest: a plain POST /api/ingest is answered before Quart.

Quart's request and response cost more time than decoding, pricing and storing a run do.

It decides nothing: each step is a call of what the route's own hooks call, in their order. Whatever is in any way out of the
ordinary, such as a project key, gzip, a query, a body that comes in pieces, goes on to Quart as if it had not been looked at.
"""

import asyncio
from collections.abc import Mapping

from quart import Quart
from werkzeug.exceptions import RequestTimeout

from api.auth import INGEST, is_any_of
from api.current import EXTENSION
from api.errors import refusal
from api.ingest import answer_to
from api.limits import ingest_key_for, ingest_rate, limit_headers, refuse_unless_granted, wrong_keys_of
from api.reply import JSON, encoded
from runtally.errors import RuntallyError
from runtally.ingest.decode import read_envelope
from runtally.services import Services
from webapp import tracing
from webapp.hosts import is_foreign
from webapp.security import headers_for
from webapp.tracing import Application, Message, Receive, Scope, Send

ROUTE = "/api/ingest"
_PLAIN_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})

Headers = Mapping[bytes, bytes]


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_ALWAYS = {is_secure: _raw(headers_for(is_secure=is_secure) | {"Content-Type": JSON}) for is_secure in (False, True)}


class ExpressLane:
    """Quart's application, with a shorter way beside it."""

    def __init__(self, app: Application, quart: Quart) -> None:
        self._app = app
        self._extensions = quart.extensions
        self._config = quart.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == ROUTE and scope["method"] == "POST":
            services: Services | None = self._extensions.get(EXTENSION)
            if services is not None and _is_ordinary(scope, services):
                try:
                    async with asyncio.timeout(self._config["BODY_TIMEOUT"]):
                        message = await receive()
                except TimeoutError:
                    await _refuse(scope, RequestTimeout(), send)
                    return
                if message["type"] == "http.request" and not message.get("more_body"):
                    await _answer(scope, message.get("body", b""), services, send)
                    return
                receive = _again(message, receive)
        await self._app(scope, receive, send)


def _is_ordinary(scope: Scope, services: Services) -> bool:
    """Whether there is nothing to a request but its body: a shared key that is right, no query, nothing packed."""
    headers = dict(scope["headers"])
    if (
        scope["query_string"]
        or len(headers) < len(scope["headers"])
        or headers.get(b"content-type", b"").lower() not in _PLAIN_JSON
        or b"content-encoding" in headers
        or not _fits(headers.get(b"content-length", b""), services)
        or is_foreign(headers.get(b"host", b"").decode("latin-1"), services.settings)
    ):
        return False
    key = _key_in(headers)
    wrong_keys, rate = wrong_keys_of(_address(scope), services.settings)
    return bool(
        key and services.limiter.refusal(wrong_keys, rate) is None and is_any_of(key, services.settings.ingest_api_key)
    )


def _fits(length: bytes, services: Services) -> bool:
    return length.isdigit() and int(length) <= services.settings.max_body_bytes


def _key_in(headers: Headers) -> str:
    scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return key.strip() if scheme.casefold() == "bearer" else ""


def _address(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


def _again(message: Message, receive: Receive) -> Receive:
    """As `receive`, from before the message was taken."""
    taken = [message]

    async def receive_again() -> Message:
        return taken.pop() if taken else await receive()

    return receive_again


async def _answer(scope: Scope, body: bytes, services: Services, send: Send) -> None:
    headers: dict[str, str] = {}
    try:
        answer = await _take_in(body, _address(scope), services, headers)
    except Exception as error:  # noqa: BLE001  # As Quart's handler of errors does.
        await _refuse(scope, error, send, headers)
    else:
        await _send(scope, 200, answer, headers, send)


async def _refuse(scope: Scope, error: Exception, send: Send, headers: Mapping[str, str] | None = None) -> None:
    tracing.failed(error)
    refused = refusal(error)
    await _send(scope, refused.status, refused.body, {**(headers or {}), **refused.headers}, send)


async def _send(scope: Scope, status: int, answer: bytes, headers: Mapping[str, str], send: Send) -> None:
    tracing.matched(ROUTE)
    sized = {**headers, "Content-Length": str(len(answer))}
    always = _ALWAYS[scope["scheme"] == "https"]
    await send({"type": "http.response.start", "status": status, "headers": [*_raw(sized), *always]})
    await send({"type": "http.response.body", "body": answer})


async def _take_in(body: bytes, address: str | None, services: Services, headers: dict[str, str]) -> bytes:
    """The answer to a body whose runs are stored. What is wrong with a body is said after it was counted."""
    rate = ingest_rate(services.settings)
    try:
        sent = read_envelope(body)
    except RuntallyError as error:
        await _count(ingest_key_for(None, address, rate), services, headers)
        raise error from None
    await _count(ingest_key_for(sent.project_id, address, rate), services, headers)
    return encoded(answer_to(await services.ingest.accept(sent, by=INGEST)))


async def _count(key: str, services: Services, headers: dict[str, str]) -> None:
    decision = await services.limiter.take(key, ingest_rate(services.settings))
    headers |= limit_headers(decision)
    refuse_unless_granted(decision)
