"""A request and its answer as far as they may be told: in a log line, and in the counts.

Never a path, a query, a header or a body: what is logged of a request are its method, the pattern of its route and its size.
"""

import re
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from http import HTTPStatus
from typing import Self, cast

import structlog
from prometheus_client import Histogram

from runtally import COMMAND_AGENT, RELAY_AGENT
from runtally.ids import uuid7
from runtally.telemetry import REQUESTS

UNMATCHED = "none"
# The client went away before there was an answer; the number that proxies log for that.
CLIENT_GONE = 499
# A method is a word of the client's choosing; others would let it choose a series or put its words into the log.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# An id that a proxy gave is kept, as long as it can do no harm in a log or a header.
_HARMLESS = re.compile(rb"[A-Za-z0-9._-]{1,64}")

_OWN_AGENTS = (COMMAND_AGENT.encode(), RELAY_AGENT.encode())

log = structlog.get_logger()


class Exchange:
    """One request and its answer.

    Until its end, what the task logs that entered it has its id; at its end it is logged and counted itself.
    """

    __slots__ = ("_started", "bytes_sent", "error", "is_own", "method", "request_id", "route", "status")

    def __init__(self, method: str, given_id: bytes, agent: bytes = b"") -> None:
        self.request_id = given_id.decode() if _HARMLESS.fullmatch(given_id) else uuid7().hex
        self.method = method if method in METHODS else "other"
        self.is_own = agent.startswith(_OWN_AGENTS)
        """Whether one of our own programs sent it."""
        self.route = UNMATCHED
        """The pattern of the route that answers."""
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


_exchange: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


def current_exchange() -> Exchange | None:
    """None for an answer to what is no request."""
    return _exchange.get()


def note_error(error: Exception) -> None:
    """Note what the answer's 5xx, if it becomes one, is for."""
    exchange = _exchange.get()
    if exchange is not None:
        exchange.error = type(error).__name__


@lru_cache
def _requests(method: str, route: str, status: int) -> Histogram:
    return REQUESTS.labels(method, route, str(status))


def _writer_of(exchange: Exchange) -> Callable[..., None]:
    """The log's level: our own programs send very many requests and report their progress, so what succeeds is no news."""
    if exchange.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return cast(Callable[..., None], log.warning)
    succeeded = exchange.status < HTTPStatus.BAD_REQUEST
    return cast(Callable[..., None], log.debug if exchange.is_own and succeeded else log.info)


def _tell(exchange: Exchange, seconds: float) -> None:
    _requests(exchange.method, exchange.route, exchange.status).observe(seconds)
    is_error = exchange.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    _writer_of(exchange)(
        "request",
        method=exchange.method,
        route=exchange.route,
        status=exchange.status,
        duration_ms=round(seconds * 1000, 1),
        bytes=exchange.bytes_sent if exchange.method != "HEAD" else 0,
        **({"error": exchange.error} if is_error else {}),
    )
