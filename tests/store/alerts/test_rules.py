"""An hour that breaks a rule alerts once in six hours: by a threshold, or because it is far from usual."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from runtally.alerts import rule_edit
from runtally.alerts.evaluator import QUIET, AlertEvaluator
from runtally.audit import OPERATOR
from runtally.clock import HOUR
from runtally.db.database import Database
from runtally.errors import InvalidAlertRule
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status
from tests.documents import make_stored_run
from tests.relays import SteppedClock
from tests.store.alerts.test_evaluator import add_target, alerts


async def set_rules(database: Database, clock: SteppedClock, **sent: str) -> None:
    async with database.session() as session:
        await rule_edit.set_rules(session, OPERATOR, "p", sent, clock.now)


async def send(database: Database, at: datetime, *runs: dict[str, Any]) -> None:
    made = [make_stored_run("p", str(uuid7()), **({"occurred_at": at} | one)) for one in runs]
    async with database.connection() as connection:
        await insert_runs(connection, made)


def failing(failed: int, runs: int) -> Sequence[dict[str, Any]]:
    return [{"status": Status.ERROR if number < failed else Status.SUCCESS} for number in range(runs)]


async def test_an_error_rate_above_its_threshold_alerts_once_in_six_hours(
    project: Database, clock: SteppedClock
) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await add_target(project, "p", of_unusual_cost=False)
    await set_rules(project, clock, error_rate="10%", min_runs="20")
    await send(project, clock.now, *failing(10, 19))
    assert await evaluator.evaluate() == 0  # Too few runs.
    await send(project, clock.now - 2 * HOUR, *failing(90, 100))
    assert await evaluator.evaluate() == 0  # Not the last hour.

    await send(project, clock.now, *failing(0, 1))
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]

    [alert] = await alerts(project)
    assert (alert["kind"], alert["deliveries"]) == ("error_rate", 1)
    assert alert["title"] == '"P": error rate is 50.0%'
    assert "The error rate was 50.0% in 20 runs" in alert["message"]
    document = json.loads(alert["document"])
    assert document["type"] == "error_rate.high"
    assert (document["data"]["errorRate"], document["data"]["limit"], document["data"]["runs"]) == (0.5, 0.1, 20)

    clock.advance(QUIET + timedelta(minutes=1))
    assert await evaluator.evaluate() == 0
    await send(project, clock.now, *failing(20, 20))
    assert await evaluator.evaluate() == 1


async def test_latency_and_cache_hit_rate_alert_by_their_thresholds(project: Database, clock: SteppedClock) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await set_rules(project, clock, latency="2000", cache_hit_rate="30", min_runs="20")
    fast = [{"latency_ms": 100, "input_tokens": 100, "cached_input_tokens": 30}] * 19
    await send(project, clock.now, *fast, {"latency_ms": 5000, "input_tokens": 100, "cached_input_tokens": 30})
    assert await evaluator.evaluate() == 0  # One slow run of twenty is not the 95th percentile.

    await send(project, clock.now, {"latency_ms": 5000, "input_tokens": 100, "cached_input_tokens": 0})

    assert await evaluator.evaluate() == 2
    assert {(one["kind"], one["title"]) for one in await alerts(project)} == {
        ("latency", '"P": p95 latency is 5.0 s'),
        ("cache_hit_rate", '"P": cache hit rate is 28.6%'),
    }


async def test_an_hour_far_from_the_usual_one_alerts_once_it_is_over(project: Database, clock: SteppedClock) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await set_rules(project, clock, error_rate_unusual="1", latency_unusual="1", min_runs="20")
    hour = clock.now.replace(minute=0)
    for week in range(1, 5):
        for offset in (-HOUR, timedelta(), HOUR):
            at = hour - timedelta(weeks=week) + offset
            await send(project, at, *[{"latency_ms": 900} | one for one in failing(1, 20)])
    await send(project, hour, *[{"latency_ms": 1500} | one for one in failing(5, 20)])
    assert await evaluator.evaluate() == 0  # The hour is not over.

    clock.now = hour + HOUR + timedelta(minutes=6)
    async with project.connection() as connection:
        await connection.execute("ALTER TABLE alerts ADD CONSTRAINT none_stored CHECK (kind <> 'error_rate')")
    with pytest.raises(asyncpg.CheckViolationError):
        await evaluator.evaluate()
    async with project.connection() as connection:
        await connection.execute("ALTER TABLE alerts DROP CONSTRAINT none_stored")
    # Its alert was not stored, so the hour is judged again.
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]

    [alert] = await alerts(project)
    assert alert["kind"] == "error_rate"
    assert "5.0% is usual at this hour of the week; up to 10.0% is normal variation." in alert["message"]


async def test_rules_are_read_back_as_they_were_entered_and_removed_by_empty_fields(
    project: Database, clock: SteppedClock
) -> None:
    sent = {"error_rate": "2.5", "latency_unusual": "1", "cache_hit_rate": "40", "min_runs": "50"}
    await set_rules(project, clock, **sent)
    async with project.session() as session:
        fields = rule_edit.as_fields(await rule_edit.list_rules(session, "p"))
    assert {name: value for name, value in fields.items() if value} == sent

    await set_rules(project, clock)
    async with project.session() as session:
        assert not await rule_edit.list_rules(session, "p")
    async with project.connection() as connection:
        actions = await connection.fetch("SELECT action FROM audit_entries WHERE action LIKE 'alert_rules%'")
    assert len(actions) == 2


@pytest.mark.parametrize(
    ("field", "text"),
    [("error_rate", "101"), ("error_rate", "NaN"), ("latency", "0"), ("cache_hit_rate", "-1"), ("min_runs", "0")],
)
async def test_a_rule_that_cannot_be_read_is_refused_at_its_field(
    project: Database, clock: SteppedClock, field: str, text: str
) -> None:
    with pytest.raises(InvalidAlertRule) as refused:
        await set_rules(project, clock, **{field: text})
    assert [detail.path for detail in refused.value.details] == [field]
