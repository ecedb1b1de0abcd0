"""Row 23: flushes over several connections at once, each of runs of a project of its own, as many processes have them."""

import asyncio
import time
from datetime import UTC, datetime
from decimal import Decimal

import asyncpg

from benchmarks import processes, store
from benchmarks.options import Options
from benchmarks.result import Figures, Row
from benchmarks.store import Connection, Postgres
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.jobs import merge_job, running
from runtally.models.run import CostSource, Status, StoredRun

CONNECTIONS = (1, 8, 32)
FLUSH = 100
MODELS = 8
# On two cores; that of one is the time in which nothing but the disk works.
GOAL = 1.5


def flushes(postgres: Postgres, options: Options) -> list[Row]:
    """Row 23: the rate over 1, 8 and 32 connections, in turn."""
    database = postgres.create("ingest")
    processes.runtally("migrate", database_url=database)
    rounds: dict[int, list[float]] = {number: [] for number in CONNECTIONS}
    flush_rate(database, CONNECTIONS[-1], options.warm_up_seconds)
    for _ in range(options.rounds):
        for number in CONNECTIONS:
            rounds[number].append(flush_rate(database, number, options.seconds))
    one, some, many = (Figures.of(rounds[number]) for number in CONNECTIONS)
    differing = processes.differences("rollups", "verify", database_url=database)
    return [
        Row(
            number=23,
            measure=f"flushes of {FLUSH} runs over {CONNECTIONS[1]} and {CONNECTIONS[2]} connections, a project each",
            service=f"{some:,.0f} and {many:,.0f} runs/s",
            yardstick=f"over one {one:,.0f} runs/s",
            result=f"{some.over(one):.2f} x and {many.over(one):.2f} x",
            goal=f">= {GOAL} x both",
            reached=min(some.over(one), many.over(one)) >= GOAL,
            stored=store.runs_in(database),
            void=differing or None,
            figures={f"over_{number}": Figures.of(rounds[number]) for number in CONNECTIONS},
        )
    ]


def flush_rate(url: str, connections: int, seconds: float) -> float:
    """Runs a second, while the job adds up what waits as it does in the service."""
    return asyncio.run(_rate(url, connections, seconds))


async def _rate(url: str, connections: int, seconds: float) -> float:
    async with Database(url) as database, running([merge_job(database, system_clock)]):
        opened: list[Connection] = [
            await asyncpg.connect(url, server_settings={"jit": "off"}) for _ in range(connections)
        ]
        began = time.perf_counter()
        stored = await asyncio.gather(
            *(_flush(connection, f"flushed-{number}", began + seconds) for number, connection in enumerate(opened))
        )
        rate = sum(stored) / (time.perf_counter() - began)
        for connection in opened:
            await connection.close()
    return rate


async def _flush(connection: Connection, project_id: str, until: float) -> int:
    stored = 0
    while time.perf_counter() < until:
        now = datetime.now(UTC)
        await insert_runs(connection, [_run(project_id, now, number) for number in range(FLUSH)], queued=False)  # type: ignore[arg-type]  # As a connection of a pool.
        stored += FLUSH
    return stored


def _run(project_id: str, now: datetime, number: int) -> StoredRun:
    return StoredRun(
        project_id=project_id,
        id=str(uuid7()),
        occurred_at=now,
        provider=f"provider-{number % 4}",
        model=f"model-{number % MODELS}",
        status=Status.SUCCESS,
        input_tokens=400 + number,
        output_tokens=number,
        latency_ms=200 + 13 * number,
        cost_usd=Decimal(number) / 10_000,
        cost_source=CostSource.CATALOG,
        metadata={"region": "eu-west-1", "release": "2026.11.20", "feature": "checkout-assistant"},
        created_at=now,
        version=1,
    )
