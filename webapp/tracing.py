"""What every request has: an id, in its answer and in every log line written meanwhile; a log line; a place in the counts.

Around the whole application, so that it sees what was really sent, also when the application itself failed. Never a
path, a query, a header or a body: what is logged of a request are its method, the pattern of its route and its size.
"""

import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Self, TypeAlias

import structlog
from prometheus_client import Histogram
from quart import g, request

from runtally.ids import uuid7
from runtally.telemetry import REQUESTS

# ASGI, as far as it matters here: https://asgi.readthedocs.io/en/latest/specs/main.html
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = b"x-request-id"
UNMATCHED = "none"
# The client went away before there was an answer; the number that proxies log for that.
CLIENT_GONE = 499
# A method is a word of the client's choosing; others would let it choose a series or put its words into the log.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# An id that a proxy gave is kept, as long as it can do no harm in a log or a header.
_HARMLESS = re.compile(rb"[A-Za-z0-9._-]{1,64}")

log = structlog.get_logger()


class Exchange:
    """One request and its answer, as far as they may be told.

    In whose task it is entered: what is logged until its end has its id, and then it is told itself.
    """

    __slots__ = ("_started", "bytes_sent", "error", "method", "request_id", "route", "status")

    def __init__(self, method: str, given_id: bytes) -> None:
        self.request_id = given_id.decode() if _HARMLESS.fullmatch(given_id) else uuid7().hex
        self.method = method if method in METHODS else "other"
        self.route = UNMATCHED
        self.status = CLIENT_GONE
        self.bytes_sent = 0
        self.error: str | None = None
        """Class of the error that became a 5xx."""
        self._started = time.perf_counter()

    def __enter__(self) -> Self:
        _exchange.set(self)
        structlog.contextvars.bind_contextvars(request_id=self.request_id)
        return self

    def __exit__(self, *_: object) -> None:
        _tell(self, time.perf_counter() - self._started)


_exchange: ContextVar[Exchange] = ContextVar("exchange")


class Tracing:
    """The application, with every exchange counted and logged."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), b"")
        with Exchange(scope["method"], given) as exchange:

            async def send_on(message: Message) -> None:
                if message["type"] == "http.response.start":
                    exchange.status = message["status"]
                    message["headers"] = [*message["headers"], (HEADER, exchange.request_id.encode())]
                elif message["type"] == "http.response.body":
                    exchange.bytes_sent += len(message["body"])
                await send(message)

            await self._app(scope, receive, send_on)


async def begin() -> None:
    """The hook that runs first: makes the id known to the application, and the route to the log."""
    g.request_id = _exchange.get().request_id
    if request.url_rule is not None:
        matched(request.url_rule.rule)


def matched(route: str) -> None:
    """Note the pattern of the route that answers."""
    _exchange.get().route = route


def failed(error: Exception) -> None:
    """Note what an answer's 5xx, if it becomes one, was for."""
    _exchange.get().error = type(error).__name__


@lru_cache
def _requests(method: str, route: str, status: int) -> Histogram:
    return REQUESTS.labels(method, route, str(status))


def _tell(exchange: Exchange, seconds: float) -> None:
    _requests(exchange.method, exchange.route, exchange.status).observe(seconds)
    is_error = exchange.status >= 500  # noqa: PLR2004  # Server errors.
    (log.warning if is_error else log.info)(
        "request",
        method=exchange.method,
        route=exchange.route,
        status=exchange.status,
        duration_ms=round(seconds * 1000, 1),
        bytes=exchange.bytes_sent if exchange.method != "HEAD" else 0,
        **({"error": exchange.error} if is_error else {}),
    )
