"""Import a file: convert its rows to runs, and post these in batches, or only preview them."""

from collections.abc import Callable, Iterator, Sequence

from runtally.client.files import Row, RowFile
from runtally.client.post import Receipt
from runtally.client.rows import RunMaker, batches
from runtally.client.run import OutgoingRun
from runtally.client.send import Posts, Rejection, Totals, send_all


class DryRun:
    """Takes batches like a server that is always content, sends nothing, and keeps the first run to show."""

    def __init__(self) -> None:
        self.first: OutgoingRun | None = None

    async def post(self, project_id: str, runs: Sequence[OutgoingRun]) -> Receipt:  # noqa: ARG002  # As a poster has it.
        self.first = self.first or runs[0]
        return Receipt(processed=len(runs))


async def load_file(  # noqa: PLR0913  # What it works on, then how.
    poster: Posts,
    file: RowFile,
    maker: RunMaker,
    totals: Totals,
    *,
    batch_size: int,
    on_progress: Callable[[int, int], None],
) -> None:
    """Post all rows of the file and count them into `totals`. `on_progress` hears how many bytes of how many are read.

    Raises what the poster raises, `UnreadableFile`, and `InvalidMapping` for an option that names no column of the file.
    """
    rows = _checked(file, maker)
    await send_all(
        poster,
        batches(rows, maker, totals, size=batch_size),
        totals,
        lambda _batch: on_progress(file.position, file.size),
    )


def _checked(file: RowFile, maker: RunMaker) -> Iterator[Row | Rejection]:
    """The rows; the first one tells the format, and has the columns that options name, before anything is sent."""
    unchecked = True
    for row in file:
        if unchecked and isinstance(row, Row):
            maker.recognise(row.values)
            if file.has_header and maker.format is None:
                maker.planner.demand_columns(row.values)
            unchecked = False
        yield row
