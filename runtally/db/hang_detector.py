"""Tell a server that hangs from a slow one: probe it over a new connection, once somebody has waited long."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import structlog

# Nearly every query takes less.
SLOW_SECONDS = 1.0

log = structlog.get_logger()


class HangDetector:
    """Ends all waits for one server when it hangs; `probe` raises `TimeoutError` if the server does not answer."""

    def __init__(self, probe: Callable[[], Awaitable[None]]) -> None:
        self._probe = probe
        self._under_way: dict[object, Callable[[], None]] = {}
        self._checking: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, hang_up: Callable[[], None]) -> Iterator[None]:
        """Wrap a wait; `hang_up` ends it when the server is found to hang."""
        key = object()
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._start_check)
        self._under_way[key] = hang_up
        try:
            yield
        finally:
            timer.cancel()
            del self._under_way[key]

    def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()

    def _start_check(self) -> None:
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        try:
            await self._probe()
        except TimeoutError:
            log.warning("database_hangs")
            for hang_up in list(self._under_way.values()):
                # The driver raises for a connection that is already dead; the next ones must be ended all the same.
                with suppress(Exception):
                    hang_up()
        except Exception:  # noqa: BLE001  # A refusal is an answer, so the server does not hang.
            return
