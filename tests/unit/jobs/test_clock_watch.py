"""Nothing is deleted by a clock that was set ahead, until it has gone on from there for a day."""

import asyncio
from datetime import timedelta

import pytest

from runtally.clock import DAY, ClockWatch
from runtally.jobs import Job, deleting
from tests.relays import SteppedClock


class Machine:
    """A clock, and time that passes beside it."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.passed = 1_000.0
        self.watch = ClockWatch(self.clock, lambda: self.passed)

    def runs(self, for_: timedelta) -> None:
        self.passed += for_.total_seconds()
        self.clock.advance(for_)


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=2), timedelta(days=400)])
def test_a_clock_that_jumps_ahead_is_trusted_again_after_a_day_or_once_it_is_back(ahead: timedelta) -> None:
    for is_set_back in (True, False):
        machine = Machine()
        assert machine.watch.is_steady()
        machine.clock.advance(ahead)
        assert not machine.watch.is_steady()
        machine.runs(timedelta(hours=23))
        assert not machine.watch.is_steady()
        if is_set_back:
            machine.clock.advance(-ahead)
        else:
            machine.runs(timedelta(hours=1))
        assert machine.watch.is_steady()
        machine.runs(timedelta(hours=1))
        assert machine.watch.is_steady()


def test_a_second_jump_begins_the_day_anew() -> None:
    machine = Machine()
    machine.clock.advance(DAY)
    assert not machine.watch.is_steady()
    machine.runs(timedelta(hours=23))
    machine.clock.advance(DAY)
    assert not machine.watch.is_steady()
    machine.runs(timedelta(hours=23))
    assert not machine.watch.is_steady()
    machine.runs(timedelta(hours=1))
    assert machine.watch.is_steady()


def test_steps_back_sleep_and_small_steps_are_no_jumps_ahead() -> None:
    machine = Machine()
    machine.clock.advance(-2 * DAY)
    assert machine.watch.is_steady()
    machine.runs(30 * DAY)
    assert machine.watch.is_steady()
    for _ in range(10):
        machine.clock.advance(timedelta(minutes=30))
        assert machine.watch.is_steady()


async def test_a_job_that_deletes_waits_for_a_steady_clock() -> None:
    machine, done = Machine(), list[str]()

    async def work(_stop: asyncio.Event) -> bool:
        done.append("deleted")
        return True

    job = deleting(Job("retention", work, 300.0), machine.watch)
    machine.clock.advance(DAY)
    assert not await job.work(asyncio.Event())
    machine.runs(DAY)
    assert await job.work(asyncio.Event())
    assert done == ["deleted"]
