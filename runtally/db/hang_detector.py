"""Tell a server that hangs from a slow one: probe it over a new connection once a request has waited long."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import structlog

# Nearly every query takes less.
SLOW_SECONDS = 1.0

log = structlog.get_logger()


class HangDetector:
    """Ends all waits for one server when it hangs; `probe` raises `TimeoutError` if the server does not answer.

    Of several servers it returns the number of the one that answers; waiting for another is useless.
    """

    def __init__(self, probe: Callable[[], Awaitable[int]]) -> None:
        self._probe = probe
        self._under_way: dict[object, tuple[int, Callable[[], None]]] = {}
        self._checking: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, hang_up: Callable[[], None], server: int = 0) -> Iterator[None]:
        """Wrap a wait for the server of that number; `hang_up` ends it when the server is found to hang."""
        key = object()
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._start_check)
        self._under_way[key] = server, hang_up
        try:
            yield
        finally:
            timer.cancel()
            del self._under_way[key]

    def hang_up(self) -> None:
        """End all waits, because the server is known to hang."""
        self._end_waits(None)

    def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()

    def _start_check(self) -> None:
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        answering = None
        try:
            answering = await self._probe()
        except TimeoutError:
            log.warning("database_hangs")
        except Exception:  # noqa: BLE001  # A refusal is an answer, so the server does not hang.
            return
        self._end_waits(answering)

    def _end_waits(self, answering: int | None) -> None:
        """End all waits for other servers than this one."""
        for server, hang_up in list(self._under_way.values()):
            if server != answering:
                # The driver raises for a connection that is already dead; the next ones must be ended all the same.
                with suppress(Exception):
                    hang_up()
