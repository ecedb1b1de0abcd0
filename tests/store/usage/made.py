"""Runs whose rollups are looked at, and whether these are their sums."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.usage.upkeep.verify_queries import verify_sums

TABLES = (
    "rollups",
    "rollup_totals",
    "sum_deltas",
    "latency_sketches",
    "latency_deltas",
    "dimension_sums",
    "dimension_latencies",
    "dimension_deltas",
)
# Also by the clock of the database `own`.
NOW = datetime(2026, 6, 15, 12, 34, 56, 789012, tzinfo=UTC)


async def differences(database: Database) -> dict[str, str]:
    """Where the rollups differ from the runs, by project."""
    return {str(scope): str(found) async for scope, found in verify_sums(database, NOW) if found}


async def insert(database: Database, sent: list[StoredRun]) -> None:
    async with database.connection() as connection:
        await insert_runs(connection, sent)


def made(project_id: str, run_id: str, age: timedelta = timedelta(0)) -> StoredRun:
    return StoredRun(
        project_id=project_id,
        id=run_id,
        occurred_at=NOW - age,
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        latency_ms=100 + len(run_id),
        cost_usd=Decimal("0.25"),
        created_at=NOW,
        version=1,
    )


async def clear(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("DELETE FROM tracked_keys WHERE project_id <> ''")
        await connection.execute(f"TRUNCATE runs, {', '.join(TABLES)}, projects, outbox, outbox_arrivals CASCADE")
