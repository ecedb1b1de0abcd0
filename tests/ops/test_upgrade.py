"""Every migration, one after the other, over tables with rows in them: none is lost or changed.

What a step makes is filled after it: two rows of each new table, one with a value in every column and one with as few as
there can be. A table whose constraints want something in particular says so in `VALUES`.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.db.migrate import config, upgrade
from runtally.db.schema import CELL, CONTROL, REPORTING, History, is_current
from runtally.errors import RuntallyError
from runtally.models.databases import DATABASE_ROLES, DatabaseRole
from runtally.usage.upkeep.repair_queries import rebuild_if_missing
from runtally.usage.upkeep.verify_queries import verify_sums
from runtally.usage.window import CustomRange, Window
from tests.serving import Postgres
from tests.summaries import read_summary

HISTORIES = {"control": CONTROL, "cell": CELL, "reporting": REPORTING}
# Made by the new version itself, when it finds none: from the runs, and one row for its archive and for a cell.
MADE_LATER = {
    "cell_identity",
    "installation",
    "rollups",
    "rollup_totals",
    "rollup_deltas",
    "sum_deltas",
    "latency_sketches",
    "latency_deltas",
    "dimension_sums",
    "dimension_latencies",
    "dimension_deltas",
}
BY_TYPE = {
    "text": "'{text}'",
    "character varying": "'{text}'",
    "boolean": "true",
    "smallint": "{number}",
    "integer": "{number}",
    "bigint": "{number}",
    "numeric": "{number}.5",
    "uuid": "'00000000-0000-0000-0000-00000000000{number}'",
    "bytea": "'\\x0{number}'",
    "jsonb": "'{{\"number\": {number}.50}}'",
    "ARRAY": "'{{}}'",
    "date": "'2026-0{number}-02'",
    "timestamp with time zone": "'2026-0{number}-02T03:04:05.678901Z'",
}
# By column, or by table and column.
VALUES = {
    "status": "'success'",
    "cost_source": "'catalog'",
    "match": "'exact'",
    "role": "'member'",
    "project_id": "'p'",
    "team_id": "'team::1'",
    "teams.id": "'team::1'",
    "projects.id": "'p'",
    "archive_files.state": "'kept'",
    "budgets.period": "'month'",
    "name_rules.storage": "'hashed'",
    "tracked_keys.state": "'tracked'",
    "alert_targets.kind": "'email'",
    "alerts.kind": "'budget'",
    "effective_to": "NULL",
    "withdrawn_at": "NULL",
    "retention_days": "365",
    "dropped_before": "NULL",
    "catalogue_key": "NULL",
    "currency": "'USD'",
    "pattern": "NULL",
    "source": "'admin'",
    "max_error_rate": "0.05",
    "state": "'done'",
    "sessions.key_id": "NULL",
    "invitations.user_id": "NULL",
}
SECOND_USER = "'00000000-0000-0000-0000-000000000002'"
# Of the second row: what it has in place of the first one's, or although it might be empty.
BARE = {
    "projects.id": "'q'",
    "project_places.project_id": "'q'",
    "team_projects.project_id": "'q'",
    "teams.id": "'team::2'",
    "budgets.project_id": "'q'",
    "sessions.user_id": SECOND_USER,
    "invitations.user_id": SECOND_USER,
}
COLUMNS = """
  SELECT table_name, column_name, data_type, is_nullable = 'YES' AS may_be_empty
    FROM information_schema.columns
    JOIN information_schema.tables USING (table_schema, table_name)
   WHERE table_schema = 'public'
     AND table_type = 'BASE TABLE'
     AND table_name NOT LIKE '%alembic_version'
     AND is_identity = 'NO'
ORDER BY table_name, ordinal_position
"""
FINGERPRINT = "SELECT count(*) || ' ' || md5(coalesce(string_agg(ROW({columns})::text, '|' ORDER BY ROW({columns})::text), '')) FROM {table}"

# What two databases have of the tables of a cell, whatever the order of their columns.
SHAPES = (
    """
    SELECT relname::text, attname::text, format_type(atttypid, atttypmod), attnotnull, attidentity::text,
           attstorage::text, pg_get_expr(adbin, adrelid), col_description(attrelid, attnum), reloptions::text
      FROM pg_attribute
      JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r' AND relnamespace = 'public'::regnamespace
 LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE attnum > 0 AND NOT attisdropped
    """,
    "SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0",
    "SELECT tablename::text, indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "SELECT 'tracked_keys', project_id, key, names::text, state FROM tracked_keys",
)

Tables = dict[str, list[str]]


@pytest.fixture
async def connection(postgres: Postgres) -> AsyncIterator[Connection]:
    async with Database(postgres.create("upgraded")) as database, database.connection() as connection:
        yield connection
    postgres.drop("upgraded")


def steps(history: History) -> list[str]:
    script = ScriptDirectory.from_config(config("postgresql://nowhere", history))
    return [revision.revision for revision in script.walk_revisions()][::-1]


async def columns_of(connection: Connection) -> dict[str, list[tuple[str, str, bool]]]:
    found: dict[str, list[tuple[str, str, bool]]] = {}
    for table, *column in await connection.fetch(COLUMNS):
        found.setdefault(table, []).append((column[0], column[1], column[2]))
    return found


async def fill(connection: Connection, known: Tables) -> None:
    """Each new table; one that refers to another comes after it."""
    waiting = {name: columns for name, columns in (await columns_of(connection)).items() if name not in known}
    for name in list(waiting):
        # A step may fill what it makes itself.
        if name in MADE_LATER or await connection.fetchval(f"SELECT count(*) FROM {name}"):
            del waiting[name]
    while waiting:
        done = [name for name, columns in waiting.items() if await filled(connection, name, columns)]
        assert done, f"say in VALUES what the columns of {', '.join(waiting)} may hold"
        for name in done:
            del waiting[name]


async def filled(connection: Connection, table: str, columns: list[tuple[str, str, bool]]) -> bool:
    try:
        async with connection.transaction():
            for number, text in enumerate(("full", "bare"), start=1):
                values = {
                    name: value_of(table, name, kind, number, text)
                    for name, kind, may in columns
                    if number == 1 or not may or f"{table}.{name}" in BARE
                }
                names = ", ".join(values)
                insert = f"INSERT INTO {table} ({names}) VALUES ({', '.join(values.values())})"
                await connection.execute(insert)
    except Exception as error:  # noqa: BLE001  # Whatever it lacks may come with another table.
        print(table, error)  # noqa: T201  # Shown when the test fails.
        return False
    return True


def value_of(table: str, name: str, kind: str, number: int, text: str) -> str:
    special = (BARE if number > 1 else {}).get(f"{table}.{name}") or VALUES.get(f"{table}.{name}") or VALUES.get(name)
    return special or BY_TYPE[kind].format(number=number, text=text)


async def contents(connection: Connection, tables: Tables) -> dict[str, str]:
    return {
        name: await connection.fetchval(FINGERPRINT.format(table=name, columns=", ".join(columns)))
        for name, columns in tables.items()
    }


async def tables_now(connection: Connection) -> Tables:
    return {name: [column for column, *_ in columns] for name, columns in (await columns_of(connection)).items()}


async def test_every_step_keeps_what_is_there_and_the_end_is_what_this_version_wants(
    connection: Connection, postgres: Postgres
) -> None:
    known: Tables = {}
    url = postgres.named("upgraded")
    for name, history in HISTORIES.items():
        for step in steps(history):
            before = await contents(connection, known)
            await asyncio.to_thread(command.upgrade, config(url, history), step)
            assert await contents(connection, known) == before, f"{name} {step} changed rows that were there"
            await fill(connection, known)
            known = await tables_now(connection)

    assert await is_current(connection)
    counts = {table: int(found.split()[0]) for table, found in (await contents(connection, known)).items()}
    assert {table for table, rows in counts.items() if not rows} <= MADE_LATER
    async with Database(url) as database:
        assert await rebuild_if_missing(database, system_clock())
        assert [found async for _, found in verify_sums(database, system_clock()) if found] == []
    window = Window.of(CustomRange(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)), system_clock())
    assert (await read_summary(connection, window, "p")).total.runs == 2


async def test_tables_that_another_session_holds_for_long_are_an_error_that_says_what_to_do(
    connection: Connection, postgres: Postgres
) -> None:
    url = postgres.named("upgraded")
    await asyncio.to_thread(command.upgrade, config(url, CONTROL), "0010")

    async with connection.transaction(isolation="repeatable_read"):
        await connection.fetch("SELECT id FROM projects")
        with pytest.raises(RuntallyError, match=r"backup, a long query .* Run it again"):
            await asyncio.to_thread(upgrade, url)
    await asyncio.to_thread(upgrade, url)

    assert await is_current(connection)


async def test_a_downgrade_forgets_roles_of_projects_that_are_no_longer_there(
    connection: Connection, postgres: Postgres
) -> None:
    url = postgres.named("upgraded")
    await asyncio.to_thread(upgrade, url)
    for project_id in ("p", "erased"):
        await connection.execute(
            """INSERT INTO users (id, email, name, password_hash, is_admin, created_at)
                    VALUES ($1, $2, 'Ann', '', false, now())""",
            uuid4(),
            f"{project_id}@example.com",
        )
        await connection.execute(
            "INSERT INTO memberships (user_id, project_id, role) SELECT id, $1, 'viewer' FROM users WHERE email = $2",
            project_id,
            f"{project_id}@example.com",
        )
    await connection.execute("INSERT INTO projects (id, name, created_at) VALUES ('p', 'p', now())")

    await asyncio.to_thread(command.downgrade, config(url, CONTROL), "0010")

    assert [row["project_id"] for row in await connection.fetch("SELECT project_id FROM memberships")] == ["p"]


async def test_a_cell_of_its_own_has_the_tables_that_are_beside_control(postgres: Postgres) -> None:
    together, alone = await shape_of(postgres, "together", *HISTORIES.values()), await shape_of(postgres, "alone", CELL)

    assert alone
    assert alone == together


async def shape_of(postgres: Postgres, name: str, *histories: History) -> set[tuple[object, ...]]:
    """What is in a new database of the tables of a cell."""
    url = postgres.create_migrated(name, *histories)
    async with Database(url) as database, database.connection() as connection:
        rows = [row for query in SHAPES for row in await connection.fetch(query)]
    postgres.drop(name)
    return {tuple(row) for row in rows if DATABASE_ROLES.get(row[0]) in {DatabaseRole.CELL, DatabaseRole.EVERY}}
