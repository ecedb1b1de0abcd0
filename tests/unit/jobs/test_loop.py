"""Background jobs: repeated, paused, logged, stopped."""

import asyncio

import pytest
from structlog.testing import capture_logs

from runtally import jobs
from runtally.errors import AwaitedCell, StoreUnavailable
from runtally.jobs import Job, repeat, running

# Short enough to wait for, and never the reason that something happens.
TICK = 0.001
SOON = 60.0
MORE, IDLE = True, False


class Work:
    """Answers what the test says, and stops the loop when nothing is left."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)
        self.calls = 0

    async def __call__(self, stop: asyncio.Event) -> bool:
        self.calls += 1
        answer = self.answers.pop(0)
        if not self.answers:
            stop.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def paused(work: Work, pause: float = 1.0) -> list[float]:
    """The longest that the loop would have waited, each time."""
    pauses: list[float] = []

    async def remember(job: Job, failures: int, _stop: asyncio.Event) -> None:
        pauses.append(jobs.longest_pause(job, failures))

    job = Job("job", work, pause, max_pause_seconds=10.0)
    await asyncio.wait_for(repeat(job, asyncio.Event(), pause=remember), SOON)
    return pauses


async def test_a_job_that_has_more_to_do_is_not_paused() -> None:
    work = Work(MORE, MORE, IDLE, MORE)

    assert await paused(work) == [1.0]
    assert work.calls == 4


async def test_a_job_that_fails_waits_longer_and_longer_until_it_succeeds() -> None:
    failures = [StoreUnavailable()] * 5

    assert await paused(Work(*failures, IDLE, IDLE)) == [2.0, 4.0, 8.0, 10.0, 10.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(StoreUnavailable(), StoreUnavailable.reason), (AwaitedCell(), AwaitedCell.message)],
)
async def test_the_log_of_a_job_that_fails_says_what_the_operator_should_do(
    error: StoreUnavailable, reason: str
) -> None:
    with capture_logs() as logged:
        await paused(Work(error, IDLE))

    assert [line["reason"] for line in logged] == [reason]


async def test_a_bug_in_a_job_does_not_end_it() -> None:
    work = Work(ZeroDivisionError(), IDLE)

    await paused(work)

    assert work.calls == 2


async def test_a_pause_ends_at_once_when_the_process_does() -> None:
    worked = asyncio.Event()

    async def work(_stop: asyncio.Event) -> bool:
        worked.set()
        return False

    async with asyncio.timeout(SOON), running([Job("job", work, pause_seconds=3600.0)]):
        await worked.wait()


async def test_a_job_may_finish_its_piece_of_work() -> None:
    begun, finished = asyncio.Event(), asyncio.Event()

    async def work(stop: asyncio.Event) -> bool:
        begun.set()
        await stop.wait()
        finished.set()
        return False

    async with running([Job("job", work, TICK)]):
        await begun.wait()

    assert finished.is_set()


async def test_a_job_that_does_not_end_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "STOP_SECONDS", TICK)
    begun = asyncio.Event()

    async def work(_stop: asyncio.Event) -> bool:
        begun.set()
        await asyncio.Event().wait()
        return False

    async with running([Job("job", work, TICK)]):
        await begun.wait()


async def test_no_jobs_are_fine() -> None:
    async with running([]):
        pass
