"""The background jobs of a process: supervised loops of work and pause. Any error is logged, and the work is tried again later."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

import structlog

from runtally.alerts.evaluator import EXPIRED_AT_ONCE, expire_alerts
from runtally.clock import Clock, ClockWatch
from runtally.db.database import Database
from runtally.errors import RuntallyError, StoreUnavailable
from runtally.limits.limiter import delete_idle_keys
from runtally.usage import masking
from runtally.usage.upkeep import dimensions
from runtally.usage.upkeep import queries as upkeep

PAUSES: dict[str, tuple[float, ...]] = {
    # With a longer pause more is merged at once, and more that waits is read.
    "merge": (1.0,),
    "merge dimensions": (1.0,),
    # The page that a key was tracked on shows the progress.
    "tracked keys": (2.0,),
    # Short buckets are kept for days, alerts for months; an hour does not matter.
    "expire buckets": (3600.0, 3600.0),
    "expire alerts": (3600.0, 3600.0),
    # A changed price is used about this long after. After an outage the pause must not grow much longer: meanwhile the last
    # good book is used.
    "prices": (1.0, 5.0),
    "unpriced": (1.0,),
    "repricing": (1.0,),
    "erasing": (1.0,),
    # Alerts come about a minute after the runs that cause them.
    "evaluate alerts": (60.0,),
    # A person who sent a test waits for its result.
    "send alerts": (2.0,),
    # A changed rule is known to a process about this long after, well before anything is dropped by it.
    "names": (5.0,),
    "retention rules": (5.0, 5.0),
    "replica": (1.0, 1.0),
    # Whether a cell answers, of several.
    "watch": (1.0, 1.0),
    # A request that names a project looks it up itself; only a form that names another one waits for this.
    "directory": (2.0,),
    # A person who sets up an exporter looks at the page a moment later. Counts of the last seconds before a process ends are lost.
    "otlp clients": (5.0,),
    "expire limits": (60.0,),
    # A run is in the reporting table about this long after it was stored.
    "relay": (1.0,),
    # Runs become due once a day. Runs that waited for the relay, and changed rules, should be handled sooner.
    "retention": (300.0, 300.0),
}
"""The pause of each job in seconds while there is nothing to do, and the longest after errors if that is not a minute."""
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


def long_job(name: str, work: Callable[[asyncio.Event], Awaitable[bool]]) -> Job:
    """Return the job of this name, whose work stops early when the event is set; True means that there is more to do."""
    return Job(name, work, *PAUSES[name])


def job(name: str, work: Callable[[], Awaitable[object]]) -> Job:
    """Return the job of this name, whose work is too short to be stopped early; True means that there is more to do at once."""

    async def once(_stop: asyncio.Event) -> bool:
        return await work() is True

    return long_job(name, once)


def deleting(job: Job, watch: ClockWatch) -> Job:
    """Return a job that deletes by the clock, which waits while the clock is not to be trusted."""

    async def work(stop: asyncio.Event) -> bool:
        return watch.is_steady() and await job.work(stop)

    return replace(job, work=work)


def merge_job(database: Database, clock: Clock) -> Job:
    """Merge the sums that wait."""

    async def work() -> bool:
        return await upkeep.merge_waiting(database, clock()) >= upkeep.MERGED_AT_ONCE

    return job("merge", work)


def chores(database: Database, clock: Clock, watch: ClockWatch) -> Sequence[Job]:
    """Return the jobs of every database of projects that need nothing but it."""

    async def merge_dimensions() -> None:
        # Nothing is returned even if there is more: ingest needs the processor first.
        await dimensions.merge_dimensions(database, clock())

    async def change_key() -> bool:
        return await dimensions.change_key(database, clock())

    async def expire() -> bool:
        return await upkeep.expire_buckets(database, clock()) >= upkeep.EXPIRED_AT_ONCE

    async def expire_old_alerts() -> bool:
        return await expire_alerts(database, clock()) >= EXPIRED_AT_ONCE

    return (
        merge_job(database, clock),
        job("merge dimensions", merge_dimensions),
        job("tracked keys", change_key),
        deleting(job("expire buckets", expire), watch),
        deleting(job("expire alerts", expire_old_alerts), watch),
    )


def expire_limits_job(database: Database) -> Job:
    """Delete rate-limit keys that are idle."""

    async def work() -> None:
        async with database.connection() as connection:
            await delete_idle_keys(connection)

    return job("expire limits", work)
