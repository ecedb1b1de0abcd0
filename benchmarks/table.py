"""The table on the screen."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from benchmarks.result import Row

HEADINGS = ("#", "measure", "service", "yardstick", "result", "goal", "reached", "runs stored")
_WRAPPED = {1: 34, 2: 34, 3: 28, 4: 26, 5: 28}
"""Widest lines of the columns with sentences in them."""


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """The table, its notes below it."""
    cells = [HEADINGS, *map(_cells, rows)]
    wrapped = [
        [textwrap.wrap(text, _WRAPPED.get(place, 40)) or [""] for place, text in enumerate(row)] for row in cells
    ]
    widths = [max(len(line) for row in wrapped for line in row[place]) for place in range(len(HEADINGS))]
    for number, row in enumerate(wrapped):
        for height in range(max(map(len, row))):
            line = (cell[height] if height < len(cell) else "" for cell in row)
            yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)
    for row_ in rows:
        for note in filter(None, (row_.void and f"void: {row_.void}", row_.note)):
            yield from textwrap.wrap(f"{row_.number}: {note}", min(shutil.get_terminal_size().columns, 160))


def _cells(row: Row) -> tuple[str, ...]:
    stored = "" if row.stored is None else f"{row.stored:,}"
    return str(row.number), row.measure, row.service, row.yardstick, row.result, row.goal, row.verdict, stored
