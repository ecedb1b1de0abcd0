"""Control and cells may be different databases: no statement is about tables of both."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import runtally
from runtally.models import metadata
from runtally.models.databases import DATABASE_ROLES, DatabaseRole

APART = {DatabaseRole.CONTROL, DatabaseRole.CELL}
SQL = re.compile(r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|MERGE INTO)\b")
NAMED = re.compile(r"(?:\b(?:FROM|JOIN|INTO|UPDATE|USING|ONLY)|,)\s+(?:ONLY\s+)?\"?(\w+)")


def statements() -> Iterator[tuple[str, str]]:
    """Everything that looks like SQL, also parts that are put together later."""
    for module in pkgutil.walk_packages(runtally.__path__, "runtally."):
        if module.name.startswith("runtally.client"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, str) and SQL.search(value) and name.isupper():
                yield f"{module.name}.{name}", value


def homes_in(sql: str) -> set[DatabaseRole]:
    return {DATABASE_ROLES[name] for name in NAMED.findall(sql) if name in DATABASE_ROLES} & APART


def test_every_table_has_a_database() -> None:
    assert set(DATABASE_ROLES) == set(metadata.tables)


def test_nothing_refers_from_one_database_to_another() -> None:
    references = [
        (table.name, key.column.table.name)
        for table in metadata.tables.values()
        for key in table.foreign_keys
        if DATABASE_ROLES[table.name] is not DATABASE_ROLES[key.column.table.name]
    ]

    assert references == []


def test_each_statement_is_about_one_database() -> None:
    homes = {name: homes_in(sql) for name, sql in statements()}

    assert len(homes) > 200
    assert {name: both for name, both in homes.items() if len(both) > 1} == {}


def test_tables_are_found_wherever_a_statement_names_them() -> None:
    assert homes_in("SELECT 1 FROM runs JOIN users ON TRUE") == APART
    assert homes_in("WITH a AS (DELETE FROM runs RETURNING 1) UPDATE price_entries SET x = 1") == APART
    assert homes_in("SELECT FROM projects, memberships") == APART
    assert homes_in("INSERT INTO audit_entries SELECT FROM runs") == {DatabaseRole.CELL}
