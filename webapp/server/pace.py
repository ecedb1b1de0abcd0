"""Break off streamed answers to readers that are too slow, because an answer's memory is held until it ends.

A reader may stop for a minute in total, and be slower than `LEAST_BYTES_PER_SECOND` for as long as that costs no more
than a minute.
"""

import asyncio
from time import monotonic

import structlog

from webapp.server.tracing import Application, Message, Receive, Scope, Send

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
