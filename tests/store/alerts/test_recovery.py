"""Once an alert is over, its incident in PagerDuty is resolved: once, with its own key, and only there."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from runtally.alerts import sender
from runtally.alerts.evaluator import AlertEvaluator
from runtally.alerts.sender import LEASE
from runtally.audit import OPERATOR
from runtally.budgets import edit
from runtally.clock import HOUR
from runtally.db.database import Database
from runtally.models.alert import TargetKind
from tests.relays import SteppedClock
from tests.store.alerts.deliveries import running_sender
from tests.store.alerts.test_evaluator import add_target, spend
from tests.store.alerts.test_rules import failing, send, set_rules
from tests.vendors import Vendors, running_vendors

HOST = "events.eu.pagerduty.com"


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendors]:
    with running_vendors(monkeypatch) as running:
        yield running


@pytest.fixture
async def pagerduty(project: Database, vendors: Vendors) -> Vendors:
    """The project's alerts go to PagerDuty, and to Slack."""
    await add_target(project, "p", kind=TargetKind.PAGERDUTY, address=vendors.pagerduty)
    await add_target(project, "p", kind=TargetKind.SLACK, address=vendors.slack)
    return vendors


async def pass_by(database: Database, clock: SteppedClock) -> None:
    """Evaluate and send as the jobs of a new process do."""
    await AlertEvaluator(database, clock, None).evaluate()
    async with running_sender(database, clock) as sender:
        await sender.work()


def events(vendors: Vendors) -> list[tuple[str, str]]:
    return [(one["event_action"], one["dedup_key"]) for one in vendors.taken.get(HOST, [])]


def actions(vendors: Vendors) -> list[str]:
    return [action for action, _ in events(vendors)]


async def set_budget(database: Database, clock: SteppedClock, **sent: str) -> None:
    async with database.session() as session:
        await edit.set_budget(session, OPERATOR, "p", sent, clock.now)


async def break_error_rate(database: Database, clock: SteppedClock) -> None:
    await set_rules(database, clock, error_rate="10", min_runs="20")
    await send(database, clock.now, *failing(10, 20))
    await pass_by(database, clock)


async def mend_error_rate(database: Database, clock: SteppedClock) -> None:
    clock.advance(HOUR + timedelta(minutes=15))
    await send(database, clock.now, *failing(0, 20))


RULES: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, Any]]] = {
    "error rate": ({"error_rate": "10"}, {"status": "error"}, {"status": "success"}),
    "p95": ({"latency": "2000"}, {"latency_ms": 5000}, {"latency_ms": 100}),
    "cache": (
        {"cache_hit_rate": "30"},
        {"input_tokens": 100, "cached_input_tokens": 0},
        {"input_tokens": 100, "cached_input_tokens": 90},
    ),
}


@pytest.mark.parametrize("name", RULES)
async def test_an_incident_of_a_threshold_is_resolved_once_an_hour_after_the_alert_keeps_to_it(
    project: Database, clock: SteppedClock, pagerduty: Vendors, name: str
) -> None:
    rule, broken, kept = RULES[name]
    await set_rules(project, clock, **rule, min_runs="20")
    await send(project, clock.now, *[broken] * 20)
    await pass_by(project, clock)
    await send(project, clock.now, *[kept] * 2000)
    await pass_by(project, clock)
    assert actions(pagerduty) == ["trigger"]  # The hour of the alert is not over.

    clock.advance(HOUR + timedelta(minutes=15))
    await send(project, clock.now, *[kept] * 19)
    await pass_by(project, clock)
    assert actions(pagerduty) == ["trigger"]  # Too few runs say nothing.

    await send(project, clock.now, kept)
    await pass_by(project, clock)
    await pass_by(project, clock)

    [(_, opened), (action, resolved)] = events(pagerduty)
    assert (action, resolved) == ("resolve", opened)
    assert len(pagerduty.taken["hooks.slack.com"]) == 1


async def test_an_incident_of_an_hour_far_from_usual_is_resolved_by_a_later_hour_as_usual(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await set_rules(project, clock, error_rate_unusual="1", min_runs="20")
    hour = clock.now.replace(minute=0)
    for week in range(1, 5):
        for offset in range(-1, 4):
            await send(project, hour - timedelta(weeks=week) + offset * HOUR, *failing(1, 20))
    await send(project, hour, *failing(9, 20))
    await send(project, hour + HOUR, *failing(9, 20))
    watch = AlertEvaluator(project, clock, None)
    for later in (1, 2):
        clock.now = hour + later * HOUR + timedelta(minutes=6)
        await watch.evaluate()
        await pass_by(project, clock)
    assert actions(pagerduty) == ["trigger"]  # The next hour was as bad.

    await send(project, hour + 2 * HOUR, *failing(1, 20))
    clock.now = hour + 3 * HOUR + timedelta(minutes=6)
    assert await watch.evaluate() == 0
    await pass_by(project, clock)

    [(_, opened), (action, resolved)] = events(pagerduty)
    assert (action, resolved) == ("resolve", opened)


async def test_an_incident_of_unusual_cost_is_resolved_by_a_later_hour_as_usual(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    hour = clock.now.replace(minute=0)
    for week in range(1, 5):
        for offset in range(-1, 4):
            await spend(project, hour - timedelta(weeks=week) + offset * HOUR, "2")
    await spend(project, hour, "50")
    await spend(project, hour + HOUR, "50")
    await pass_by(project, clock)
    for later in (1, 2):
        clock.now = hour + later * HOUR + timedelta(minutes=6)
        await pass_by(project, clock)
    assert actions(pagerduty) == ["trigger"]

    clock.now = hour + 3 * HOUR + timedelta(minutes=6)
    await pass_by(project, clock)

    [(_, opened), (action, resolved)] = events(pagerduty)
    assert (action, resolved) == ("resolve", opened)


BUDGETS: dict[str, tuple[dict[str, str], timedelta]] = {
    "all runs of a month": ({}, timedelta(days=30)),
    "all runs of a day": ({"period": "day"}, timedelta(days=1)),
    "each model of a day": ({"period": "day", "dimension": "model"}, timedelta(days=1)),
    "one model of a month": ({"dimension": "model", "value": "acme-large"}, timedelta(days=30)),
}


@pytest.mark.parametrize("name", BUDGETS)
async def test_an_incident_of_a_budget_is_resolved_when_its_period_is_over(
    project: Database, clock: SteppedClock, pagerduty: Vendors, name: str
) -> None:
    terms, period = BUDGETS[name]
    await set_budget(project, clock, amount="10", alerts="100", **terms)
    await spend(project, clock.now, "10")
    await pass_by(project, clock)
    clock.advance(timedelta(minutes=1))
    await pass_by(project, clock)
    assert actions(pagerduty) == ["trigger"]

    clock.advance(period)
    await pass_by(project, clock)

    [(_, opened), (action, resolved)] = events(pagerduty)
    assert (action, resolved) == ("resolve", opened)


async def test_an_incident_of_a_day_that_was_over_already_is_opened_and_resolved(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await set_budget(project, clock, amount="10", alerts="100", period="day")
    yesterday = clock.now
    clock.advance(timedelta(hours=20))
    await spend(project, yesterday, "10")
    for _ in range(3):
        await pass_by(project, clock)

    [(opened, key), (resolved, same)] = events(pagerduty)
    assert (opened, resolved, same) == ("trigger", "resolve", key)


async def test_an_incident_of_a_budget_is_resolved_when_the_amount_is_raised(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await set_budget(project, clock, amount="10", alerts="50,100")
    await spend(project, clock.now, "6")
    await pass_by(project, clock)
    await spend(project, clock.now, "5")
    await pass_by(project, clock)

    await set_budget(project, clock, amount="100", alerts="50,100")
    await pass_by(project, clock)

    assert Counter(events(pagerduty)) == Counter(
        (action, key) for _, key in events(pagerduty)[:2] for action in ("trigger", "resolve")
    )


async def test_an_incident_of_a_rule_that_was_removed_is_resolved(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await break_error_rate(project, clock)
    await set_rules(project, clock, latency="2000", error_rate_unusual="1", min_runs="20")

    await pass_by(project, clock)

    assert actions(pagerduty) == ["trigger", "resolve"]


async def test_a_rule_whose_incident_was_resolved_alerts_again_at_once(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await break_error_rate(project, clock)
    await mend_error_rate(project, clock)
    await pass_by(project, clock)
    await send(project, clock.now, *failing(20, 20))
    await pass_by(project, clock)

    [(_, first), (_, resolved), (again, second)] = events(pagerduty)
    assert (resolved, again) == (first, "trigger")
    assert second != first


async def test_processes_that_evaluate_and_send_at_the_same_time_resolve_once(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await break_error_rate(project, clock)
    await mend_error_rate(project, clock)

    await asyncio.gather(*(AlertEvaluator(project, clock, None).evaluate() for _ in range(4)))
    async with running_sender(project, clock) as one, running_sender(project, clock) as other:
        await asyncio.gather(*(sender.work() for sender in (one, other, one, other)))

    assert actions(pagerduty) == ["trigger", "resolve"]


async def test_resolving_is_tried_again_while_pagerduty_is_away_and_after_a_process_was_killed(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await break_error_rate(project, clock)
    await mend_error_rate(project, clock)
    pagerduty.removed.add(HOST)
    for _ in range(3):
        await pass_by(project, clock)
        clock.advance(timedelta(minutes=10))
    # A process claims it, and is killed.
    async with project.connection() as connection:
        [claimed] = await sender.claim(connection, clock.now, clock.now + LEASE, 20)
    pagerduty.removed.clear()
    await pass_by(project, clock)
    assert (claimed.attempts, claimed.notice.is_over) == (4, True)
    assert actions(pagerduty) == ["trigger"]

    clock.advance(LEASE)
    await pass_by(project, clock)

    assert actions(pagerduty) == ["trigger", "resolve"]


async def test_an_incident_that_was_never_opened_is_not_resolved_until_it_is(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    pagerduty.removed.add(HOST)
    await break_error_rate(project, clock)
    await mend_error_rate(project, clock)
    await pass_by(project, clock)
    assert not events(pagerduty)

    pagerduty.removed.clear()
    clock.advance(timedelta(minutes=10))
    for _ in range(2):
        await pass_by(project, clock)

    assert actions(pagerduty) == ["trigger", "resolve"]


async def test_a_late_result_of_the_alert_does_not_pass_for_that_of_resolving(
    project: Database, clock: SteppedClock, pagerduty: Vendors
) -> None:
    await set_rules(project, clock, error_rate="10", min_runs="20")
    await send(project, clock.now, *failing(10, 20))
    await AlertEvaluator(project, clock, None).evaluate()
    async with project.connection() as connection:
        claimed = await sender.claim(connection, clock.now, clock.now, 20)
        [late] = [one for one in claimed if one.kind == TargetKind.PAGERDUTY]
    await pass_by(project, clock)
    await mend_error_rate(project, clock)
    await AlertEvaluator(project, clock, None).evaluate()

    async with project.connection() as connection:
        result = sender.DeliveryResult(
            late.project_id, late.alert_id, late.target_id, clock.now, None, clock.now, "late", late.is_open
        )
        await sender.update_delivery(connection, result)
    await pass_by(project, clock)

    assert actions(pagerduty) == ["trigger", "resolve"]
