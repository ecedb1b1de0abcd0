"""The tables that a backup contains, and the schema version that they must have."""

from sqlmodel import SQLModel

import runtally.models  # noqa: F401  # So that all tables are known.
from runtally.db.database import Connection
from runtally.db.schema import HISTORIES, History, advice, newest, version_of
from runtally.errors import StoreUnavailable


def known_tables() -> list[str]:
    """Ours, those first that others refer to."""
    return [str(table.name) for table in SQLModel.metadata.sorted_tables]


async def revisions(connection: Connection) -> dict[str, str]:
    """The versions of the schema, by the table that remembers them; the reporting table may be alone in its database.

    Raises `StoreUnavailable` for versions that are not those of this code.
    """
    found = {one.version_table: await version_of(connection, one) for one in HISTORIES}
    made_of = {table: version for table, version in found.items() if version is not None}
    if any(made_of[one.version_table] != newest(one) for one in HISTORIES if one.version_table in made_of):
        raise StoreUnavailable(f"The database's {await advice(connection)}.")
    return made_of


def histories_of(made_of: dict[str, str]) -> list[History]:
    return [one for one in HISTORIES if one.version_table in made_of]
