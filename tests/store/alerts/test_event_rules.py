"""Rules on what happens once: a costly run, a new model, one without a price, and a key that is about to expire."""

import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from runtally.access import keys
from runtally.access.scopes import Scope
from runtally.alerts import rule_edit
from runtally.alerts.evaluator import AlertEvaluator
from runtally.alerts.event_rules import MOST_NAMED
from runtally.audit import OPERATOR
from runtally.clock import DAY, HOUR
from runtally.db.database import Database
from runtally.errors import InvalidAlertRule
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run
from tests.receiver import running_receiver
from tests.relays import SteppedClock
from tests.store.alerts.deliveries import add, running_sender
from tests.store.alerts.test_evaluator import alerts

MINUTE = timedelta(minutes=1)


async def set_rules(database: Database, clock: SteppedClock, **sent: str) -> None:
    async with database.session() as session:
        await rule_edit.set_rules(session, OPERATOR, "p", sent, clock.now)


async def send(database: Database, clock: SteppedClock, *runs: dict[str, Any]) -> Sequence[str]:
    at = {"occurred_at": clock.now, "created_at": clock.now, "provider": "openai"}
    made = [make_stored_run("p", str(uuid7()), **(at | one)) for one in runs]
    async with database.connection() as connection:
        await insert_runs(connection, made)
    return [one.id for one in made]


async def issue(database: Database, clock: SteppedClock, name: str, days: int, project_id: str = "p") -> keys.IssuedKey:
    async with database.session() as session:
        lifetime = timedelta(days=days)
        return keys.issue(
            session,
            clock.now,
            OPERATOR,
            project_id=project_id,
            scopes=[Scope.RUNS_WRITE],
            name=name,
            lifetime=lifetime,
        )


async def test_a_costly_run_reaches_a_webhook_and_each_further_one_is_named_once(
    project: Database, clock: SteppedClock
) -> None:
    evaluator = AlertEvaluator(project, clock, "https://runtally.example")
    await send(project, clock, {"cost_usd": Decimal(99)})  # Before the rule was set.
    clock.advance(MINUTE)
    await set_rules(project, clock, run_cost="$2.50")
    with running_receiver() as receiver:
        await add(project, clock, receiver.url)
        await send(project, clock, {"cost_usd": Decimal("2.5")})
        assert await evaluator.evaluate() == 0

        [costly, _] = await send(project, clock, {"cost_usd": Decimal("2.51"), "model": "big"}, {"cost_usd": None})
        assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]
        async with running_sender(project, clock) as sender:
            await sender.work()

        # Of yesterday, but stored now, while the alert keeps quiet; and one of this minute.
        late = {"cost_usd": Decimal(3), "occurred_at": clock.now - 20 * HOUR}
        further = await send(project, clock, late, {"cost_usd": Decimal(4)})
        clock.advance(HOUR - MINUTE)
        assert await evaluator.evaluate() == 0
        clock.advance(MINUTE)
        assert [await evaluator.evaluate(), await AlertEvaluator(project, clock, None).evaluate()] == [1, 0]
        async with running_sender(project, clock) as sender:
            await sender.work()

    first, second = [one for one in receiver.documents if one["type"] == "run.costly"]
    assert first["text"].startswith('"P": a run cost more than $2.5\nIt is: "big" $2.51 at ')
    assert first["data"]["runs"][0] | {"runId": costly, "model": "big", "costUSD": 2.51} == first["data"]["runs"][0]
    assert first["data"]["limitUSD"] == 2.5
    assert '"P": 2 runs cost more than $2.5 each' in second["text"]
    assert {one["runId"] for one in second["data"]["runs"]} == set(further)


async def test_more_costly_runs_than_an_alert_names_are_named_by_the_next_one(
    project: Database, clock: SteppedClock
) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await set_rules(project, clock, run_cost="1")
    await send(project, clock, *[{"cost_usd": Decimal(2)}] * (MOST_NAMED + 1))

    assert await evaluator.evaluate() == 1
    clock.advance(HOUR)
    assert await evaluator.evaluate() == 1

    assert [len(one["named"]) for one in await alerts(project)] == [MOST_NAMED, 1]
    assert ", and 990 more (UTC)." in (await alerts(project))[0]["message"]


async def test_a_model_alerts_when_it_is_used_for_the_first_time(project: Database, clock: SteppedClock) -> None:
    for ago in (40 * DAY, 3 * DAY, 2 * HOUR):
        clock.advance(-ago)
        await send(project, clock, {"model": "old", "cost_usd": Decimal(1)})
        clock.advance(ago)
    await set_rules(project, clock, new_model="1")
    evaluator = AlertEvaluator(project, clock, None)
    await send(project, clock, {"model": "old", "cost_usd": Decimal(1)})
    assert await evaluator.evaluate() == 0

    await send(project, clock, {"model": "new", "cost_usd": Decimal(1)}, {"model": "newer", "cost_usd": None})
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]

    [alert] = await alerts(project)
    assert (alert["kind"], alert["title"]) == ("new_model", '"P": 2 models are used for the first time')
    assert json.loads(alert["document"])["data"]["models"] == [
        {"provider": "openai", "model": "new"},
        {"provider": "openai", "model": "newer"},
    ]
    # It stays known, also to another process and on the next day.
    clock.advance(DAY + HOUR)
    await send(project, clock, {"model": "new", "cost_usd": Decimal(1)})
    assert await AlertEvaluator(project, clock, None).evaluate() == 0


async def test_a_model_alerts_with_its_first_run_without_a_price(project: Database, clock: SteppedClock) -> None:
    clock.advance(-2 * DAY)
    await send(project, clock, {"model": "known", "cost_usd": None}, {"model": "priced", "cost_usd": Decimal(1)})
    clock.advance(2 * DAY)
    await set_rules(project, clock, unpriced_model="1")
    await send(project, clock, {"model": "known", "cost_usd": None}, {"model": "priced", "cost_usd": None})

    assert await AlertEvaluator(project, clock, None).evaluate() == 1

    [alert] = await alerts(project)
    assert (alert["kind"], alert["title"]) == ("unpriced_model", '"P": a model has no price')
    assert 'Without a price: "priced" of "openai".' in alert["message"]


async def test_a_key_alerts_once_when_few_days_are_left_unless_it_was_rotated(
    project: Database, clock: SteppedClock
) -> None:
    await set_rules(project, clock, key_expiry="7")
    evaluator = AlertEvaluator(project, clock, None)
    await issue(project, clock, "CI", 9)
    await issue(project, clock, "of another project", 3, "q")
    rotated = await issue(project, clock, "rotated", 9)
    async with project.session() as session:
        keys.rotate(session, clock.now, OPERATOR, await session.merge(rotated.row), overlap=DAY)
    assert await evaluator.evaluate() == 0

    clock.advance(2 * DAY)
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]
    clock.advance(3 * DAY)
    assert await evaluator.evaluate() == 0

    [alert] = await alerts(project)
    assert (alert["kind"], alert["title"]) == ("key_expiry", '"P": 2 keys expire soon')
    # That which was rotated has a successor, which ends when it would have.
    [key, successor] = json.loads(alert["document"])["data"]["keys"]
    assert (key["name"], successor["name"], successor["keyId"] == str(rotated.row.id)) == ("CI", "rotated", False)
    assert f'"CI" on {clock.now + 4 * DAY:%d %b %Y}' in alert["message"]


async def test_event_rules_are_read_back_and_a_rule_that_is_saved_again_goes_on(
    project: Database, clock: SteppedClock
) -> None:
    sent = {"run_cost": "2.5", "new_model": "1", "unpriced_model": "1", "key_expiry": "7", "min_runs": "20"}
    await set_rules(project, clock, **sent)
    before = clock.now
    clock.advance(HOUR)
    await set_rules(project, clock, **(sent | {"key_expiry": "14"}))
    async with project.session() as session:
        rules = await rule_edit.list_rules(session, "p")
    assert {name: value for name, value in rule_edit.as_fields(rules).items() if value} == sent | {"key_expiry": "14"}
    async with project.connection() as connection:
        entries = await connection.fetch("SELECT after FROM audit_entries WHERE action = 'alert_rules.set' ORDER BY id")
    kinds = ["run_cost", "new_model", "unpriced_model", "key_expiry"]
    assert [sorted(one["after"]) for one in entries] == [sorted(kinds), ["key_expiry"]]
    assert {one.kind: one.updated_at for one in rules} == {
        "run_cost": before,
        "new_model": before,
        "unpriced_model": before,
        "key_expiry": clock.now,
    }


@pytest.mark.parametrize(("field", "text"), [("run_cost", "0"), ("run_cost", "much"), ("key_expiry", "91")])
async def test_an_event_rule_that_cannot_be_read_is_refused_at_its_field(
    project: Database, clock: SteppedClock, field: str, text: str
) -> None:
    with pytest.raises(InvalidAlertRule) as refused:
        await set_rules(project, clock, **{field: text})
    assert [detail.path for detail in refused.value.details] == [field]
