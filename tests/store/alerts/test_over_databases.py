"""Budgets and alerts over all projects, where these are in two databases."""

from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal

import pytest

from runtally.access import teams
from runtally.access.projects import create as create_project
from runtally.alerts.evaluator import AlertEvaluator
from runtally.audit import OPERATOR
from runtally.budgets.queries import get_use
from runtally.budgets.spending import read_states
from runtally.db.database import Database
from runtally.db.probe import Watch
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.names import LiveNames
from tests.relays import SteppedClock
from tests.serving import TEMPLATE, Postgres, free_port
from tests.store.alerts import test_report as reports
from tests.store.alerts.test_budget_alerts import set_budget, spend
from tests.store.alerts.test_evaluator import add_target, alerts
from tests.stored import until_merged

HOUR = timedelta(hours=1)


@pytest.fixture
async def other(postgres: Postgres) -> AsyncIterator[Database]:
    """The database of further projects."""
    async with Database(postgres.create("alerts_other", TEMPLATE)) as database:
        yield database
    postgres.drop("alerts_other")


@pytest.fixture
async def away() -> AsyncIterator[Database]:
    """A database that nobody reaches."""
    async with Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none") as database:
        yield database


def evaluator_of(own: Database, clock: SteppedClock, *others: Database) -> AlertEvaluator:
    return AlertEvaluator(own, clock, None, [Watch(one, one, [one]) for one in others])


async def merged(*databases: Database) -> None:
    for one in databases:
        await until_merged(one)


async def test_a_budget_counts_the_projects_of_both(own: Database, other: Database, clock: SteppedClock) -> None:
    await set_budget(own, clock, ALL_PROJECTS_KEY, amount="10", alerts="50,100")
    await set_budget(own, clock, ALL_PROJECTS_KEY, amount="8", period="day", alerts="100")
    await set_budget(own, clock, ALL_PROJECTS_KEY, dimension="model", amount="7", alerts="100")
    await spend(own, clock.now, "4", "here", model="both")
    await spend(other, clock.now - HOUR, "3.5", "there", model="both")
    await spend(other, clock.now, "1", "there", model="another")
    await merged(own, other)

    async with own.snapshot() as first, other.snapshot() as second:
        use = await get_use(first, ALL_PROJECTS_KEY, clock.now, [second])
    assert use is not None
    assert (use.spent_usd, use.recent and use.recent.usd) == (Decimal("8.5"), Decimal("8.5"))
    assert await evaluator_of(own, clock, other).evaluate() == 3
    found = await alerts(own)
    assert {one["project_id"] for one in found} == {ALL_PROJECTS_KEY}
    assert any("85% of its budget of $10.00" in one["message"] for one in found)
    assert any("both" in one["message"] for one in found)
    assert await alerts(other) == []


async def make_team(own: Database, clock: SteppedClock, **projects: Database) -> str:
    """A team of these projects, each in its database; the team and its budgets are in the first."""
    async with own.session() as session:
        team = await teams.create(session, session, OPERATOR, "search", "Search", clock.now)
    for project_id, database in projects.items():
        async with database.session() as cell:
            await create_project(cell, OPERATOR, project_id, clock.now)
        async with own.session() as session, database.session() as cell:
            await teams.move(session, cell, OPERATOR, project_id, "search")
    return team.id


async def test_a_budget_of_a_team_counts_its_projects_of_both_and_no_other(
    own: Database, other: Database, clock: SteppedClock
) -> None:
    team = await make_team(own, clock, here=own, there=other)
    await add_target(own, team)
    await set_budget(own, clock, team, amount="10", alerts="50,100")
    await set_budget(own, clock, team, amount="8", period="day", alerts="100")
    await set_budget(own, clock, team, dimension="model", amount="7", alerts="100")
    await spend(own, clock.now, "4", "here", model="both")
    await spend(other, clock.now - HOUR, "3.5", "there", model="both")
    await spend(other, clock.now, "1", "there", model="another")
    await spend(own, clock.now, "100", "of nobody", model="both")
    await merged(own, other)

    async with own.snapshot() as first, other.snapshot() as second:
        of_teams = await teams.select_team_projects(first)
        use = await get_use(first, team, clock.now, [second], of_teams)
        states = await read_states(first, team, clock.now, LiveNames(own, None), [second], of_teams)
    assert use is not None
    assert (use.project_id, use.amount_usd, use.spent_usd) == (team, Decimal(10), Decimal("8.5"))
    assert use.recent is not None
    assert use.recent.usd == Decimal("8.5")
    spent = [[(one.value, one.spent_usd) for one in state.spendings] for state in states]
    assert spent == [[("", Decimal("8.5"))], [("both", Decimal("7.5")), ("another", Decimal(1))]]
    evaluator = evaluator_of(own, clock, other)
    assert [await evaluator.evaluate(), await evaluator.evaluate()] == [3, 0]
    found = await alerts(own)
    assert {(one["project_id"], one["deliveries"]) for one in found} == {(team, 1)}
    assert any('"Team Search" has used 85% of its budget of $10.00' in one["message"] for one in found)

    async with own.session() as session:
        await teams.remove(session, session, OPERATOR, team)
    assert await evaluator.evaluate() == 0
    assert await alerts(own) == []


async def test_a_team_without_projects_has_spent_nothing(own: Database, clock: SteppedClock) -> None:
    team = await make_team(own, clock)
    await add_target(own, team, weekly_report=True)
    await set_budget(own, clock, team, amount="1", alerts="1")
    await spend(own, clock.now, "4", "here")

    async with own.snapshot() as connection:
        use = await get_use(connection, team, clock.now)
    assert use is not None
    assert use.spent_usd == 0
    assert await evaluator_of(own, clock).evaluate() == 0


async def test_a_weekly_report_counts_the_projects_of_both_or_waits(
    own: Database, other: Database, away: Database, clock: SteppedClock
) -> None:
    await add_target(own, ALL_PROJECTS_KEY, of_unusual_cost=False, weekly_report=True)
    await add_target(own, "p", of_unusual_cost=False, weekly_report=True)
    for database in (own, other):
        await reports.spend(database, reports.MONDAY - reports.DAY, "large", "1.5")
        await reports.spend(database, reports.MONDAY - 8 * reports.DAY, "large", "1")
    await merged(own, other)
    clock.now = reports.DUE

    # What is about one project is sent in any case.
    assert await evaluator_of(own, clock, other, away).evaluate() == 1
    assert await evaluator_of(own, clock, other).evaluate() == 1

    titles = {one["project_id"]: one["title"] for one in await alerts(own)}
    assert titles["p"] == '"p": $1.50 in the week to 22 Nov'
    assert titles[ALL_PROJECTS_KEY] == "Your organisation: $3.00 in the week to 22 Nov"


async def test_an_unusual_hour_is_one_of_both_together(own: Database, other: Database, clock: SteppedClock) -> None:
    await add_target(own, ALL_PROJECTS_KEY)
    hour = clock.now.replace(minute=0)
    for week in range(1, 5):
        for around in (-HOUR, timedelta(0), HOUR):
            for database in (own, other):
                await spend(database, hour - timedelta(weeks=week) + around, "2", "p")
    # Usual in each of them, and so in both.
    await spend(own, clock.now, "2", "p", model="large")
    await spend(other, clock.now, "2", "q", model="large")
    await merged(own, other)
    assert await evaluator_of(own, clock, other).evaluate() == 0

    await spend(own, clock.now, "10", "p", model="large")
    await spend(other, clock.now, "11", "q", model="large")
    await merged(own, other)
    assert await evaluator_of(own, clock, other).evaluate() == 1

    [alert] = await alerts(own)
    assert "cost $25.00 so far" in alert["message"]
    assert "$4.00 is usual" in alert["message"]
    assert "large" in alert["message"]


async def test_alerts_of_projects_go_on_while_another_database_fails_halfway(
    own: Database, other: Database, clock: SteppedClock
) -> None:
    await add_target(own, ALL_PROJECTS_KEY, of_unusual_cost=False, weekly_report=True)
    await add_target(own, "p", of_unusual_cost=False, weekly_report=True)
    await reports.spend(own, reports.MONDAY - reports.DAY, "large", "1.5")
    await merged(own)
    clock.now = reports.DUE
    async with other.connection() as connection:
        # It can be opened, but not read.
        await connection.execute("ALTER TABLE rollups RENAME TO elsewhere")

    assert await evaluator_of(own, clock, other).evaluate() == 1

    assert [one["project_id"] for one in await alerts(own)] == ["p"]
