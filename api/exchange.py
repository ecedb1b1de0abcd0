"""Log and count a request and its answer, without anything secret.

Path, query, headers and body are never logged: only the method, the pattern of the route and the size.
"""

import logging
import re
import time
from contextvars import ContextVar
from functools import lru_cache
from http import HTTPStatus
from typing import Self

from prometheus_client import Histogram

from runtally import COMMAND, RELAY, log
from runtally.ids import uuid7_digits
from runtally.telemetry import REQUESTS

UNMATCHED = "none"
# The status for a client that disconnected before the answer; proxies log the same number.
CLIENT_GONE = 499
# Clients may choose any word as a method; an unknown one must not create a series or appear in the log.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# An id that a proxy gave is kept if it is harmless in a log or a header.
_HARMLESS = re.compile(rb"[A-Za-z0-9._-]{1,64}")

_OWN_AGENTS = (COMMAND.encode(), RELAY.encode())


class Exchange:
    """One request and its answer.

    While it is entered, log events of its task have its id; at its end it is logged and counted.
    """

    __slots__ = ("_started", "bytes_sent", "error", "is_own", "method", "request_id", "route", "status")

    def __init__(self, method: str, given_id: bytes = b"", agent: bytes = b"") -> None:
        self.request_id = given_id.decode() if _HARMLESS.fullmatch(given_id) else uuid7_digits()
        self.method = method if method in METHODS else "other"
        self.is_own = agent.startswith(_OWN_AGENTS)
        """Whether one of our own programs sent it."""
        self.route = UNMATCHED
        """The pattern of the route that answers."""
        self.status = CLIENT_GONE
        self.bytes_sent = 0
        self.error: str | None = None
        """The class of the error that became a 5xx."""
        self._started = time.perf_counter()

    def resume(self) -> None:
        """Make this the exchange of the code that runs now, and of the tasks that it makes."""
        _exchange.set(self)
        log.request_id.set(self.request_id)

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        _report(self, time.perf_counter() - self._started)


_exchange: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


def current_exchange() -> Exchange | None:
    """Return the exchange of this task; None outside of a request."""
    return _exchange.get()


def note_error(error: Exception) -> None:
    """Record the error, in case the answer becomes a 5xx."""
    exchange = _exchange.get()
    if exchange is not None:
        exchange.error = type(error).__name__


@lru_cache
def _requests(method: str, route: str, status: int) -> Histogram:
    return REQUESTS.labels(method, route, str(status))


def _level_of(exchange: Exchange) -> int:
    """Choose the log level: successes of our own programs, which send many requests, are not logged."""
    if exchange.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return logging.WARNING
    return logging.DEBUG if exchange.is_own and exchange.status < HTTPStatus.BAD_REQUEST else logging.INFO


def _report(exchange: Exchange, seconds: float) -> None:
    _requests(exchange.method, exchange.route, exchange.status).observe(seconds)
    is_error = exchange.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    log.write_request(
        _level_of(exchange),
        method=exchange.method,
        route=exchange.route,
        status=exchange.status,
        duration_ms=round(seconds * 1000, 1),
        bytes=exchange.bytes_sent if exchange.method != "HEAD" else 0,
        **({"error": exchange.error} if is_error else {}),
    )
