"""Control and a cell at once, which in a small installation are one database, with one transaction for both.

Where they are two, the second one is committed first. What breaks off between the two must be right when it is done again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.db.database import Connection, Database


@asynccontextmanager
async def sessions(last: Database, first: Database) -> AsyncIterator[tuple[AsyncSession, AsyncSession]]:
    """Open a session in each, or one for both. Raises `StoreUnavailable`."""
    async with last.session() as session:
        if last.is_same(first):
            yield session, session
            return
        async with first.session() as other:
            yield session, other


@asynccontextmanager
async def open_second_transaction(connection: Connection, last: Database, first: Database) -> AsyncIterator[Connection]:
    """Open a transaction in each of two databases, or one for both where they are the same. Raises `StoreUnavailable`."""
    if last.is_same(first):
        yield connection
        return
    async with first.transaction() as other:
        yield other


@asynccontextmanager
async def patient(one: Database, other: Database) -> AsyncIterator[tuple[Database, Database]]:
    """Open both again for statements that may take long."""
    async with one.patient() as patient_one:
        if one.is_same(other):
            yield patient_one, patient_one
            return
        async with other.patient() as patient_other:
            yield patient_one, patient_other
