"""Tells a server that hangs from one that is slow: by whether it answers somebody new. Only who waits for long has it asked."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import structlog

# Nearly everything that is asked takes less.
SLOW_SECONDS = 1.0

log = structlog.get_logger()


class Watch:
    """Over all that waits for one server; `ask` raises `TimeoutError` where that does not answer."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self._under_way: dict[object, Callable[[], None]] = {}
        self._asking: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, hang_up: Callable[[], None]) -> Iterator[None]:
        """Around what waits; `hang_up` ends the wait when the server is found to hang."""
        key = object()
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._look)
        self._under_way[key] = hang_up
        try:
            yield
        finally:
            timer.cancel()
            del self._under_way[key]

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def _look(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._find_out())

    async def _find_out(self) -> None:
        try:
            await self._ask()
        except TimeoutError:
            log.warning("database_hangs")
            for hang_up in list(self._under_way.values()):
                # Of one that is dead already the driver says so; whoever comes behind it must not wait for that.
                with suppress(Exception):
                    hang_up()
        except Exception:  # noqa: BLE001  # A refusal is an answer: whoever waits is told of it, or gets what they wait for.
            return
