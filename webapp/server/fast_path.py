"""Answer endpoints from the bytes of a whole request, plainly written, without ASGI and Quart, which cost more than a run.

What middleware and hooks do to other requests is done here in one step: request id, log and security headers. An endpoint
that can answers without a task.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from quart import Quart
from uvicorn import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api.current import EXTENSION
from api.endpoint import Endpoint, completed, endpoint_of
from api.errors import refusal
from api.exchange import Exchange
from api.reply import Reply
from api.request import Request, texts_of
from runtally.settings import Settings
from webapp.server.hosts import is_foreign
from webapp.server.plain_heads import PlainHead, plain_head
from webapp.server.security_headers import with_usual
from webapp.server.tracing import HEADER, Application, Receive, Scope, Send, exchange_of

Headers = list[tuple[bytes, bytes]]
Write = Callable[[int, Headers, bytes], None]
STATE = "runtally.fast_path"
"""The name of the fast path in the state of the lifespan."""
# Clients send the same heads again and again.
_MAX_REMEMBERED = 1024


class _Below(NamedTuple):
    """The endpoint of all paths below a prefix; the rest of the path is a named variable."""

    endpoint: Endpoint
    pattern: str
    base: bytes
    variable: str


class Asked(NamedTuple):
    """The head of a request to an endpoint."""

    endpoint: Endpoint
    pattern: str
    """The pattern of the route."""
    variables: Mapping[str, str]
    """The variable parts of the path."""
    scope: Scope
    texts: Mapping[str, str]
    head: PlainHead


class FastPath:
    """Middleware with the endpoints of Quart's application, by path, for the server's connections.

    A path must be written byte by byte as its route: programs disagree on what `//api/ingest` or `/%61pi/ingest` is.
    """

    def __init__(self, app: Application, quart: Quart, settings: Settings) -> None:
        self._app = app
        self._quart = quart
        self._settings = settings
        self._heads: dict[tuple[bytes, object], Asked] = {}
        self._at: dict[tuple[bytes, bytes], tuple[Endpoint, str, Mapping[str, str]]] = {}
        self._below: dict[bytes, list[_Below]] = {}
        for rule in quart.url_map.iter_rules():
            endpoint = endpoint_of(quart.view_functions[rule.endpoint])
            base, _, variable = rule.rule.partition("<")
            # HEAD, which Quart adds to GET, is left to Quart; so is a variable in the middle of a path.
            for method in (rule.methods or set()) - {"HEAD"}:
                if endpoint is not None and not variable:
                    self._at[method.encode(), base.encode()] = endpoint, rule.rule, {}
                elif endpoint is not None and variable.endswith(">") and variable.count(">") == 1:
                    below = _Below(endpoint, rule.rule, base.encode(), variable[:-1].rpartition(":")[2])
                    self._below.setdefault(method.encode(), []).append(below)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Offer this to the connections of the server when it starts; all that comes later is for the application."""
        if scope["type"] == "lifespan":
            scope.get("state", {})[STATE] = self
        await self._app(scope, receive, send)

    def asked(self, head: bytes, client: tuple[str, int] | None, scheme: str | None, config: Config) -> Asked | None:
        """Return what the bytes of a head ask for; None if that is not answered here."""
        key = head, client and client[0]
        known = self._heads.get(key)
        if known is None and (known := self._read(head, client, scheme, config)):
            if len(self._heads) == _MAX_REMEMBERED:
                self._heads.clear()
            self._heads[key] = known
        return known

    def _read(self, head: bytes, client: tuple[str, int] | None, scheme: str | None, config: Config) -> Asked | None:
        plain = plain_head(head)
        at = self._endpoint_at(plain) if plain is not None and EXTENSION in self._quart.extensions else None
        if plain is None or at is None:
            return None
        texts = texts_of(plain.headers)
        if plain.length > self._settings.max_body_bytes or is_foreign(texts["host"], self._settings):
            # Quart answers what is wrong with them.
            return None
        scope: dict[str, object] = {"type": "http", "method": plain.method.decode(), "client": client, "scheme": scheme}
        scope.update(headers=plain.headers, query_string=plain.query)
        if config.proxy_headers:
            _believe_proxies(scope, config)
        return Asked(*at, scope, texts, plain)

    def _endpoint_at(self, head: PlainHead) -> tuple[Endpoint, str, Mapping[str, str]] | None:
        raw, path, base = head.raw_path, head.path, self._settings.base_path
        if base and raw.startswith(f"{base}/".encode()):
            raw, path = raw[len(base) :], path[len(base) :]
        at = self._at.get((head.method, raw))
        for each in self._below.get(head.method, ()) if at is None else ():
            if raw.startswith(each.base) and len(raw) > len(each.base):
                return each.endpoint, each.pattern, {each.variable: path[len(each.base) :]}
        return at

    def answer(self, asked: Asked, body: bytes, write: Write) -> asyncio.Task[None] | None:
        """Begin to answer by `write`, which takes status, headers and body. Returns the task that answers, if one does."""
        exchange = exchange_of(asked.scope)
        exchange.route = asked.pattern
        exchange.resume()
        request = Request(asked.scope, self._quart.extensions[EXTENSION], asked.texts, body)
        answering = _Answering(asked, request, exchange, write)
        try:
            if asked.endpoint.at_once is not None and asked.endpoint.at_once(request, answering):
                return None
        except Exception as error:  # noqa: BLE001  # As where a task answers.
            answering.set_exception(error)
            return None
        return asyncio.get_running_loop().create_task(answering.by_task())


def _believe_proxies(scope: Scope, config: Config) -> None:
    """Put the client that a trusted proxy reports into the scope."""

    async def nothing_more(*_: object) -> None: ...

    proxies: Any = ProxyHeadersMiddleware(nothing_more, config.forwarded_allow_ips)
    with suppress(StopIteration):
        # It waits for nothing, so this is all of it.
        proxies(scope, None, None).send(None)


class _Answering:
    """A request that is being answered, which waits for its reply."""

    __slots__ = ("_asked", "_exchange", "_request", "_write")

    def __init__(self, asked: Asked, request: Request, exchange: Exchange, write: Write) -> None:
        self._asked, self._request, self._exchange, self._write = asked, request, exchange, write

    async def by_task(self) -> None:
        self.set_result(await self._asked.endpoint(self._request, **self._asked.variables))

    def done(self) -> bool:
        return False

    def set_result(self, reply: Reply, /) -> None:
        reply, exchange = completed(reply, self._request), self._exchange
        exchange.status, exchange.bytes_sent = reply.status, len(reply.body)
        headers = with_usual(headers_of(reply), is_secure=self._asked.scope["scheme"] == "https")
        headers.append((HEADER, exchange.request_id.encode()))
        self._write(reply.status, headers, reply.body)
        # A log that cannot be written costs no answer of those that wait behind this one.
        with suppress(OSError), exchange:
            pass

    def set_exception(self, error: Exception, /) -> None:
        self._exchange.resume()
        self.set_result(refusal(error))


def headers_of(reply: Reply) -> Headers:
    """Return the headers of a reply as a connection writes them, with the length of its body."""
    headers = [_encoded(*header) for header in reply.headers.items()]
    if reply.status != HTTPStatus.NOT_MODIFIED:
        headers.append((b"content-length", b"%d" % len(reply.body)))
    return headers


# Most headers of most answers are the same.
@lru_cache
def _encoded(name: str, value: str) -> tuple[bytes, bytes]:
    return name.lower().encode("latin-1"), value.encode("latin-1")
