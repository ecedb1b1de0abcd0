"""Runs as a file on its way to the reader: as it is, or in frames for a page that says how far it is."""

import struct
from collections.abc import AsyncIterator

from runtally.runs.export import Format, export
from runtally.runs.filters import RunFilter
from runtally.services import Services

FRAMES = "application/vnd.runtally.frames"
"""What a page accepts that wants to know: before each part, how many runs the file has by then, and the part's bytes."""
# An empty part is the end; without one the file broke off.
_HEAD = struct.Struct(">II")


async def begun(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts once they have their connection: a store that is busy is an answer, not a file that breaks off.

    Raises `StoreBusy` and `StoreUnavailable`.
    """
    await anext(parts)
    return parts


async def exported(opened: Services, sought: RunFilter, format_: Format) -> AsyncIterator[bytes]:
    """`opened` are the services: what is streamed is sent when the request is over. The first part is nothing."""
    async with opened.reading.snapshot() as connection:
        yield b""
        async for part in export(connection, sought, opened.clock(), format_):
            yield part


async def exported_in_frames(opened: Services, sought: RunFilter, format_: Format) -> AsyncIterator[bytes]:
    """The same, in frames."""
    runs = 0

    def count(more: int) -> None:
        nonlocal runs
        runs += more

    async with opened.reading.snapshot() as connection:
        yield b""
        async for part in export(connection, sought, opened.clock(), format_, count):
            if part:
                yield _HEAD.pack(runs, len(part)) + part
    yield _HEAD.pack(runs, 0)
