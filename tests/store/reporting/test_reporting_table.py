"""The reporting table and its views, in the database of the runs and in one of their own."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Connection, Database
from runtally.db.migrate import models_differ, upgrade
from runtally.db.schema import CONTROL, LIVE, REPORTING, is_current, newest, version_of
from runtally.models.reporting import DAILY_VIEWS, DailyView, ReportingRun
from runtally.models.run import RunColumns, Status, StoredRun
from runtally.reporting.copy_queries import upsert_reported
from tests.documents import NOW, make_stored_run
from tests.serving import Postgres

LATER = NOW + timedelta(hours=1)

COMMENTS = """
  SELECT attname, col_description(attrelid, attnum)
    FROM pg_attribute
   WHERE attrelid = $1::regclass
     AND attnum > 0
ORDER BY attnum
"""

RUNS_AT_ONCE = (("a", 1), ("b", 3), ("a", 2), ("b", 1), ("b", 3))


async def test_a_version_that_is_not_newer_changes_nothing(connection: Connection, project_id: str) -> None:
    applied = [
        await upsert_reported(connection, [make_stored_run(project_id, version=version, latency_ms=version)], NOW)
        for version in (2, 2, 1, 3)
    ]

    row = await connection.fetchrow("SELECT version, latency_ms FROM reporting_runs WHERE project_id = $1", project_id)
    assert applied == [[True], [False], [False], [True]]
    assert row
    assert tuple(row) == (3, 3)


async def test_of_several_versions_at_once_the_newest_is_kept(connection: Connection, project_id: str) -> None:
    versions = [make_stored_run(project_id, run_id, version=version) for run_id, version in RUNS_AT_ONCE]

    applied = await upsert_reported(connection, versions, NOW)

    rows = await connection.fetch(
        "SELECT id, version FROM reporting_runs WHERE project_id = $1 ORDER BY id", project_id
    )
    assert applied == [False, True, True, False, False]
    assert list(map(tuple, rows)) == [("a", 2), ("b", 3)]


async def test_a_row_is_the_run_and_the_time_it_was_synced(connection: Connection, project_id: str) -> None:
    run = make_stored_run(project_id, cost_usd=Decimal("0.000000000001"), metadata={"n": [1, {"a": None}]})

    await upsert_reported(connection, [run], LATER)

    row = await connection.fetchrow("SELECT * FROM reporting_runs WHERE project_id = $1", project_id)
    assert row
    assert StoredRun(**{name: row[name] for name in StoredRun.__struct_fields__}) == run
    assert row["synced_at"] == LATER


def test_the_table_has_the_columns_of_a_run_and_the_time_of_the_sync() -> None:
    columns = [column.name for column in ReportingRun.metadata.tables["reporting_runs"].columns]

    assert columns == [*StoredRun.__struct_fields__, "synced_at"]
    assert issubclass(ReportingRun, RunColumns)


async def test_daily_views_add_up_exactly_by_day_in_utc(connection: Connection, project_id: str) -> None:
    just_before_midnight = NOW.replace(hour=23, minute=59, second=59)
    for number, (at, status, cost) in enumerate(
        [
            (NOW, Status.SUCCESS, "0.1"),
            (just_before_midnight, Status.ERROR, "0.200000000001"),
            (just_before_midnight, Status.TIMEOUT, None),
            (just_before_midnight + timedelta(seconds=1), Status.SUCCESS, "1"),
        ]
    ):
        run = make_stored_run(
            project_id,
            f"run-{number}",
            occurred_at=at,
            status=status,
            cost_usd=cost and Decimal(cost),
            cost_estimated=number == 1,
            latency_ms=number * 100,
            experiment_id="e" if number == 0 else None,
        )
        await upsert_reported(connection, [run], NOW)

    rows = await connection.fetch(
        "SELECT * FROM reporting_daily_projects WHERE project_id = $1 ORDER BY day", project_id
    )
    experiments = await connection.fetch("SELECT * FROM reporting_daily_experiments WHERE project_id = $1", project_id)

    assert [tuple(row) for row in rows] == [
        (
            date(2026, 11, 20),
            project_id,
            3,
            1,
            1,
            3000,
            300,
            Decimal("0.300000000001"),
            Decimal("0.200000000001"),
            1,
            200,
        ),
        (date(2026, 11, 21), project_id, 1, 0, 0, 1000, 100, Decimal(1), Decimal(0), 0, 300),
    ]
    assert [(row["experiment_id"], row["runs"]) for row in experiments] == [("e", 1)]


@pytest.mark.parametrize("declared", DAILY_VIEWS, ids=lambda view: view.name)
async def test_a_view_has_the_columns_and_comments_that_are_documented(
    connection: Connection, declared: DailyView
) -> None:
    found = await connection.fetch(COMMENTS, declared.name)
    comment = await connection.fetchval("SELECT obj_description($1::regclass)", declared.name)

    assert [tuple(row) for row in found] == list(declared.columns.items())
    assert comment == declared.comment


async def test_every_column_of_the_table_is_commented_in_the_database(connection: Connection) -> None:
    comments = [comment for _, comment in await connection.fetch(COMMENTS, "reporting_runs")]

    assert len(comments) > 20
    assert all(comments)


def test_migrations_make_what_the_models_declare_in_one_database(postgres: Postgres) -> None:
    url = postgres.create("one_database")
    upgrade(url)

    assert models_differ(url) is None


async def test_the_reporting_table_may_be_alone_in_a_database(postgres: Postgres) -> None:
    url = postgres.create_migrated("reporting_alone", REPORTING)

    async with Database(url) as database, database.connection() as connection:
        tables = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')"
        )
        version = await version_of(connection, REPORTING)
        main = await version_of(connection, CONTROL)

    assert {row["relname"] for row in tables} == {
        "reporting_runs",
        "reporting_alembic_version",
        *(view.name for view in DAILY_VIEWS),
    }
    assert (version, main) == (newest(REPORTING), None)


async def test_the_main_database_is_current_without_the_reporting_table(postgres: Postgres) -> None:
    url = postgres.create_migrated("main_alone", *LIVE)

    async with Database(url) as database, database.connection() as connection:
        assert await is_current(connection)
        await connection.execute("CREATE TABLE reporting_alembic_version AS SELECT 'old' AS version_num")
        assert not await is_current(connection)
