"""The jobs that every process runs, on a database whose tables come later than the process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtally.alerts.evaluator import AlertEvaluator
from runtally.alerts.registry import Channels
from runtally.alerts.sender import AlertSender
from runtally.clock import ClockWatch, system_clock
from runtally.db.database import Database
from runtally.db.migrate import upgrade
from runtally.db.schema import LIVE
from runtally.jobs import Job, chores, expire_limits_job, job, repeat
from runtally.pricing.book import LivePrices
from runtally.pricing.repricing.recost import UnpricedRuns
from tests.factories import make_price
from tests.serving import Postgres

SOON = 60.0


@pytest.fixture
def unmigrated_url(postgres: Postgres) -> str:
    return postgres.create("unmigrated")


@pytest.fixture
async def unmigrated(postgres: Postgres, unmigrated_url: str) -> AsyncIterator[Database]:
    async with Database(unmigrated_url) as database:
        yield database
    postgres.drop("unmigrated")


def migrate(url: str) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(upgrade, url, *LIVE).result()


async def outcomes(job: Job, between: Callable[[], object]) -> list[bool]:
    """Whether the job failed in two goes, with something done in between; the loop survives both."""
    failed: list[bool] = []
    stop = asyncio.Event()

    async def no_pause(_job: Job, failures: int, _stop: asyncio.Event) -> None:
        failed.append(failures > 0)
        if len(failed) == 1:
            between()
        else:
            stop.set()

    await asyncio.wait_for(repeat(job, stop, pause=no_pause), SOON)
    return failed


async def test_every_job_waits_for_the_tables(unmigrated: Database, unmigrated_url: str) -> None:
    prices = LivePrices(unmigrated)
    async with Channels.opened(None, allow_private=False) as channels:
        evaluator, sender = (
            AlertEvaluator(unmigrated, system_clock, None),
            AlertSender(unmigrated, channels, system_clock),
        )
    jobs = [
        job("prices", prices.refresh),
        expire_limits_job(unmigrated),
        *chores(unmigrated, system_clock, ClockWatch(system_clock)),
        job("evaluate alerts", evaluator.evaluate),
        job("send alerts", sender.work),
    ]

    for one in jobs[1:]:
        assert await outcomes(one, lambda: None) == [True, True], one.name
    assert await outcomes(jobs[0], lambda: migrate(unmigrated_url)) == [True, False]
    for one in jobs[1:]:
        assert await outcomes(one, lambda: None) == [False, False], one.name

    async with unmigrated.session() as session:
        session.add(make_price())
    unpriced = job("unpriced", UnpricedRuns(unmigrated, prices, system_clock, queued=False).work)
    assert await outcomes(jobs[0], lambda: None) == [False, False]
    assert await outcomes(unpriced, lambda: None) == [False, False]
    assert prices.book.knows("acme", "acme-large")
