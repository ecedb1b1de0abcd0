"""SQL of a project's latency sketches as they are stored, of time that is over."""

from collections.abc import Sequence

from runtally.db.database import Connection
from runtally.metrics.parts import STORED, arrays, parts
from runtally.metrics.sketch import Sketch
from runtally.metrics.window import Part

_STORED = STORED.format(table="latency_sketches", project="$1", parts=parts(2))
# Every change of a row has a number of its own.
SELECT_VERSION = f"""
SELECT md5(string_agg(latency_sketches.xmin::text, ' ' ORDER BY bucket, parts.grain))
  FROM {_STORED}
"""
SELECT_STORED = f"""
SELECT latencies,
       counts
  FROM {_STORED}
"""


async def select_version(connection: Connection, project_id: str, stored: Sequence[Part]) -> str | None:
    """A text that differs whenever one of these sketches was changed; None without any."""
    version: str | None = await connection.fetchval(SELECT_VERSION, project_id, *_arrays(stored))
    return version


async def select_stored(connection: Connection, project_id: str, stored: Sequence[Part]) -> list[Sketch]:
    """In no order."""
    rows = await connection.fetch(SELECT_STORED, project_id, *_arrays(stored))
    return [(latencies, counts) for latencies, counts in rows]


def _arrays(stored: Sequence[Part]) -> tuple[object, ...]:
    return arrays((tuple(stored), stored[0].since))[:-1]
