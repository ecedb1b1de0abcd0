"""Answers in parts whose reader hardly reads are broken off: what is held for them would be held for as long as they like.

A reader may stop for a minute, and be slower than `LEAST_BYTES_PER_SECOND` for as long as that makes up for no more than a minute.
"""

import asyncio
from time import monotonic

import structlog

from webapp.tracing import Application, Message, Receive, Scope, Send

LEAST_BYTES_PER_SECOND = 8 * 1024
PATIENCE_SECONDS = 60.0
# The server takes a part at once when it has sent most of what came before; of a large one nobody would know how much is sent.
PART_BYTES = 64 * 1024

log = structlog.get_logger()


class Pace:
    """How long the reader of one answer may still keep it waiting."""

    def __init__(self, patience_seconds: float, least_bytes_per_second: float) -> None:
        self._most = self._left = patience_seconds
        self._least = least_bytes_per_second

    def allows(self, size: int) -> float:
        """Return the seconds that the next part may take."""
        return self._left + size / self._least

    def took(self, size: int, seconds: float) -> None:
        """Note that a part was taken: what was quick makes up for what was slow, but is not kept for later."""
        self._left = min(self.allows(size) - seconds, self._most)


class LeastPace:
    """The application, with an end to readers who are too slow."""

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
            # What is whole is the server's at once.
            if not message.get("more_body"):
                await send(message)
                return
            body = message["body"]
            for start in range(0, len(body), PART_BYTES):
                await _send(send, {**message, "body": body[start : start + PART_BYTES]}, pace)

        await self._app(scope, receive, send_in_time)


async def _send(send: Send, message: Message, pace: Pace) -> None:
    """Raises `TimeoutError`, upon which Quart ends the answer, and the server hangs up on what is no whole one."""
    size, began_at = len(message["body"]), monotonic()
    try:
        async with asyncio.timeout(pace.allows(size)):
            await send(message)
    except TimeoutError:
        log.warning("reader_too_slow")
        raise
    pace.took(size, monotonic() - began_at)
