"""What is used of a budget, from the rollups, against the runs themselves."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtally.alerts.budget_alerts import budget_message
from runtally.alerts.message import ProjectLink
from runtally.audit import OPERATOR
from runtally.budgets import edit
from runtally.budgets.queries import get_use
from runtally.budgets.spending import read_state
from runtally.budgets.use import BudgetTerms, pace_since
from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.errors import InvalidBudget, NotFound
from runtally.ingest.queries import insert_runs
from runtally.models.budget import BudgetPeriod
from runtally.models.project import Project
from runtally.names import LiveNames
from tests.documents import make_stored_run

# In the first days of a month, so that the pace reaches back into the one before.
NOW = datetime(2026, 11, 3, 10, 20, tzinfo=UTC)


async def test_a_budget_is_used_by_the_runs_of_its_month(connection: Connection, project_id: str) -> None:
    offsets = [timedelta(hours=hours) for hours in (-900, -170, -169, -162, -60, -58.5, -58, -20, -1, 0, 20, 900)]
    runs = [
        make_stored_run(project_id, f"run-{number}", occurred_at=NOW + offset, cost_usd=Decimal(2) ** number)
        for number, offset in enumerate(offsets)
    ]
    unpriced = make_stored_run(project_id, "unpriced", occurred_at=NOW, cost_usd=None)
    await insert_runs(connection, [*runs, unpriced])
    await connection.execute("INSERT INTO budgets VALUES ($1, 4096, '{50}', $2, $2)", project_id, NOW)

    use = await get_use(connection, project_id, NOW)

    assert use is not None
    of_month = [run for run in runs if (run.occurred_at.year, run.occurred_at.month) == (2026, 11)]
    assert use.spent_usd == sum(run.cost_usd or 0 for run in of_month)
    assert (use.unpriced, use.is_minimum) == (1, True)
    assert use.recent is not None
    assert use.recent.since == pace_since(NOW)
    recent = [run for run in runs if pace_since(NOW) <= run.occurred_at <= NOW]
    assert use.recent.usd == sum(run.cost_usd or 0 for run in recent)
    assert await get_use(connection, f"{project_id}-other", NOW) is None


async def test_a_run_with_a_unit_without_a_price_makes_the_spending_a_minimum(
    connection: Connection, project_id: str
) -> None:
    run = make_stored_run(project_id, occurred_at=NOW, cost_usd=Decimal(7))
    await insert_runs(connection, [run])
    await connection.execute("INSERT INTO budgets VALUES ($1, 100, '{}', $2, $2)", project_id, NOW)
    whole = await get_use(connection, project_id, NOW)
    run.id, run.cost_is_minimum = "partly", True
    await insert_runs(connection, [run])

    use = await get_use(connection, project_id, NOW)

    assert whole is not None
    assert use is not None
    assert (whole.is_minimum, use.is_minimum, use.unpriced) == (False, True, 0)
    message = budget_message(ProjectLink("p", "P", None), use, 10, NOW).text
    assert "That is $14.00 or more, for some units of runs have no price." in message


async def test_a_run_with_a_unit_without_a_price_makes_what_a_day_has_cost_a_minimum(
    connection: Connection, project_id: str, database: Database
) -> None:
    terms = BudgetTerms(project_id, "", "", BudgetPeriod.DAY, Decimal(100), ())
    names = LiveNames(database, None)
    run = make_stored_run(project_id, occurred_at=NOW, cost_usd=Decimal(7))
    await insert_runs(connection, [run])
    whole = await read_state(connection, terms, NOW, names)
    run.id, run.cost_is_minimum = "partly", True
    await insert_runs(connection, [run])

    state = await read_state(connection, terms, NOW, names)

    assert [(one.is_minimum, one.spent_usd) for one in (*whole.spendings, *state.spendings)] == [
        (False, Decimal(7)),
        (True, Decimal(14)),
    ]


async def test_the_pace_of_a_young_project_begins_with_its_first_run(connection: Connection, project_id: str) -> None:
    first = NOW - timedelta(days=2)
    await insert_runs(connection, [make_stored_run(project_id, occurred_at=first, cost_usd=Decimal(7))])
    await connection.execute("INSERT INTO budgets VALUES ($1, 100, '{}', $2, $2)", project_id, NOW)

    use = await get_use(connection, project_id, NOW)

    assert use is not None
    assert use.recent is not None
    assert first - timedelta(hours=6) < use.recent.since <= first


@pytest.fixture
async def project(database: Database, project_id: str) -> str:
    async with database.session() as session:
        session.add(Project(id=project_id, name=project_id, created_at=system_clock()))
    return project_id


async def test_setting_changing_and_removing_a_budget_is_audited(database: Database, project: str) -> None:
    for sent in ({"amount": "400", "alerts": "100, 50,80%"}, {"amount": "$1,250.50", "alerts": ""}):
        async with database.session() as session:
            await edit.set_budget(session, OPERATOR, project, sent, NOW)
    async with database.session() as session:
        budget = await edit.get(session, project)
        assert budget is not None
        assert (budget.amount_usd, budget.alert_percents) == (Decimal("1250.5"), [])
        await edit.remove(session, OPERATOR, project)
        await edit.remove(session, OPERATOR, project)

    async with database.connection() as connection:
        entries = await connection.fetch("SELECT * FROM audit_entries WHERE project_id = $1 ORDER BY id", project)
    assert [entry["action"] for entry in entries] == ["budget.set", "budget.set", "budget.removed"]
    assert entries[0]["after"] == {"amount_usd": "400", "alert_percents": [50, 80, 100]}


@pytest.mark.parametrize("amount", ["", "0", "-1", "4e400", "NaN", "1.001", "much", "1000000000001"])
async def test_an_invalid_amount_is_refused_at_its_field(database: Database, project: str, amount: str) -> None:
    with pytest.raises(InvalidBudget) as refused:
        async with database.session() as session:
            await edit.set_budget(session, OPERATOR, project, {"amount": amount, "alerts": "50"}, NOW)

    assert [detail.path for detail in refused.value.details] == ["amount"]


@pytest.mark.parametrize("alerts", ["0", "half", "1001", "50; 80", "-5", "1,2,3,4,5,6,7,8,9,10,11", "²"])
async def test_an_invalid_share_is_refused_at_its_field(database: Database, project: str, alerts: str) -> None:
    with pytest.raises(InvalidBudget) as refused:
        async with database.session() as session:
            await edit.set_budget(session, OPERATOR, project, {"amount": "5", "alerts": alerts}, NOW)

    assert [detail.path for detail in refused.value.details] == ["alerts"]


async def test_a_project_that_is_not_there_gets_no_budget(database: Database, project_id: str) -> None:
    with pytest.raises(NotFound):
        async with database.session() as session:
            await edit.set_budget(session, OPERATOR, project_id, {"amount": "5"}, NOW)
