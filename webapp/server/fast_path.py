"""Answer endpoints before Quart, whose request and response cost more than decoding, pricing and storing a run."""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from quart import Quart

from api.current import EXTENSION
from api.endpoint import Endpoint, endpoint_of
from api.reply import Reply
from api.request import ClientGone, Request
from runtally.errors import BodyTooLarge, BodyTooSlow
from runtally.services import Services
from webapp.server.hosts import is_foreign
from webapp.server.protocol import WHOLE
from webapp.server.tracing import Application, Receive, Scope, Send, matched


class _Below(NamedTuple):
    """The endpoint of all paths below a prefix; the rest of the path is a named variable."""

    endpoint: Endpoint
    pattern: str
    base: bytes
    variable: str


class Found(NamedTuple):
    """A request, and the endpoint that answers it."""

    request: Request
    endpoint: Endpoint
    pattern: str
    """The pattern of the route."""
    path: Mapping[str, str]
    """The variable parts of the path."""


class FastPath:
    """Middleware that answers requests to the endpoints of Quart's application itself, and passes on all others.

    A path must be written byte by byte as its route: programs disagree on what `//api/ingest` or `/%61pi/ingest` is.
    """

    def __init__(self, app: Application, quart: Quart) -> None:
        self._app = app
        self._quart = quart
        self._at: dict[tuple[str, bytes], tuple[Endpoint, str, Mapping[str, str]]] = {}
        self._below: dict[str, list[_Below]] = {}
        for rule in quart.url_map.iter_rules():
            endpoint = endpoint_of(quart.view_functions[rule.endpoint])
            base, _, variable = rule.rule.partition("<")
            # HEAD, which Quart adds to GET, is left to Quart; so is a variable in the middle of a path.
            for method in (rule.methods or set()) - {"HEAD"}:
                if endpoint is not None and not variable:
                    self._at[method, base.encode()] = endpoint, rule.rule, {}
                elif endpoint is not None and variable.endswith(">") and variable.count(">") == 1:
                    below = _Below(endpoint, rule.rule, base.encode(), variable[:-1].rpartition(":")[2])
                    self._below.setdefault(method, []).append(below)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.find(scope, receive) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        matched(found.pattern)
        try:
            reply = await found.endpoint(found.request, **found.path)
        except ClientGone:
            return
        await send_reply(reply, send)

    def find(self, scope: Scope, receive: Receive) -> Found | None:
        """Return the endpoint of a request; None if Quart must answer it."""
        services: Services | None = self._quart.extensions.get(EXTENSION)
        at = self._at.get((scope["method"], scope.get("raw_path") or b"")) or self._found_below(scope)
        if at is None or services is None:
            return None
        request = Request(
            scope, services, lambda: self._body(request, receive, is_whole=WHOLE in scope.get("extensions", ()))
        )
        if is_foreign(request.headers.get("host", ""), services.settings):
            # Quart answers what is wrong with the path.
            return None
        return Found(request, *at)

    def _found_below(self, scope: Scope) -> tuple[Endpoint, str, Mapping[str, str]] | None:
        path = scope.get("raw_path") or b""
        for each in self._below.get(scope["method"], ()):
            if path.startswith(each.base) and len(path) > len(each.base):
                return each.endpoint, each.pattern, {each.variable: scope["path"][len(each.base) :]}
        return None

    async def _body(self, request: Request, receive: Receive, *, is_whole: bool) -> bytes:
        """Read the body. Raises `BodyTooLarge`, `BodyTooSlow` and `ClientGone`."""
        limit = request.services.settings.max_body_bytes
        if int(request.headers.get("content-length", "0")) > limit:
            raise BodyTooLarge
        if is_whole:
            return await _received(receive, limit)
        try:
            async with asyncio.timeout(self._quart.config["BODY_TIMEOUT"]):
                return await _received(receive, limit)
        except TimeoutError:
            raise BodyTooSlow from None


async def _received(receive: Receive, limit: int) -> bytes:
    pieces, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit:
            raise BodyTooLarge
        more = message.get("more_body", False)
    return b"".join(pieces)


async def send_reply(reply: Reply, send: Send) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": headers_of(reply)})
    await send({"type": "http.response.body", "body": reply.body})


def headers_of(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply as ASGI has them, with the length of its body."""
    headers = [_encoded(*header) for header in reply.headers.items()]
    if reply.status != HTTPStatus.NOT_MODIFIED:
        headers.append((b"content-length", b"%d" % len(reply.body)))
    return headers


# Most headers of most answers are the same.
@lru_cache
def _encoded(name: str, value: str) -> tuple[bytes, bytes]:
    return name.lower().encode("latin-1"), value.encode("latin-1")
