"""Deliver answers that begin before the whole request has arrived, such as 401 and 413.

When a server closes the connection while a client is still sending, the client's system discards unread data, including
the answer. So the rest of the request is read and dropped first, up to a limit. Streamed answers to readers that are too slow
are broken off, because an answer's memory is held until it ends: a reader may stop for a minute in total, and be slower than
`LEAST_BYTES_PER_SECOND` for as long as that costs no more than a minute.
"""

import asyncio
from contextlib import suppress
from time import monotonic

import structlog

from webapp.server.tracing import Application, Message, Receive, Scope, Send

# The same limits as nginx's (lingering_time, lingering_timeout).
LINGER_SECONDS = 30.0
SILENT_SECONDS = 5.0
# A dozen times the largest body, by default.
LINGER_BYTES = 64 * 1024 * 1024

_CLOSE = (b"connection", b"close")


class Lingering:
    """Middleware whose early answers close the connection only after the rest of the request was read and dropped."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, asks_first=any(name == b"expect" for name, _ in scope["headers"]))
        await self._app(scope, exchange.receive, exchange.send)
        await exchange.end()


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


class _Exchange:
    """A request with a body, and its answer."""

    __slots__ = ("_asks_first", "_is_held", "_is_reading", "_is_whole", "_lingers", "_receive", "_send")

    def __init__(self, receive: Receive, send: Send, *, asks_first: bool) -> None:
        self._receive = receive
        self._send = send
        self._asks_first = asks_first
        """Whether the client waits for permission to send its body, which reading would give."""
        self._is_reading = False
        self._is_whole = False
        """Whether the whole request has arrived."""
        self._lingers = False
        self._is_held = False
        """Whether the end of the answer, at which a server closes the connection, is held back."""

    async def receive(self) -> Message:
        self._is_reading = True
        try:
            message = await self._receive()
        finally:
            self._is_reading = False
        self._is_whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._lingers = not (self._is_whole or await self._is_here())
            if self._lingers and _CLOSE not in message["headers"]:
                message["headers"] = [*message["headers"], _CLOSE]
        elif self._lingers and not message.get("more_body", False):
            self._is_held = True
            message = {**message, "more_body": True}
        await self._send(message)

    async def _is_here(self) -> bool:
        """Return whether the whole request has arrived unread: then the connection can be kept."""
        if not (self._asks_first or self._is_reading):
            reading = asyncio.ensure_future(self.receive())
            await asyncio.sleep(0)
            reading.cancel()
        return self._is_whole

    async def end(self) -> None:
        if self._is_held:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._drop_rest()
            await self._send({"type": "http.response.body", "body": b""})

    async def _drop_rest(self) -> None:
        dropped = 0
        while not self._is_whole and dropped < LINGER_BYTES:
            async with asyncio.timeout(SILENT_SECONDS):
                message = await self.receive()
            dropped += len(message.get("body", b""))


LEAST_BYTES_PER_SECOND = 8 * 1024
PATIENCE_SECONDS = 60.0
# The server takes a part once it has sent most of the one before; with larger parts the progress would be invisible.
PART_BYTES = 64 * 1024

log = structlog.get_logger()


class Pace:
    """The time that the reader of one answer may still lose."""

    def __init__(self, patience_seconds: float, least_bytes_per_second: float) -> None:
        self._most = self._left = patience_seconds
        self._least = least_bytes_per_second

    def allows(self, size: int) -> float:
        """Return the seconds that the next part may take."""
        return self._left + size / self._least

    def took(self, size: int, seconds: float) -> None:
        """Record how long a part took: a quick part makes up for a slow one, but is not saved for later."""
        self._left = min(self.allows(size) - seconds, self._most)


class LeastPace:
    """Middleware that ends answers to readers who are too slow."""

    def __init__(
        self,
        app: Application,
        patience_seconds: float = PATIENCE_SECONDS,
        least_bytes_per_second: float = LEAST_BYTES_PER_SECOND,
    ) -> None:
        self._app = app
        self._patience_seconds = patience_seconds
        self._least = least_bytes_per_second

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        pace = Pace(self._patience_seconds, self._least)

        async def send_in_time(message: Message) -> None:
            # A complete answer is handed to the server at once.
            if not message.get("more_body"):
                await send(message)
                return
            body = message["body"]
            for start in range(0, len(body), PART_BYTES):
                await _send(send, {**message, "body": body[start : start + PART_BYTES]}, pace)

        await self._app(scope, receive, send_in_time)


async def _send(send: Send, message: Message, pace: Pace) -> None:
    """Send a part. Raises `TimeoutError`, upon which Quart ends the answer and the server closes the connection."""
    size, began_at = len(message["body"]), monotonic()
    try:
        async with asyncio.timeout(pace.allows(size)):
            await send(message)
    except TimeoutError:
        log.warning("reader_too_slow")
        raise
    pace.took(size, monotonic() - began_at)
