"""Old alerts are deleted, but not while one could be decided twice without them."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from runtally.alerts import evaluator as module
from runtally.alerts.evaluator import KEPT, AlertEvaluator, expire_alerts
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.models.alert import Alert, AlertDelivery, AlertKind
from tests.relays import SteppedClock
from tests.store.alerts.test_evaluator import add_target, alerts, set_budget, spend

DAY = timedelta(days=1)


async def add_alert(database: Database, at: datetime, *, delivered: bool = True) -> UUID:
    id_ = uuid7()
    async with database.session() as session:
        session.add(
            Alert(
                project_id="p",
                id=id_,
                kind=AlertKind.TEST,
                subject=str(id_),
                level=0,
                title="x",
                message="x",
                document="x",
                created_at=at,
            )
        )
        delivered_at = at if delivered else None
        session.add(
            AlertDelivery(project_id="p", alert_id=id_, target_id=uuid7(), due_at=at, delivered_at=delivered_at)
        )
    return id_


async def deliveries(database: Database) -> set[UUID]:
    async with database.connection() as connection:
        return {row["alert_id"] for row in await connection.fetch("SELECT alert_id FROM alert_deliveries")}


async def test_alerts_older_than_13_months_are_deleted_with_their_deliveries(
    own: Database, clock: SteppedClock
) -> None:
    await add_alert(own, clock.now - KEPT - DAY)
    await add_alert(own, clock.now - KEPT - DAY, delivered=False)
    kept = {await add_alert(own, clock.now - KEPT + DAY), await add_alert(own, clock.now, delivered=False)}

    assert [await expire_alerts(own, clock.now), await expire_alerts(own, clock.now)] == [2, 0]

    assert {one["id"] for one in await alerts(own)} == kept
    assert await deliveries(own) == kept


async def test_they_are_deleted_in_batches_which_processes_share(
    own: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXPIRED_AT_ONCE", 3)
    for _ in range(8):
        await add_alert(own, clock.now - KEPT - DAY)

    at_once = await asyncio.gather(*(expire_alerts(own, clock.now) for _ in range(2)))

    assert max(at_once) <= 3
    while await expire_alerts(own, clock.now):
        pass
    assert await deliveries(own) == set()


async def test_no_expired_alert_is_decided_again(own: Database, clock: SteppedClock) -> None:
    """Evaluating once more after an alert has expired does not decide it again."""
    evaluator = AlertEvaluator(own, clock, None)
    await add_target(own, "p")
    await set_budget(own, clock, 1)
    await spend(own, clock.now, "5")
    assert await evaluator.evaluate() == 1

    clock.advance(KEPT + DAY)
    assert await expire_alerts(own, clock.now) == 1
    assert await evaluator.evaluate() == 0
