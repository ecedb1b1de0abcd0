"""Deleting a project, in the database of live runs and in that of the reporting table."""

from datetime import timedelta

import pytest

from runtally.access.erasure import Places, erase_project
from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.alerts.message import ProjectLink
from runtally.alerts.registry import Channels
from runtally.alerts.targets import NewTarget, TargetEditor
from runtally.audit import OPERATOR
from runtally.budgets import edit
from runtally.db.database import Connection, Database
from runtally.errors import NotFound, StoreUnavailable
from runtally.ingest.queries import insert_runs
from runtally.models.project import ApiKey
from runtally.reporting.copy_queries import upsert_reported
from runtally.usage.colour_queries import Colours
from runtally.usage.upkeep.queries import expire_buckets
from tests.documents import NOW, make_stored_run
from tests.serving import free_port
from tests.stored import until_merged

OWN = ("budgets", "alerts", "alert_targets", "alert_deliveries")
# So that no process of another test sends it.
NEVER_DUE = NOW + timedelta(days=3650)
TABLES = ("projects", "runs", "rollups", "outbox", "outbox_arrivals", "reporting_runs", *OWN)


async def fill(database: Database, *project_ids: str) -> None:
    """Store a run of each, live, queued and reported; a budget, and a target for its alerts."""
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
        project = ProjectLink(project_id, project_id, None)
        async with Channels.opened(None, allow_private=False) as channels, database.session() as session:
            editor = TargetEditor(database, channels, lambda: NEVER_DUE)
            new = NewTarget("https://example.com/", of_unusual_cost=True)
            target = await session.merge(await editor.add_untested(OPERATOR, project, new))
            await editor.queue_test(session, OPERATOR, target, project)
    await until_merged(database)


async def count(connection: Connection, table: str, project_id: str) -> int:
    key = "id" if table == "projects" else "project_id"
    found = await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {key} = $1", project_id)
    return int(found)


async def test_nothing_is_left_of_a_project_and_everything_of_the_others(database: Database, project_id: str) -> None:
    other = f"{project_id}-other"
    await fill(database, project_id, other)

    assert await erase_project(Places(database, database, database, None), OPERATOR, project_id) == 1

    async with database.connection() as connection:
        for table in TABLES:
            assert await count(connection, table, project_id) == 0
            assert await count(connection, table, other) > 0


async def test_no_name_of_its_models_is_left_in_sums_of_all_projects_and_in_repricings(
    database: Database, project_id: str
) -> None:
    model = f"secret-{project_id}"
    other = f"{project_id}-other"
    found = [{"project_id": one, "model": model if one == project_id else "shared"} for one in (project_id, other)]
    async with database.connection() as connection:
        await insert_runs(connection, [make_stored_run(project_id, "a", model=model)])
        ids = [
            await connection.fetchval(
                """INSERT INTO repricings (state, project_id, runs, seen, changed, found, author, created_at, updated_at)
                   VALUES ('compared', $1, 0, 0, 0, $2, 'somebody', $3, $3) RETURNING id""",
                of,
                found,
                NOW,
            )
            for of in (project_id, None)
        ]
    await until_merged(database)

    await erase_project(Places(database, database, database, None), OPERATOR, project_id)
    await until_merged(database)
    await expire_buckets(database, NOW)

    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM rollups WHERE model = $1", model) == 0
        left = await connection.fetch("SELECT id, found FROM repricings WHERE id = ANY ($1)", ids)
    assert [tuple(row) for row in left] == [(ids[1], [found[1]])]


async def test_no_colour_lets_a_guess_of_a_name_be_tested_after_its_project_is_gone(
    database: Database, project_id: str
) -> None:
    await fill(database, project_id)
    colours = Colours(database, lambda: NOW)
    given = {
        name: await colours.numbers_for(name, [f"{project_id}-hash"]) for name in ("user", "metadata.customer", "model")
    }
    assert all(given.values())
    kept = await colours.numbers_for("model", ["acme-large"])

    await erase_project(Places(database, database, database, None), OPERATOR, project_id)

    async with database.connection() as connection:
        left = [row["dimension"] for row in await connection.fetch("SELECT DISTINCT dimension FROM colours")]
        assert await connection.fetchval("SELECT count(*) FROM colours WHERE value = $1", f"{project_id}-hash") == 0
    assert set(left) <= {"provider", "model"}
    # That of a model with a price is nobody's secret, and stays.
    assert await Colours(database, lambda: NOW).numbers_for("model", ["acme-large"]) == kept
    # Whoever still has the name gets a colour again.
    assert await Colours(database, lambda: NOW).numbers_for("user", [f"{project_id}-hash"])


async def test_a_key_that_is_there_before_its_project_stays(database: Database, project_id: str) -> None:
    async with database.session() as session:
        key = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ]).row

    with pytest.raises(NotFound):
        await erase_project(Places(database, database, database, None), OPERATOR, project_id)

    async with database.session() as session:
        assert await session.get(ApiKey, key.id)


async def test_a_reporting_table_elsewhere_is_cleared_as_well(
    database: Database, empty_database_url: str, project_id: str
) -> None:
    await fill(database, project_id)
    async with Database(empty_database_url) as reporting:
        await fill(reporting, project_id, "other")

        await erase_project(Places(database, database, reporting, None), OPERATOR, project_id)

        async with reporting.connection() as connection:
            assert await count(connection, "reporting_runs", project_id) == 0
            assert await count(connection, "reporting_runs", "other") == 1


async def test_the_same_database_over_other_connections_is_cleared_in_one_transaction(
    database: Database, database_url: str, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(database, project_id)
    async with Database(database_url, connections=1, sessions=0) as reporting:
        monkeypatch.delattr(Database, "patient")
        monkeypatch.setattr(database, "patient", lambda: Database(database_url), raising=False)

        await erase_project(Places(database, database, reporting, None), OPERATOR, project_id)

    async with database.connection() as connection:
        assert await count(connection, "reporting_runs", project_id) == 0


async def test_while_the_reporting_table_is_away_nothing_is_deleted(database: Database, project_id: str) -> None:
    await fill(database, project_id)
    async with Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none") as away:
        with pytest.raises(StoreUnavailable):
            await erase_project(Places(database, database, away, None), OPERATOR, project_id)

    async with database.connection() as connection:
        for table in TABLES:
            assert await count(connection, table, project_id) > 0
