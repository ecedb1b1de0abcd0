"""Every SQL statement of the project is prepared against the migrated schema, so that a renamed column fails here."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import runtally
from runtally.db.database import Connection

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "UPSERT")


def statements() -> Iterator[tuple[str, str]]:
    for module in pkgutil.walk_packages(runtally.__path__, "runtally."):
        if module.name.endswith("queries"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if name.isupper() and name[0] != "_" and isinstance(value, str) and value.strip().startswith(VERBS):
                    yield f"{module.name}.{name}", value


@pytest.mark.parametrize("statement", [pytest.param(sql, id=name) for name, sql in statements()])
async def test_the_statement_fits_the_schema(connection: Connection, statement: str) -> None:
    assert await connection.prepare(statement)


def test_no_statement_leaves_anything_in_its_session() -> None:
    """A connection goes back to its pool, or to a proxy's, as it is: nobody undoes what a statement set."""
    lasting = re.compile(r"\b(?:LISTEN|DISCARD)\b|\bSET (?!LOCAL|CONSTRAINTS|[a-z(])|pg_advisory_lock|CREATE TEMP|HOLD")

    left = [name for name, sql in statements() if lasting.search(sql)]

    assert left == []
