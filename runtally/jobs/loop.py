"""One supervised background loop: work, pause, work. Any error is logged, and the work is tried again later."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from runtally.errors import RuntallyError, StoreUnavailable
from runtally.usage import masking

# Work that is under way when the process ends has this long to finish.
STOP_SECONDS = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Job:
    """A named piece of background work.

    `work` does a bounded piece, and returns whether there is more to do at once; it stops early when the event is set.
    """

    name: str
    work: Callable[[asyncio.Event], Awaitable[bool]]
    pause_seconds: float
    max_pause_seconds: float = 60.0


Pause = Callable[[Job, int, asyncio.Event], Awaitable[None]]
"""Wait after so many failures in a row, or until the event is set."""


def longest_pause(job: Job, failures: int) -> float:
    """Return the longest time in seconds to wait after so many failures in a row."""
    # The exponent is limited as well: 2.0 to the power of a large number overflows.
    return min(job.pause_seconds * 2.0 ** min(failures, 16), job.max_pause_seconds)


async def _pause(job: Job, failures: int, stop: asyncio.Event) -> None:
    # Spread the pauses, so that workers that started together do not query together.
    seconds = longest_pause(job, failures) * random.uniform(0.5, 1.0)  # noqa: S311  # Chance, not a secret.
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


async def repeat(job: Job, stop: asyncio.Event, *, pause: Pause = _pause) -> None:
    """Work until `stop` is set. Pause while there is nothing to do, and longer while it fails."""
    masking.use(masking.ALL_NAMES)
    failures = 0
    while not stop.is_set():
        try:
            more = await job.work(stop)
            failures = 0
        except RuntallyError as error:
            more, failures = False, failures + 1
            # The message of this error itself is for clients; its reason is for operators.
            reason = error.reason if type(error) is StoreUnavailable else error.message
            log.warning("job_failed", job=job.name, code=error.code, reason=reason, failures=failures)
        except Exception:  # A bug in one job must end neither the job nor the service.
            more, failures = False, failures + 1
            log.exception("job_failed", job=job.name, failures=failures)
        if not more:
            await pause(job, failures, stop)


@asynccontextmanager
async def running(jobs: Sequence[Job]) -> AsyncIterator[None]:
    """Run the jobs while the block runs.

    At its end each may finish its piece of work, and is cancelled if that takes long.
    """
    stop = asyncio.Event()
    tasks = [asyncio.create_task(repeat(job, stop), name=job.name) for job in jobs]
    try:
        yield
    finally:
        stop.set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
