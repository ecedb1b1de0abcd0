"""Each alert is decided once, however many processes evaluate."""

import asyncio
import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from runtally.alerts.evaluator import QUIET, AlertEvaluator
from runtally.clock import HOUR
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.alert import AlertTarget, TargetKind
from runtally.models.budget import Budget
from tests.documents import make_stored_run
from tests.relays import SteppedClock

URL = "https://example.com/alerts"


async def add_target(database: Database, project_id: str, **columns: Any) -> None:  # noqa: ANN401  # Any column.
    values: dict[str, Any] = {
        "kind": TargetKind.EMAIL,
        "address": "ada@example.com",
        "of_unusual_cost": True,
        "created_at": SteppedClock().now,
    }
    async with database.session() as session:
        session.add(AlertTarget(project_id=project_id, id=uuid7(), **values | columns))


async def set_budget(database: Database, clock: SteppedClock, amount: int) -> None:
    async with database.session() as session:
        budget = Budget(
            project_id="p",
            amount_usd=Decimal(amount),
            alert_percents=[50, 80, 100],
            created_at=clock.now,
            updated_at=clock.now,
        )
        await session.merge(budget)


async def spend(database: Database, at: datetime, amount: str, project_id: str = "p") -> None:
    run = make_stored_run(project_id, str(uuid7()), occurred_at=at, cost_usd=Decimal(amount))
    async with database.connection() as connection:
        await insert_runs(connection, [run])


async def alerts(database: Database) -> list[dict[str, Any]]:
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT *, (SELECT count(*) FROM alert_deliveries WHERE alert_id = alerts.id) AS deliveries "
            "FROM alerts ORDER BY created_at, id"
        )
    return [dict(row) for row in rows]


async def test_each_share_of_a_budget_alerts_once_a_month(own: Database, clock: SteppedClock) -> None:
    evaluator = AlertEvaluator(own, clock, "https://runtally.example/")
    await add_target(own, "p", of_unusual_cost=False)
    await add_target(own, "p", kind=TargetKind.WEBHOOK, address=URL, of_unusual_cost=False)
    await set_budget(own, clock, 100)
    decided = []
    for amount in ("49.99", "0.01", "5", "30", "100"):
        await spend(own, clock.now, amount)
        decided += [await evaluator.evaluate(), await evaluator.evaluate()]
        clock.advance(timedelta(hours=1))

    found = await alerts(own)
    assert decided == [0, 0, 1, 0, 0, 0, 1, 0, 1, 0]
    assert [(one["level"], one["deliveries"]) for one in found] == [(50, 2), (80, 2), (100, 2)]
    assert found[1]["title"] == '"p" has reached 80% of its budget'
    assert "85% of its budget of $100.00 for November 2026" in found[1]["message"]
    document = json.loads(found[1]["document"])
    assert document["type"] == "budget.threshold_reached"
    assert document["data"] | {"forecastUSD": None} == {
        "projectId": "p",
        "projectName": "p",
        "month": "2026-11",
        "thresholdPercent": 80,
        "budgetUSD": 100,
        "spentUSD": 85,
        "forecastUSD": None,
        "unpricedRuns": 0,
        "url": "https://runtally.example/projects/p",
    }
    clock.advance(timedelta(days=20))
    assert await evaluator.evaluate() == 0
    await spend(own, clock.now, "99")
    assert await evaluator.evaluate() == 1
    assert [one["level"] for one in await alerts(own)] == [50, 80, 100, 80]


async def test_a_changed_budget_alerts_anew(own: Database, clock: SteppedClock) -> None:
    evaluator = AlertEvaluator(own, clock, None)
    await set_budget(own, clock, 100)
    await spend(own, clock.now, "100")
    assert await evaluator.evaluate() == 1

    await set_budget(own, clock, 1000)
    assert await evaluator.evaluate() == 0
    await spend(own, clock.now, "450")

    assert await evaluator.evaluate() == 1
    assert [(one["subject"], one["level"]) for one in await alerts(own)] == [("2026-11 100", 100), ("2026-11 1000", 50)]


async def test_processes_that_evaluate_at_the_same_time_decide_once(own: Database, clock: SteppedClock) -> None:
    await add_target(own, "p")
    await set_budget(own, clock, 1)
    await spend(own, clock.now, "5")

    decided = await asyncio.gather(*(AlertEvaluator(own, clock, None).evaluate() for _ in range(8)))

    assert sum(decided) == 1
    [alert] = await alerts(own)
    assert (alert["level"], alert["deliveries"]) == (100, 1)


async def test_an_hour_far_above_the_usual_alerts_once_in_six_hours(own: Database, clock: SteppedClock) -> None:
    evaluator = AlertEvaluator(own, clock, None)
    await add_target(own, "p")
    await add_target(own, "p", kind=TargetKind.WEBHOOK, address=URL, of_unusual_cost=False)
    await add_target(own, "steady", address="b@example.com")
    hour = clock.now.replace(minute=0)
    for week in range(1, 5):
        for project in ("p", "steady"):
            await spend(own, hour - timedelta(weeks=week), "2", project)
            await spend(own, hour - timedelta(weeks=week, hours=1), "2", project)
            await spend(own, hour - timedelta(weeks=week) + HOUR, "2", project)
    await spend(own, clock.now, "3.9")
    await spend(own, clock.now, "3.9", "steady")
    assert await evaluator.evaluate() == 0

    await spend(own, clock.now, "1")
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]

    [alert] = await alerts(own)
    assert (alert["project_id"], alert["kind"], alert["deliveries"]) == ("p", "anomaly", 1)
    assert "cost $4.90 so far" in alert["message"]
    assert "$2.00 is usual at this hour of the week; up to $4.00 is normal variation." in alert["message"]
    assert json.loads(alert["document"])["data"]["models"] == [
        {"provider": "acme", "model": "acme-large", "costUSD": 4.9}
    ]
    clock.advance(QUIET - timedelta(minutes=1))
    await spend(own, clock.now, "1000")
    assert await evaluator.evaluate() == 0
    clock.advance(timedelta(minutes=2))
    assert await evaluator.evaluate() == 1
