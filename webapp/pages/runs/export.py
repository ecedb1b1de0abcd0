"""Stream runs as a file: directly, or in frames for a page that shows the progress."""

import struct
from collections.abc import AsyncIterator

from runtally.audit import Actor
from runtally.runs.export import ExportSource, Format, Part, export
from runtally.services import Services
from runtally.usage.filter import RunFilter

FRAMES = "application/vnd.runtally.frames"
"""The media type for a page that shows progress: before each part, the number of runs so far and the part's length."""
# An empty part is the end; without one the file broke off.
_HEAD = struct.Struct(">II")


async def begun(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the parts once the first runs are read: a store that is busy is an answer, not a file that breaks off.

    Raises `StoreBusy`, `StoreUnavailable` and `TooManyDownloads`.
    """
    await anext(parts)
    return parts


async def exported(  # noqa: PLR0913  # Which runs, and how they are written.
    opened: Services, by: Actor, run_filter: RunFilter, format_: Format, part: Part, *, with_bom: bool, in_frames: bool
) -> AsyncIterator[bytes]:
    """Write the file; the first part is empty. `opened` are the services: what is streamed is sent when the request is over."""
    runs = 0

    def count(more: int) -> None:
        nonlocal runs
        runs += more

    # A cell that is away fails the file: it could not say that its runs are missing.
    sources = [ExportSource(cell.reading, cell.archived_runs) for cell in opened.cells.of_all(run_filter.project_id)]
    with opened.downloads.one_more(f"{by.kind}:{by.name}"):
        async for data in export(sources, run_filter, opened.clock(), format_, count, part=part, with_bom=with_bom):
            yield _HEAD.pack(runs, len(data)) + data if in_frames and data else data
    if in_frames:
        yield _HEAD.pack(runs, 0)
