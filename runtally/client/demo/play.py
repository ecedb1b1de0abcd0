"""Post the demo: its history at once, then live traffic without end."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, NoReturn

from runtally.client.demo.history import history
from runtally.client.demo.live import LiveTraffic
from runtally.client.post import Poster
from runtally.client.send import Totals, send_all
from runtally.clock import Clock, system_clock

_STEP_S: Final = 0.5
"""The longest time that live calls wait to be posted together: short enough to look live."""


async def post_history(
    poster: Poster, *, days: int, seed: int, on_progress: Callable[[int, int], None], clock: Clock = system_clock
) -> Totals:
    """Post the last `days` days, oldest first. `on_progress` hears how many runs of how many are done."""
    batches = await asyncio.to_thread(history, clock(), days, seed)
    total = sum(len(batch.runs) for batch in batches)
    totals = Totals()
    on_progress(0, total)
    await send_all(poster, batches, totals, lambda _batch: on_progress(totals.processed + totals.rejected, total))
    return totals


async def post_live(
    poster: Poster, totals: Totals, on_progress: Callable[[Totals], None], *, clock: Clock = system_clock
) -> NoReturn:
    """Post traffic as it happens, until the task is cancelled, and count it into `totals`."""
    traffic = LiveTraffic(clock(), Random())  # noqa: S311  # Made-up traffic is no secret.
    while True:
        await asyncio.sleep(_STEP_S)
        await send_all(poster, traffic.until(clock()), totals)
        on_progress(totals)
