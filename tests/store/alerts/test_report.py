"""The weekly report: what a week cost, how that changed, and which models changed it; once a week."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtally.alerts.evaluator import AlertEvaluator
from runtally.alerts.week import MOST_DRIVERS
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.alert import TargetKind
from tests.documents import make_stored_run
from tests.relays import SteppedClock
from tests.store.alerts.test_evaluator import add_target, alerts

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
DUE = MONDAY + timedelta(hours=8)


async def spend(database: Database, at: datetime, model: str, amount: str | None, project_id: str = "p") -> None:
    cost_usd = None if amount is None else Decimal(amount)
    run = make_stored_run(project_id, str(uuid7()), occurred_at=at, model=model, cost_usd=cost_usd)
    async with database.connection() as connection:
        await insert_runs(connection, [run])


async def evaluate(database: Database, clock: SteppedClock, at: datetime) -> int:
    clock.now = at
    return await AlertEvaluator(database, clock, None).evaluate()


async def test_a_report_has_the_cost_of_a_week_and_the_causes_of_its_change(own: Database, clock: SteppedClock) -> None:
    await add_target(own, "p", of_unusual_cost=False, weekly_report=True)
    await add_target(own, "p", kind=TargetKind.WEBHOOK, address="https://example.com", of_unusual_cost=False)
    # Just before and just after the bounds of the two weeks, whose costs are others'.
    await spend(own, MONDAY - 14 * DAY - MINUTE, "large", "1000")
    await spend(own, MONDAY, "large", "1000")
    await spend(own, MONDAY - 14 * DAY, "large", "6")
    await spend(own, MONDAY - 7 * DAY - MINUTE, "small", "2")
    await spend(own, MONDAY - 7 * DAY, "large", "1.5")
    await spend(own, MONDAY - MINUTE, "small", "10.25")
    await spend(own, MONDAY - DAY, "steady", None)

    assert await evaluate(own, clock, DUE - MINUTE) == 0
    assert await evaluate(own, clock, DUE) == 1
    assert await evaluate(own, clock, DUE + DAY) == 0

    [report] = await alerts(own)
    assert (report["kind"], report["subject"], report["deliveries"]) == ("report", "2026-W47", 1)
    assert report["title"] == '"p": $11.75 in the week to 22 Nov'
    assert report["message"].splitlines() == [
        '"p" cost $11.75 or more, for some runs have no price, from 16 Nov to 22 Nov 2026 (UTC), in 3 runs.',
        "The week before cost $8.00, so this is 47% more.",
        'Changed most: "small" +$8.25 (now $10.25), "large" -$4.50 (now $1.50).',
    ]
    document = json.loads(report["document"])
    assert document["type"] == "report.weekly"
    assert document["data"] == {
        "projectId": "p",
        "projectName": "p",
        "week": "2026-W47",
        "costUSD": 11.75,
        "previousCostUSD": 8,
        "runs": 3,
        "unpricedRuns": 1,
        "drivers": [
            {"provider": "acme", "model": "small", "costUSD": 10.25, "previousCostUSD": 2},
            {"provider": "acme", "model": "large", "costUSD": 1.5, "previousCostUSD": 6},
        ],
    }
    assert await evaluate(own, clock, DUE + 7 * DAY) == 1


async def test_five_models_are_named_the_largest_change_first(own: Database, clock: SteppedClock) -> None:
    await add_target(own, "p", of_unusual_cost=False, weekly_report=True)
    for number in range(MOST_DRIVERS + 2):
        await spend(own, MONDAY - DAY, f"model-{number}", str(number + 1))

    await evaluate(own, clock, DUE)

    [report] = await alerts(own)
    drivers = json.loads(report["document"])["data"]["drivers"]
    assert [one["model"] for one in drivers] == [f"model-{number}" for number in (6, 5, 4, 3, 2)]


async def test_no_report_is_sent_without_a_target_or_without_runs(own: Database, clock: SteppedClock) -> None:
    await add_target(own, "p", of_unusual_cost=False)
    await spend(own, MONDAY - DAY, "large", "1")
    await add_target(own, "idle", of_unusual_cost=False, weekly_report=True)

    assert await evaluate(own, clock, DUE) == 0


async def test_a_channel_that_is_added_after_the_report_was_due_waits_for_the_next(
    own: Database, clock: SteppedClock
) -> None:
    await add_target(own, "p", of_unusual_cost=False, weekly_report=True, created_at=DUE)
    await spend(own, MONDAY - DAY, "large", "1")

    assert await evaluate(own, clock, DUE + MINUTE) == 0
    assert await evaluate(own, clock, DUE + 7 * DAY) == 1
