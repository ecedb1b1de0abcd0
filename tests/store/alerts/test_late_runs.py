"""Alerts on hours and weeks whose runs come late, over restarts, in other zones, and while the clock is set."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from runtally.alerts.evaluator import QUIET, AlertEvaluator
from runtally.clock import HOUR
from runtally.db.database import Database
from runtally.models.alert import TargetKind
from tests.relays import SteppedClock
from tests.store.alerts import test_report as reports
from tests.store.alerts.test_evaluator import add_target, alerts, set_budget, spend
from tests.store.alerts.test_recovery import actions, break_error_rate, pass_by
from tests.store.alerts.test_rules import failing, send, set_rules
from tests.vendors import Vendors, running_vendors

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendors]:
    with running_vendors(monkeypatch) as running:
        yield running


@pytest.fixture
def hour(clock: SteppedClock) -> datetime:
    return clock.now.replace(minute=0, second=0, microsecond=0)


@pytest.fixture
async def usual(project: Database, hour: datetime) -> Database:
    """Each hour of the weeks before has cost $2, and one run of twenty failed; so it is in the hours of a day around."""
    for week in range(5):
        for offset in range(-26, 12 if week else 1):
            at = hour - timedelta(weeks=week) + offset * HOUR
            if at < hour:
                await spend(project, at, "2")
                await send(project, at, *failing(1, 20))
    return project


async def evaluate(database: Database, clock: SteppedClock) -> int:
    """Evaluate as a process does that has just started."""
    return await AlertEvaluator(database, clock, None).evaluate()


async def kinds(database: Database) -> list[tuple[str, str]]:
    return [(one["kind"], one["subject"].removesuffix(":00:00Z")[11:13]) for one in await alerts(database)]


@pytest.mark.parametrize("restarts", [True, False])
async def test_runs_that_come_hours_late_alert_on_their_hour_once(
    usual: Database, clock: SteppedClock, hour: datetime, restarts: bool
) -> None:
    await add_target(usual, "p", created_at=hour - 2 * DAY)
    await set_rules(usual, SteppedClock(), error_rate_unusual="1", min_runs="20")
    async with usual.connection() as connection:
        await connection.execute("UPDATE alert_rules SET updated_at = updated_at - interval '2 days'")
    watch = AlertEvaluator(usual, clock, None)
    clock.now = hour + 6 * MINUTE
    assert await watch.evaluate() == 0

    clock.now = hour + 5 * HOUR + 6 * MINUTE
    late = hour - 3 * HOUR
    await spend(usual, late, "90")
    await send(usual, late, *failing(19, 20))
    if restarts:
        watch = AlertEvaluator(usual, clock, None)
    assert [await watch.evaluate(), await watch.evaluate(), await evaluate(usual, clock)] == [2, 0, 0]

    found = await alerts(usual)
    assert {one["kind"] for one in found} == {"anomaly", "error_rate"}
    assert all(one["subject"].startswith(f"{late:%Y-%m-%dT%H}:00:00Z") for one in found)
    [of_cost] = [one for one in found if one["kind"] == "anomaly"]
    assert "so far" not in of_cost["message"]
    # Hours of the quiet time, which followed the alert, stay covered by it.
    await spend(usual, clock.now, "90")
    clock.now += QUIET + 2 * HOUR
    assert [await watch.evaluate(), await evaluate(usual, clock)] == [0, 0]


async def test_hours_that_ended_more_than_a_day_ago_or_before_anybody_asked_do_not_alert(
    usual: Database, clock: SteppedClock, hour: datetime
) -> None:
    await spend(usual, hour - 3 * HOUR, "90")
    await add_target(usual, "p", created_at=hour)
    clock.now = hour + 6 * MINUTE
    assert await evaluate(usual, clock) == 0

    await spend(usual, hour, "90")
    clock.now = hour + 26 * HOUR
    assert await evaluate(usual, clock) == 0


async def test_an_alert_that_a_wrong_clock_dated_ahead_silences_nothing(
    usual: Database, clock: SteppedClock, hour: datetime
) -> None:
    await add_target(usual, "p", created_at=hour)
    await set_rules(usual, clock, error_rate="10", min_runs="20")
    right = clock.now
    clock.now += timedelta(weeks=2)
    await spend(usual, clock.now, "90")
    await send(usual, clock.now, *failing(19, 20))
    ahead = await evaluate(usual, clock)

    clock.now = right
    await spend(usual, right, "90")
    await send(usual, right, *failing(19, 20))

    assert [ahead, await evaluate(usual, clock), await evaluate(usual, clock)] == [2, 2, 0]


async def test_a_clock_that_is_set_back_repeats_no_alert_on_an_hour(
    usual: Database, clock: SteppedClock, hour: datetime
) -> None:
    await add_target(usual, "p", created_at=hour)
    await set_rules(usual, clock, error_rate="10", error_rate_unusual="1", min_runs="20")
    clock.now = hour + 30 * MINUTE
    await spend(usual, hour, "90")
    await send(usual, hour, *failing(19, 20))
    assert await evaluate(usual, clock) == 2

    clock.now -= MINUTE

    assert await evaluate(usual, clock) == 0


async def test_the_incident_of_an_hour_that_was_over_already_is_opened_and_resolved(
    usual: Database, clock: SteppedClock, hour: datetime, vendors: Vendors
) -> None:
    await add_target(usual, "p", kind=TargetKind.PAGERDUTY, address=vendors.pagerduty, created_at=hour - DAY)
    clock.now = hour + 6 * MINUTE
    await spend(usual, hour - 3 * HOUR, "90")

    for _ in range(4):
        await pass_by(usual, clock)

    assert actions(vendors) == ["trigger", "resolve"]


async def test_incidents_outlive_a_clock_that_is_set_back(
    project: Database, clock: SteppedClock, vendors: Vendors
) -> None:
    await add_target(project, "p", kind=TargetKind.PAGERDUTY, address=vendors.pagerduty)
    right = clock.now
    clock.now = right.replace(day=1, month=12, hour=0)
    await set_budget(project, clock, 1)
    await spend(project, clock.now, "5")
    await pass_by(project, clock)
    assert actions(vendors) == ["trigger"]

    clock.now -= HOUR
    await pass_by(project, clock)
    assert actions(vendors) == ["trigger"]  # Its month has not begun by this clock, so it is not over.

    clock.now = right.replace(day=1, month=1, year=2027)
    await pass_by(project, clock)
    assert actions(vendors) == ["trigger", "resolve"]


async def test_an_incident_that_a_clock_dated_ahead_is_resolved_by_the_right_one(
    project: Database, clock: SteppedClock, vendors: Vendors
) -> None:
    await add_target(project, "p", kind=TargetKind.PAGERDUTY, address=vendors.pagerduty)
    right = clock.now
    clock.now += timedelta(weeks=2)
    await break_error_rate(project, clock)

    clock.now = right
    await send(project, clock.now, *failing(0, 20))
    await pass_by(project, clock)

    assert actions(vendors) == ["trigger", "resolve"]


async def test_a_report_is_sent_once_over_restarts_and_steps_of_the_clock(own: Database, clock: SteppedClock) -> None:
    await add_target(own, "p", of_unusual_cost=False, weekly_report=True, created_at=reports.MONDAY - 9 * DAY)
    await reports.spend(own, reports.MONDAY - DAY, "large", "1.5")

    # The process was down on Monday, comes up on Wednesday, and its clock is set back to Sunday and on again.
    days = [await reports.evaluate(own, clock, reports.DUE + days * DAY) for days in (2, 2, -1, 0, 3)]

    assert days == [1, 0, 0, 0, 0]
    assert [one["subject"] for one in await alerts(own)] == ["2026-W47"]


async def test_a_report_waits_for_runs_that_come_after_it_was_due(own: Database, clock: SteppedClock) -> None:
    await add_target(own, "p", of_unusual_cost=False, weekly_report=True, created_at=reports.MONDAY - 9 * DAY)
    assert await reports.evaluate(own, clock, reports.DUE) == 0

    await reports.spend(own, reports.MONDAY - DAY, "large", "1.5")

    assert await reports.evaluate(own, clock, reports.DUE + HOUR) == 1


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
async def test_weeks_and_hours_are_those_of_utc_whatever_the_zone_of_the_machine(
    usual: Database, clock: SteppedClock, hour: datetime, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_target(usual, "p", weekly_report=True, created_at=hour)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        await spend(usual, clock.now, "90")
        assert await evaluate(usual, clock) == 1
        assert await reports.evaluate(usual, clock, reports.DUE - MINUTE) == 0
        assert await reports.evaluate(usual, clock, reports.DUE) == 1
    finally:
        monkeypatch.undo()
        time.tzset()

    assert [one["subject"] for one in await alerts(usual)] == [f"{hour:%Y-%m-%dT%H}:00:00Z", "2026-W47"]
