"""Every SQL statement of the project is prepared against the migrated schema, so that a renamed column fails here."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import asyncpg

import runtally
from runtally.db.database import Database

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "UPSERT")
# A statement for psql, whose variables are no parameters, and beginnings of statements.
NOT_WHOLE = {"runtally.embedded.server", "runtally.usage.upkeep.differences"}


def statements() -> Iterator[tuple[str, str]]:
    for module in pkgutil.walk_packages(runtally.__path__, "runtally."):
        if module.name in NOT_WHOLE:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.isupper() and name[0] != "_" and isinstance(value, str) and value.strip().startswith(VERBS):
                yield f"{module.name}.{name}", value


async def test_each_statement_fits_the_schema(database: Database) -> None:
    refused = {}
    async with database.connection() as connection:
        for name, sql in statements():
            try:
                await connection.prepare(sql)
            except asyncpg.PostgresError as error:
                refused[name] = str(error)

    assert refused == {}


async def test_a_new_column_of_a_table_changes_no_result(own: Database) -> None:
    """A connection keeps its prepared statements: one whose result changed while a migration ran would fail there."""
    async with own.connection() as connection:
        before = {name: (await connection.prepare(sql)).get_attributes() for name, sql in statements()}
        for table in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            await connection.execute(f'ALTER TABLE "{table[0]}" ADD COLUMN from_a_newer_version integer')

        changed = [
            name for name, sql in statements() if (await connection.prepare(sql)).get_attributes() != before[name]
        ]

    assert changed == []


def test_there_are_statements_to_look_at() -> None:
    assert len(dict(statements())) > 200


def test_no_statement_leaves_anything_in_its_session() -> None:
    """A connection goes back to its pool, or to a proxy's, as it is: nobody undoes what a statement set."""
    lasting = re.compile(r"\b(?:LISTEN|DISCARD)\b|\bSET (?!LOCAL|CONSTRAINTS|[a-z(])|pg_advisory_lock|CREATE TEMP|HOLD")

    left = [name for name, sql in statements() if lasting.search(sql)]

    assert left == []
