"""Alerts go when nobody asks for them any more, and not while one could be told twice without them."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from runtally.budgets import forgetting
from runtally.budgets.forgetting import KEPT, forget_alerts
from runtally.budgets.watch import Watch
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.models.alert import Alert, AlertDelivery, AlertKind
from tests.relays import SteppedClock
from tests.store.budgets.test_watch import alerts, set_budget, spend, tell

DAY = timedelta(days=1)


async def add_alert(database: Database, at: datetime, *, delivered: bool = True) -> UUID:
    id_ = uuid7()
    texts = dict.fromkeys(("title", "message", "document"), "x")
    async with database.session() as session:
        session.add(
            Alert(project_id="p", id=id_, kind=AlertKind.TEST, subject=str(id_), level=0, created_at=at, **texts)
        )
        delivered_at = at if delivered else None
        session.add(
            AlertDelivery(project_id="p", alert_id=id_, target_id=uuid7(), due_at=at, delivered_at=delivered_at)
        )
    return id_


async def deliveries(database: Database) -> set[UUID]:
    async with database.connection() as connection:
        return {row["alert_id"] for row in await connection.fetch("SELECT alert_id FROM alert_deliveries")}


async def test_what_is_older_than_13_months_goes_with_its_deliveries(own: Database, clock: SteppedClock) -> None:
    await add_alert(own, clock.now - KEPT - DAY)
    await add_alert(own, clock.now - KEPT - DAY, delivered=False)
    kept = {await add_alert(own, clock.now - KEPT + DAY), await add_alert(own, clock.now, delivered=False)}

    assert [await forget_alerts(own, clock.now), await forget_alerts(own, clock.now)] == [2, 0]

    assert {one["id"] for one in await alerts(own)} == kept
    assert await deliveries(own) == kept


async def test_it_goes_in_batches_which_processes_share(
    own: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "FORGOTTEN_AT_ONCE", 3)
    for _ in range(8):
        await add_alert(own, clock.now - KEPT - DAY)

    at_once = await asyncio.gather(*(forget_alerts(own, clock.now) for _ in range(2)))

    assert max(at_once) <= 3
    while await forget_alerts(own, clock.now):
        pass
    assert await deliveries(own) == set()


async def test_no_alert_is_told_twice_for_it(own: Database, clock: SteppedClock) -> None:
    """Whoever looks once more while an alert is forgotten does not decide it again."""
    watch = Watch(own, clock, None)
    await tell(own, "p")
    await set_budget(own, clock, 1)
    await spend(own, clock.now, "5")
    assert await watch.look() == 1

    clock.advance(KEPT + DAY)
    assert await forget_alerts(own, clock.now) == 1
    assert await watch.look() == 0
