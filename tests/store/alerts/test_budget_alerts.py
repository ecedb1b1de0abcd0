"""Budgets for a day, for one value and for each value alert once a period; all projects together have budgets, too."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from runtally.alerts.budget_alerts import VALUES_QUIET
from runtally.alerts.evaluator import AlertEvaluator
from runtally.audit import OPERATOR
from runtally.budgets import edit
from runtally.budgets.spending import BudgetState, read_states
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.names import LiveNames
from runtally.usage.groups.groups import read_groups
from runtally.usage.groups.slices import WaitingRuns, select_waiting
from runtally.usage.upkeep.dimensions import merge_dimensions
from tests.documents import make_stored_run
from tests.relays import SteppedClock
from tests.store.alerts.test_evaluator import add_target, alerts


async def set_budget(database: Database, clock: SteppedClock, project_id: str = "p", **sent: str) -> None:
    async with database.session() as session:
        await edit.set_budget(session, OPERATOR, project_id, sent, clock.now)


async def spend(database: Database, at: datetime, amount: str, project_id: str = "p", **fields: Any) -> None:  # noqa: ANN401  # Any field.
    run = make_stored_run(project_id, str(uuid7()), occurred_at=at, cost_usd=Decimal(amount), **fields)
    async with database.connection() as connection:
        await insert_runs(connection, [run])


async def states(database: Database, now: datetime, project_id: str = "p") -> tuple[BudgetState, ...]:
    async with database.snapshot() as connection:
        return await read_states(connection, project_id, now, LiveNames(database, None))


async def test_a_budget_for_one_value_alerts_on_the_runs_of_this_value(project: Database, clock: SteppedClock) -> None:
    evaluator = AlertEvaluator(project, clock, "https://runtally.example")
    await add_target(project, "p")
    await set_budget(project, clock, dimension="metadata.feature", value="search", amount="10", alerts="50,100")
    await spend(project, clock.now, "100", metadata={"feature": "chat"})
    await spend(project, clock.now, "4.99", metadata={"feature": "search"})
    assert await evaluator.evaluate() == 0

    await spend(project, clock.now, "0.02", metadata={"feature": "search"})
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]

    [alert] = await alerts(project)
    assert (alert["level"], alert["deliveries"]) == (50, 1)
    assert alert["title"] == '"P" with feature "search" has reached 50% of its budget for November 2026'
    assert "has used 50% of its budget of $10.00 for November 2026" in alert["message"]
    assert json.loads(alert["document"])["data"] == {
        "projectId": "p",
        "projectName": "P",
        "period": "2026-11",
        "dimension": "metadata.feature",
        "thresholdPercent": 50,
        "budgetUSD": 10,
        "value": "search",
        "spentUSD": 5.01,
        "unpricedRuns": 0,
        "url": "https://runtally.example/projects/p",
    }


async def test_runs_that_are_merged_while_a_budget_is_read_count_once(
    project: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_budget(project, clock, dimension="metadata.feature", value="search", amount="10", alerts="100")
    await spend(project, clock.now, "100", metadata={"feature": "chat"})
    await spend(project, clock.now, "6", metadata={"feature": "search"})
    merged = 0

    async def read_and_merge(*arguments: Any) -> WaitingRuns:  # noqa: ANN401  # As the original.
        nonlocal merged
        found = await select_waiting(*arguments)
        merged += await merge_dimensions(project, clock.now, everything=True)
        return found

    monkeypatch.setattr("runtally.usage.groups.rows.select_waiting", read_and_merge)

    assert await AlertEvaluator(project, clock, None).evaluate() == 0
    assert merged


async def test_a_budget_for_each_user_names_each_that_is_above_it_once_a_day(
    project: Database, clock: SteppedClock
) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await set_budget(project, clock, dimension="user", amount="20", period="day", alerts="100")
    for user, amount in (("ada", "25"), ("bob", "20"), ("eve", "19.99"), (None, "500")):
        await spend(project, clock.now, amount, user_id=user)
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]
    await spend(project, clock.now, "0.01", user_id="eve")
    # Who comes within the hour is named after it, although nothing else happened meanwhile.
    assert await evaluator.evaluate() == 0
    clock.advance(VALUES_QUIET)
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]

    first, second = await alerts(project)
    assert first["title"] == '"P": 2 values of user have used up their budget for 20 Nov 2026 (UTC)'
    assert 'At 100% or more: "ada" $25.00, "bob" $20.00.' in first["message"]
    assert first["named"] == ["ada", "bob"]
    assert json.loads(first["document"])["data"]["values"][0] == {"value": "ada", "spentUSD": 25, "unpricedRuns": 0}
    assert second["title"] == '"P": user "eve" has used up its budget for 20 Nov 2026 (UTC)'

    clock.advance(timedelta(days=1))
    assert await evaluator.evaluate() == 0
    await spend(project, clock.now, "21", user_id="ada")
    assert await evaluator.evaluate() == 1
    assert (await alerts(project))[-1]["named"] == ["ada"]


async def test_a_value_alerts_at_each_share_that_it_reaches(project: Database, clock: SteppedClock) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await set_budget(project, clock, dimension="model", amount="10", alerts="50,100")
    await spend(project, clock.now, "6", model="small")
    await spend(project, clock.now, "11", model="large")
    assert await evaluator.evaluate() == 2
    await spend(project, clock.now, "6", model="small")
    clock.advance(VALUES_QUIET)
    assert await evaluator.evaluate() == 1

    found = sorted((one["level"], one["named"]) for one in await alerts(project))
    assert found == [(50, ["small"]), (100, ["large"]), (100, ["small"])]


async def test_budgets_of_all_projects_together_alert_to_their_own_targets(
    project: Database, clock: SteppedClock
) -> None:
    evaluator = AlertEvaluator(project, clock, "https://runtally.example/")
    await add_target(project, "")
    await add_target(project, "p")
    await set_budget(project, clock, "", amount="10", alerts="100")
    await set_budget(project, clock, "", dimension="model", value="acme-large", amount="10", period="day", alerts="100")
    await spend(project, clock.now, "6", "p")
    await spend(project, clock.now, "5", "q")

    assert await evaluator.evaluate() == 2

    titles = {(one["title"], one["deliveries"]) for one in await alerts(project)}
    assert titles == {
        ("Your organisation has reached 100% of its budget", 1),
        ('Your organisation with model "acme-large" has reached 100% of its budget for 20 Nov 2026 (UTC)', 1),
    }


async def test_a_budget_is_read_again_only_when_its_project_has_spent_more(
    project: Database,
    clock: SteppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await set_budget(project, clock, dimension="user", amount="20", period="day", alerts="100")
    read = []

    async def counted(*arguments: Any) -> Any:  # noqa: ANN401  # As the original.
        read.append(arguments)
        return await read_groups(*arguments)

    monkeypatch.setattr("runtally.budgets.spending.read_groups", counted)
    await spend(project, clock.now, "19", user_id="ada")
    await evaluator.evaluate()
    assert not read  # The whole project has not spent what one user may.

    await spend(project, clock.now, "2", user_id="bob")
    await evaluator.evaluate()
    await evaluator.evaluate()
    assert len(read) == 1


async def test_a_key_that_is_not_tracked_can_have_no_budget_and_one_that_was_says_why(
    project: Database, clock: SteppedClock
) -> None:
    await set_budget(project, clock, dimension="user", amount="20", alerts="100")
    async with project.connection() as connection:
        await connection.execute("UPDATE tracked_keys SET state = 'untracked' WHERE key = 'user'")
    await spend(project, clock.now, "100", user_id="ada")

    [state] = await states(project, clock.now)

    assert state.problem == "No sums are kept of user: track it under Tracked keys, or remove this budget."
    assert await AlertEvaluator(project, clock, None).evaluate() == 0


LAST_DAY = datetime(2026, 11, 30, tzinfo=UTC)
MIDNIGHT = LAST_DAY + timedelta(days=1)
ENDING: dict[str, dict[str, str]] = {
    "day": {"period": "day"},
    "month": {},
    "one value of a day": {"period": "day", "dimension": "user", "value": "ada"},
    "each value of a month": {"dimension": "user"},
}


@pytest.mark.parametrize("arrived", [timedelta(seconds=-8), timedelta(minutes=5), timedelta(hours=23)])
@pytest.mark.parametrize("name", ENDING)
async def test_a_budget_crossed_at_the_end_of_its_period_alerts_once_and_names_the_period(
    project: Database, clock: SteppedClock, name: str, arrived: timedelta
) -> None:
    """The last evaluation before is of 23:59:20; the runs that cross come at 23:59:52, or later with a time of before."""
    clock.now = LAST_DAY + timedelta(hours=23, minutes=59, seconds=20)
    await add_target(project, "p")
    await set_budget(project, clock, amount="1", alerts="50,100", **ENDING[name])
    await spend(project, clock.now, "0.40", user_id="ada")
    evaluator = AlertEvaluator(project, clock, None)
    assert await evaluator.evaluate() == 0

    clock.now = MIDNIGHT + max(arrived, timedelta(seconds=20))
    await spend(project, MIDNIGHT - timedelta(seconds=10), "1.00", user_id="ada")
    # Also by a process that has just started.
    decided = [await one.evaluate() for one in (evaluator, evaluator, AlertEvaluator(project, clock, None))]
    assert decided == [1, 0, 0]

    [alert] = await alerts(project)
    assert (alert["level"], alert["deliveries"], alert["created_at"]) == (100, 1, clock.now)
    assert ("30 Nov 2026" if "day" in name else "November 2026") in alert["title"]
    assert "That time is over: its last runs came in at its end or later." in alert["message"]
    assert "ends at" not in alert["message"]
    assert json.loads(alert["document"])["timestamp"] == clock.now.isoformat(timespec="seconds").replace("+00:00", "Z")

    clock.now = max(clock.now, MIDNIGHT) + timedelta(minutes=2)
    await spend(project, clock.now, "1.25", user_id="ada")
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]
    assert "That time is over" not in (await alerts(project))[-1]["message"]


async def test_what_a_period_had_alerted_on_before_its_end_is_not_said_again_after_it(
    project: Database, clock: SteppedClock
) -> None:
    clock.now = LAST_DAY + timedelta(hours=23)
    for terms in ENDING.values():
        await set_budget(project, clock, amount="1", alerts="50,100", **terms)
    await spend(project, clock.now, "1.40", user_id="ada")
    assert await AlertEvaluator(project, clock, None).evaluate() == len(ENDING)

    clock.now = MIDNIGHT + timedelta(seconds=20)
    assert await AlertEvaluator(project, clock, None).evaluate() == 0

    # Who comes at the end waits for an hour after the last message, as before it.
    await spend(project, MIDNIGHT - timedelta(seconds=1), "2", user_id="bob")
    clock.now = LAST_DAY + timedelta(hours=23, minutes=59, seconds=30)
    assert await AlertEvaluator(project, clock, None).evaluate() == 0
    clock.now = MIDNIGHT + timedelta(minutes=1)
    assert await AlertEvaluator(project, clock, None).evaluate() == 1
    assert (await alerts(project))[-1]["title"] == '"P": user "bob" has used up its budget for November 2026'


async def test_a_budget_says_nothing_of_a_period_that_ended_before_it_was_set(
    project: Database, clock: SteppedClock
) -> None:
    clock.now = MIDNIGHT + timedelta(minutes=1)
    await spend(project, MIDNIGHT - timedelta(hours=1), "5", user_id="ada")
    for terms in ENDING.values():
        await set_budget(project, clock, amount="1", alerts="50,100", **terms)

    assert await AlertEvaluator(project, clock, None).evaluate() == 0


async def test_a_period_that_ended_more_than_a_day_ago_is_not_judged(project: Database, clock: SteppedClock) -> None:
    clock.now = LAST_DAY
    for terms in ENDING.values():
        await set_budget(project, clock, amount="1", alerts="50,100", **terms)
    clock.now = MIDNIGHT + timedelta(days=1)
    await spend(project, MIDNIGHT - timedelta(seconds=10), "5", user_id="ada")

    assert await AlertEvaluator(project, clock, None).evaluate() == 0


async def test_a_clock_that_is_set_back_over_midnight_repeats_no_alert(project: Database, clock: SteppedClock) -> None:
    clock.now = LAST_DAY
    await set_budget(project, clock, amount="1", alerts="100", period="day", dimension="user")
    clock.now = MIDNIGHT + timedelta(minutes=5)
    await spend(project, MIDNIGHT - timedelta(hours=1), "5", user_id="ada")
    assert await AlertEvaluator(project, clock, None).evaluate() == 1

    clock.now = MIDNIGHT - timedelta(minutes=1)
    assert await AlertEvaluator(project, clock, None).evaluate() == 0
    await spend(project, MIDNIGHT - timedelta(hours=1), "5", user_id="bob")
    assert await AlertEvaluator(project, clock, None).evaluate() == 1
    clock.now = MIDNIGHT + timedelta(minutes=6)
    assert await AlertEvaluator(project, clock, None).evaluate() == 0


async def test_an_hour_above_an_amount_alerts_by_any_value_and_is_still_judged_in_the_next_one(
    project: Database, clock: SteppedClock
) -> None:
    evaluator = AlertEvaluator(project, clock, None)
    await add_target(project, "p")
    await set_budget(project, clock, dimension="model", period="hour", amount="10", alerts="100")
    await set_budget(project, clock, period="hour", amount="15", alerts="100")
    for model in ("big", "small"):
        await spend(project, clock.now, "9", model=model)
    assert await evaluator.evaluate() == 1  # All runs of the hour.
    clock.now = clock.now.replace(minute=59)
    await spend(project, clock.now, "2", model="big")
    clock.advance(timedelta(minutes=5))
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [1, 0]
    await spend(project, clock.now, "9", model="big")
    assert await evaluator.evaluate() == 0

    whole, each = await alerts(project)
    hour = f"{clock.now - timedelta(hours=1):%d %b %Y, %H:00} (UTC)"
    assert whole["title"] == f'"P" has reached 100% of its budget for {hour}'
    assert each["title"] == f'"P": model "big" has used up its budget for {hour}'
    assert "Each value of model has a budget of $10.00 an hour." in each["message"]
    assert json.loads(each["document"])["data"]["period"] == f"{clock.now - timedelta(hours=1):%Y-%m-%dT%H}"
