"""The latencies of a project over a whole window, or of all projects together, for its percentiles.

A month is a hundred sketches with hundreds of latencies each: to read and merge them takes longer than all else of a report,
and those of days that are over seldom change. So a process remembers these, merged, and asks each time whether they did.
"""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

from runtally.db.database import Connection
from runtally.metrics.latency_queries import select_stored, select_version
from runtally.metrics.queries import select_sketches
from runtally.metrics.sketch import Sketch, merged
from runtally.metrics.window import Part, Window, floor
from runtally.models.rollup import RollupScope

# Runs come late; who sends them later than this has the month read anew, which is right but slow.
SETTLED_AFTER = timedelta(hours=6)
# Each is of a project, or of all, and a range, and takes a few dozen kilobytes.
MAX_REMEMBERED = 100

_Key: TypeAlias = tuple[str, tuple[Part, ...]]
"""Whose, and which buckets."""


class PastLatencies:
    """The latencies of stored buckets that are over, as one process remembers them."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[str | None, Sketch]] = {}

    async def read(self, connection: Connection, window: Window, project_id: str | None) -> list[Sketch]:
        """Sketches of all runs of the window; the connection must be that of a snapshot."""
        stored, rest_since = window.fewest_parts()
        settled, recent = _split(stored, window.now - SETTLED_AFTER)
        found = await select_sketches(connection, window, project_id, (recent, rest_since))
        sketches = [sketch for several in found.values() for sketch in several]
        if settled:
            sketches.append(await self._settled(connection, (RollupScope(project_id).key, settled)))
        return [sketch for sketch in sketches if sketch[0]]

    async def _settled(self, connection: Connection, key: _Key) -> Sketch:
        version = await select_version(connection, *key)
        known = self._known.pop(key, None)
        if known is None or known[0] != version:
            latencies, counts = merged(await select_stored(connection, *key))
            known = version, (array("i", latencies), array("q", counts))
        # In place of what was asked for the longest time ago.
        self._known[key] = known
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return known[1]


def _split(stored: Sequence[Part], at: datetime) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """The parts before that time, and those after it, in whole buckets."""
    before, after = [], []
    for part in stored:
        border = min(max(part.since, floor(at, part.grain.length)), part.until)
        if part.since < border:
            before.append(replace(part, until=border))
        if border < part.until:
            after.append(replace(part, since=border))
    return tuple(before), tuple(after)
