"""Turns of readers: each has two questions to a database at once, so that one who asks many leaves connections to the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from runtally.errors import RateLimited

AT_ONCE = 2
MOST_WAITING = 50
"""Further questions of a reader that wait; more are refused."""

_reader: ContextVar[str | None] = ContextVar("reader", default=None)
_held: ContextVar[frozenset[int]] = ContextVar("turns that are held", default=frozenset())


def use(reader: str | None) -> None:
    """Take turns as this reader for the rest of this request; None, as jobs and commands do, takes none."""
    _reader.set(reader)


@dataclass(slots=True)
class _Turn:
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    questions: int = 0


class Turns:
    """The turns of the readers of a database."""

    def __init__(self) -> None:
        self._of: dict[str, _Turn] = {}

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for a place; a request that has one needs no second. Raises `RateLimited`."""
        reader = _reader.get()
        if reader is None or id(self) in _held.get():
            yield
            return
        turn = self._of.setdefault(reader, _Turn())
        if turn.questions >= AT_ONCE + MOST_WAITING:
            raise RateLimited(
                f"{MOST_WAITING} questions of yours wait already: ask again when they are answered.",
                retry_after_seconds=1,
            )
        turn.questions += 1
        try:
            async with turn.places:
                _held.set(_held.get() | {id(self)})
                try:
                    yield
                finally:
                    _held.set(_held.get() - {id(self)})
        finally:
            turn.questions -= 1
            if not turn.questions:
                del self._of[reader]
