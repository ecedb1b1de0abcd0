"""Send many batches with a few requests in flight, and count the results of their runs."""

import asyncio
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Final, Protocol

from runtally.client.fields import FIELDS, squashed
from runtally.client.post import Receipt
from runtally.client.run import OutgoingRun

FIGURES: Final = (
    "inputTokens",
    "outputTokens",
    "cachedInputTokens",
    "cacheWriteTokens",
    "reasoningTokens",
    "costUSD",
)


class Figures:
    """Sums by the names of a run's fields. `costUSD` is what the file says, and None while it has said nothing."""

    def __init__(self) -> None:
        self.sums: dict[str, int | Decimal | None] = dict.fromkeys(FIGURES, 0) | {"costUSD": None}

    def add(self, value_of: Callable[[str], object], sign: int = 1) -> None:
        """Add the values that a row or a run has under these names, or take them off with the sign -1."""
        for name in FIGURES:
            value = value_of(name)
            if isinstance(value, int | Decimal):
                self.sums[name] = (self.sums[name] or 0) + sign * value

    def __str__(self) -> str:
        return ", ".join(
            f"{value:,} {name}" if name != "costUSD" else f"${value:,}" for name, value in self.sums.items() if value
        )


IN_FLIGHT: Final = 4
"""Enough to keep a server busy while the next batch is made, and few enough to leave room for others."""
SHOWN_REJECTIONS: Final = 20


def _value(run: OutgoingRun, wire: str) -> object:
    return getattr(run, FIELDS[squashed(wire)].name)


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs of one project, each with its place in the source if it has one (the line of a file)."""

    project_id: str
    runs: Sequence[OutgoingRun]
    lines: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that was not stored. The reason never holds a value of the row."""

    line: int
    reason: str


@dataclass(slots=True)
class Totals:
    """The results so far: `processed` runs were accepted by the server, `duplicates` of them were stored before."""

    processed: int = 0
    figures: Figures = field(default_factory=Figures)
    """The sums of the runs that the server took."""
    duplicates: int = 0
    rejected: int = 0
    by_project: dict[str, int] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    """The first `SHOWN_REJECTIONS` of them, in order of their lines."""

    @property
    def added(self) -> int:
        return self.processed - self.duplicates

    def count(self, batch: Batch, receipt: Receipt) -> None:
        self.processed += receipt.processed
        refused = {run.index for run in receipt.rejected}
        for place, sent in enumerate(batch.runs):
            if place not in refused:
                self.figures.add(partial(_value, sent))
        self.duplicates += receipt.duplicates
        so_far = self.by_project.get(batch.project_id, 0)
        self.by_project[batch.project_id] = so_far + receipt.processed
        for run in receipt.rejected:
            self.reject(Rejection(batch.lines[run.index] if batch.lines else 0, run.reason))

    def reject(self, rejection: Rejection) -> None:
        self.rejected += 1
        # Batches are answered out of order, and the first lines of the file are the ones to show.
        insort(self.rejections, rejection, key=lambda item: item.line)
        del self.rejections[SHOWN_REJECTIONS:]


class Posts(Protocol):
    """The sender of batches: a `Poster`."""

    async def post(self, project_id: str, runs: Sequence[OutgoingRun]) -> Receipt: ...


async def send_all(
    poster: Posts, batches: Iterable[Batch], totals: Totals, on_answer: Callable[[Batch], None] = lambda _batch: None
) -> None:
    """Post every batch, in order but for the few in flight, and count the answers into `totals`.

    The first batch goes alone: a wrong key or project is then said once, before anything else is sent. The first error
    ends it all.
    """
    waiting = iter(batches)

    async def post_next(limit: int | None = None) -> None:
        done = 0
        while limit is None or done < limit:
            batch = next(waiting, None)
            if batch is None:
                return
            receipt = await poster.post(batch.project_id, batch.runs)
            totals.count(batch, receipt)
            on_answer(batch)
            done += 1

    await post_next(limit=1)
    tasks = [asyncio.create_task(post_next()) for _ in range(IN_FLIGHT)]
    try:
        await asyncio.gather(*tasks)
    finally:
        # `gather` leaves the others running when one fails; nothing may be sent after the error was reported.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
