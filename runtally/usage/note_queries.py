"""SQL of the notes that charts of a project mark."""

from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.usage.window import TimeSpan

MARKED = 100
SELECT_NOTES = f"""
  SELECT at, text
    FROM notes
   WHERE project_id = $1
     AND at >= $2
     AND at < $3
     AND ($4::text IS NULL OR tag IS NULL OR tag = $4)
ORDER BY at DESC
   LIMIT {MARKED}
"""


class MarkedNote(NamedTuple):
    """The moment and the words of a note."""

    at: datetime
    text: str


async def select_notes(connection: Connection, project_id: str, span: TimeSpan, tag: str | None) -> list[MarkedNote]:
    """Read the latest notes of a time; where runs with one tag are shown, without those about other tags."""
    return [MarkedNote(*row) for row in await connection.fetch(SELECT_NOTES, project_id, *span, tag)]
