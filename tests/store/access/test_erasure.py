"""Deleting a project, in the database of live runs and in that of the reporting table."""

from datetime import timedelta

import pytest

from runtally.access.erasure import erase_project
from runtally.audit import OPERATOR
from runtally.budgets import edit, targets
from runtally.budgets.message import About
from runtally.budgets.targets import Rules, Wanted
from runtally.db.database import Connection, Database
from runtally.errors import StoreUnavailable
from runtally.ingest.queries import insert_runs
from runtally.models.alert import TargetKind
from runtally.reporting.queries import upsert_reported
from tests.documents import NOW, make_stored_run
from tests.serving import free_port

OWN = ("budgets", "alerts", "alert_targets", "alert_deliveries")
TABLES = ("projects", "runs", "rollups", "outbox", "outbox_arrivals", "reporting_runs", *OWN)


async def fill(database: Database, *project_ids: str) -> None:
    """A run of each, live, queued and reported; a budget, and somebody who is told of it."""
    async with database.connection() as connection:
        for project_id in project_ids:
            run = make_stored_run(project_id, "a")
            await insert_runs(connection, [run])
            await connection.execute(
                "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at) VALUES ($1, 'a', 1, $2, $2)",
                project_id,
                NOW,
            )
            await upsert_reported(connection, [run], NOW)
    for project_id in project_ids:
        async with database.session() as session:
            await edit.set_budget(session, OPERATOR, project_id, {"amount": "5"}, NOW)
            wanted = Wanted(TargetKind.WEBHOOK, "https://example.com/", of_unusual_cost=True)
            rules = Rules(has_mail=False, allow_private=False)
            target = await targets.add(session, OPERATOR, project_id, wanted, rules, NOW)
            # Never due, so that no worker of another test sends it.
            later = NOW + timedelta(days=3650)
            await targets.send_test(session, OPERATOR, target, About(project_id, project_id, None), later)


async def count(connection: Connection, table: str, project_id: str) -> int:
    key = "id" if table == "projects" else "project_id"
    found = await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {key} = $1", project_id)
    return int(found)


async def test_nothing_is_left_of_a_project_and_everything_of_the_others(database: Database, project_id: str) -> None:
    other = f"{project_id}-other"
    await fill(database, project_id, other)

    assert await erase_project(database, database, OPERATOR, project_id) == 1

    async with database.connection() as connection:
        for table in TABLES:
            assert await count(connection, table, project_id) == 0
            assert await count(connection, table, other) > 0


async def test_a_reporting_table_elsewhere_is_cleared_as_well(
    database: Database, empty_database_url: str, project_id: str
) -> None:
    await fill(database, project_id)
    async with Database(empty_database_url) as reporting:
        await fill(reporting, project_id, "other")

        await erase_project(database, reporting, OPERATOR, project_id)

        async with reporting.connection() as connection:
            assert await count(connection, "reporting_runs", project_id) == 0
            assert await count(connection, "reporting_runs", "other") == 1


async def test_while_the_reporting_table_is_away_nothing_is_deleted(database: Database, project_id: str) -> None:
    await fill(database, project_id)
    async with Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none") as away:
        with pytest.raises(StoreUnavailable):
            await erase_project(database, away, OPERATOR, project_id)

    async with database.connection() as connection:
        for table in TABLES:
            assert await count(connection, table, project_id) > 0
