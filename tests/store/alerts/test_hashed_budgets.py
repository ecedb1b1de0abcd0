"""Budgets by the name of a person go on when the project begins to hash names, and nothing keeps the name."""

from datetime import timedelta
from decimal import Decimal

import pytest
from sqlmodel import col, select

from runtally import names as name_edit
from runtally.access.scopes import NameMask
from runtally.alerts.evaluator import AlertEvaluator
from runtally.audit import ANYONE, OPERATOR
from runtally.budgets import edit
from runtally.budgets.spending import BudgetState, read_states
from runtally.db.database import Database
from runtally.errors import InvalidBudget
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.audit import AuditEntry
from runtally.models.budget import Budget
from runtally.names import LiveNames, hash_name
from runtally.usage import masking
from runtally.usage.dimensions import DIMENSIONS
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.timeline import Timeline, TimeSpan
from tests.documents import make_stored_run
from tests.relays import SteppedClock
from tests.store.alerts.test_evaluator import add_target, alerts

SECRET = "a secret that keys the hashes of the tests"
HASH = hash_name(SECRET.encode(), "user", "ann")


@pytest.fixture
def names(project: Database) -> LiveNames:
    return LiveNames(project, SECRET)


async def set_rule(database: Database, clock: SteppedClock, names: LiveNames, storage: str) -> None:
    async with database.session() as session:
        await name_edit.set_rule(session, OPERATOR, "p", "user", storage, clock.now, can_hash=True)
    await names.refresh()


async def set_budget(database: Database, clock: SteppedClock, names: LiveNames, **sent: str) -> Budget:
    async with database.session() as session:
        return await edit.set_budget(session, OPERATOR, "p", {"dimension": "user"} | sent, clock.now, names)


async def spend(database: Database, clock: SteppedClock, names: LiveNames, user: str, amount: str) -> None:
    run = make_stored_run("p", str(uuid7()), occurred_at=clock.now, cost_usd=Decimal(amount), user_id=user)
    await names.refresh()
    names.apply(run)
    async with database.connection() as connection:
        await insert_runs(connection, [run])


async def states(database: Database, clock: SteppedClock, names: LiveNames) -> dict[str, BudgetState]:
    async with database.snapshot() as connection:
        found = await read_states(connection, "p", clock.now, names)
    return {one.terms.value: one for one in found}


async def logged(database: Database) -> list[str]:
    async with database.session() as session:
        return list((await session.exec(select(AuditEntry.target).order_by(col(AuditEntry.id)))).all())


async def test_a_name_and_its_hash_count_as_one_in_budgets_and_their_alerts(
    project: Database, clock: SteppedClock, names: LiveNames
) -> None:
    await add_target(project, "p")
    await set_budget(project, clock, names, value="ann", amount="1", alerts="80,100")
    await set_budget(project, clock, names, amount="0.90", alerts="80,100")
    await spend(project, clock, names, "ann", "0.50")
    await spend(project, clock, names, "bob", "0.60")
    await set_rule(project, clock, names, "hashed")
    await spend(project, clock, names, "ann", "0.50")

    found = await states(project, clock, names)
    assert [(one.value, one.spent_usd) for one in found["ann"].spendings] == [("ann", Decimal(1))]
    assert [(one.value, one.spent_usd) for one in found[""].spendings] == [("ann", Decimal(1)), ("bob", Decimal("0.6"))]
    assert [one.value for one in found[""].over] == ["ann"]
    assert await AlertEvaluator(project, clock, None, names=names).evaluate() == 2
    assert {one["title"] for one in await alerts(project)} == {
        '"P" with user "ann" has reached 100% of its budget for November 2026',
        '"P": user "ann" has used up its budget for November 2026',
    }

    clock.advance(timedelta(days=20))
    await spend(project, clock, names, "ann", "0.40")
    assert (await states(project, clock, names))["ann"].spent_usd == Decimal("0.4")


async def test_a_new_budget_by_a_name_that_is_hashed_is_kept_by_the_hash_and_logged_without_the_name(
    project: Database, clock: SteppedClock, names: LiveNames
) -> None:
    await set_budget(project, clock, names, value="ann", amount="1", period="month", alerts="80")
    await set_rule(project, clock, names, "hashed")
    await spend(project, clock, names, "ann", "0.50")

    # What was set before can be changed as it is; what is new has the hash.
    assert (
        await set_budget(project, clock, names, value="ann", amount="2", alerts="80", period="month")
    ).value == "ann"
    assert (await set_budget(project, clock, names, value="ann", amount="3", alerts="80", period="day")).value == HASH
    assert (await set_budget(project, clock, names, value=HASH, amount="4", alerts="80", period="day")).value == HASH

    assert {value: one.spent_usd for value, one in (await states(project, clock, names)).items()} == {
        "ann": Decimal("0.5"),
        HASH: Decimal("0.5"),
    }
    async with project.session() as session:
        for value in ("ann", HASH):
            await edit.remove(session, OPERATOR, "p", {"dimension": "user", "value": value, "period": "month"})
    of_budgets = [target for target in await logged(project) if target.startswith("p: ")]
    assert of_budgets == [
        "p: user (a name) month",
        "p: user (a name) month",
        f"p: user {HASH} day",
        f"p: user {HASH} day",
        "p: user (a name) month",
    ]


async def test_values_that_are_not_stored_can_have_no_budget_and_an_earlier_one_says_why_it_counts_nothing(
    project: Database, clock: SteppedClock, names: LiveNames
) -> None:
    await set_budget(project, clock, names, value="ann", amount="1", alerts="80")
    await set_rule(project, clock, names, "dropped")

    with pytest.raises(InvalidBudget) as refused:
        await set_budget(project, clock, names, value="bob", amount="1", alerts="80")
    assert [one.path for one in refused.value.details] == ["value"]
    [state] = (await states(project, clock, names)).values()
    assert "no longer stores values of user" in state.problem


@pytest.mark.parametrize("latencies", LatencyDetail)
async def test_readers_who_see_hashes_see_a_name_and_its_hash_as_one_group(
    project: Database, clock: SteppedClock, names: LiveNames, latencies: LatencyDetail
) -> None:
    await spend(project, clock, names, "ann", "0.50")
    await set_rule(project, clock, names, "hashed")
    await spend(project, clock, names, "ann", "0.25")
    span = TimeSpan(clock.now - timedelta(days=2), clock.now + timedelta(hours=1))
    question = Question(
        Timeline.whole(span, clock.now), RunFilter(project_id="p"), (DIMENSIONS["user"],), latencies=latencies
    )
    masking.use(NameMask(names, ANYONE))
    try:
        async with project.snapshot() as connection:
            answer = await read_groups([GroupRowReader.over(connection)], question)
    finally:
        masking.use(masking.ALL_NAMES)

    assert [(group, one.totals.runs, one.totals.cost_usd) for group, one in answer.groups.items()] == [
        ((HASH,), 2, Decimal("0.75"))
    ]
    assert answer.total.runs == 2
