"""Decompress bodies of OTLP requests in steps, and limit how many large ones are processed at once."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from runtally.errors import BodyTooLarge, InvalidOtlp, StoreBusy

LARGE_BODY = 2 * 1024 * 1024
MAX_CONCURRENT = 2
"""The most large bodies that are processed at the same time."""
MAX_WAITING = 32
# Leaves room for the other projects.
MAX_OF_ONE = MAX_WAITING // 2
WAIT_SECONDS = 5.0
# The bytes that are unpacked before other requests have their turn.
_STEP = 512 * 1024
# Some clients write several gzip members; each costs a copy of the bytes after it, so their number is limited.
_MAX_MEMBERS = 128
_GZIP, _ZLIB = zlib.MAX_WBITS | 16, zlib.MAX_WBITS
# The last is what a Collector with `compression: zlib` writes.
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB, "zlib": _ZLIB}
_PLAIN = frozenset({"", "identity"})
ENCODINGS = _PLAIN | _WINDOWS.keys()
"""The values of Content-Encoding that are accepted."""


class LargeBodies:
    """Limits the large bodies of one process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns = asyncio.Semaphore(MAX_CONCURRENT)
        self._waiting = 0
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def unpacked(self, body: bytes, encoding: str, sender: str) -> AsyncIterator[bytes]:
        """Unpack the body; a large one holds one of the few places while the block runs, and a sender at most one of them.

        Raises `BodyTooLarge`, `InvalidOtlp`, and `StoreBusy` where too many wait for a place, or for too long.
        """
        # Nothing is nothing, however it is said to be packed.
        window = _WINDOWS.get(encoding) if body else None
        small = min(LARGE_BODY, self._limit)
        whole = body if window is None else await _inflated(body, window, small)
        if whole is not None and len(whole) <= small:
            yield whole
            return
        async with self._turn(sender):
            whole = body if window is None else await _inflated(body, window, self._limit)
            if whole is None or len(whole) > self._limit:
                raise BodyTooLarge(f"Send at most {self._limit} bytes, also after unpacking; set a smaller batch size.")
            yield whole

    @asynccontextmanager
    async def _turn(self, sender: str) -> AsyncIterator[None]:
        line = self._lines.get(sender) or _Line()
        if self._waiting >= MAX_WAITING or line.size >= MAX_OF_ONE:
            raise StoreBusy
        self._lines[sender] = line
        line.size += 1
        try:
            async with AsyncExitStack() as held:
                await self._wait(line, held)
                yield
        finally:
            line.size -= 1
            if not line.size:
                del self._lines[sender]

    async def _wait(self, line: "_Line", held: AsyncExitStack) -> None:
        """Take the turn of a sender, then a place. Raises `StoreBusy` where that takes too long."""
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await held.enter_async_context(line.turn)
                await held.enter_async_context(self._turns)
        except TimeoutError:
            raise StoreBusy from None
        finally:
            self._waiting -= 1


@dataclass(slots=True)
class _Line:
    """The large bodies of one sender: one of them is processed, or waits for a place, at a time."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int = 0


async def _inflated(packed: bytes, window: int, limit: int) -> bytes | None:
    """Unpack all members of the body, in steps; None if they exceed the limit. Raises `InvalidOtlp`."""
    parts: list[bytes] = []
    left = limit
    for _ in range(_MAX_MEMBERS):
        unpacker = zlib.decompressobj(window)
        while not unpacker.eof:
            try:
                part = unpacker.decompress(packed, min(_STEP, left + 1))
            except zlib.error:
                raise InvalidOtlp from None
            packed = unpacker.unconsumed_tail
            left -= len(part)
            if left < 0:
                return None
            parts.append(part)
            if not part and not unpacker.eof:
                raise InvalidOtlp("The packed body ends too early; send it whole.")
            await asyncio.sleep(0)
        packed = unpacker.unused_data
        if not packed or window == _ZLIB:
            return b"".join(parts)
    raise InvalidOtlp(f"Pack the body into at most {_MAX_MEMBERS} gzip members; one is best.")
