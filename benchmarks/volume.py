"""A table with millions of runs, made inside Postgres and grown from one size to the next."""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg

from benchmarks.processes import ROOT, runtally
from benchmarks.store import Connection, Postgres, execute, fetch_value, run

NAME = "volume"
LARGEST = "bench-0001"
"""The project with a fifth of all runs."""
EXPERIMENTER = "bench-0002"
"""The project whose runs belong to experiments, a twentieth of all runs."""
PROJECTS = 1_000
CHUNK = 50_000
CONNECTIONS = 2
# What was made today is still that of the last 30 days tomorrow, but for an edge.
KEPT = timedelta(days=1)
_INSERT = Path(__file__).with_name("volume.sql").read_text()
# As their first runs would have made them, but judged by ten thousand runs.
_EXPERIMENTS = """
INSERT INTO experiments (project_id, id, created_at, window_runs)
     SELECT project_id, experiment_id, min(created_at), 10000 FROM runs WHERE experiment_id IS NOT NULL GROUP BY 1, 2
ON CONFLICT DO NOTHING
"""
_NOTE = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"

Report = Callable[[int, int], None]


class Volume:
    """The database of the volumes; what an earlier benchmark made is used again where it can be."""

    def __init__(self, postgres: Postgres, smallest: int) -> None:
        self.url = postgres.named(NAME)
        self.runs = self._made(postgres, smallest)
        if not self.runs:
            postgres.create(NAME)
            runtally("migrate", database_url=self.url)
            runtally("prices", "sync", database_url=self.url)

    def grow(self, runs: int, report: Report) -> None:
        """Grow to so many runs. Afterwards the rollups are exact, and the table is vacuumed."""
        if runs <= self.runs:
            return
        asyncio.run(_insert(self.url, runs - self.runs, report))
        self.runs = runs
        # As if all had come at once: to add to rows of before would leave their old versions behind.
        execute(self.url, _EXPERIMENTS)
        execute(
            self.url,
            "TRUNCATE rollups, rollup_totals, sum_deltas, latency_sketches, latency_deltas, dimension_sums, dimension_latencies, dimension_deltas",
        )
        runtally("rollups", "rebuild", database_url=self.url)
        execute(self.url, "VACUUM (ANALYZE)", "CHECKPOINT")
        run(self.url, self._note)

    def _made(self, postgres: Postgres, smallest: int) -> int:
        """Runs that are there and fit: of this schema, of today, and not too many."""
        if os.environ.get("FRESH") == "1" or not postgres.has(NAME):
            return 0
        note = json.loads(fetch_value(self.url, _NOTE) or "{}")
        fits = (
            note.get("schema") == _schema()
            and datetime.fromisoformat(note["made"]) > datetime.now(UTC) - KEPT
            and note["runs"] <= smallest
        )
        return int(note["runs"]) if fits else 0

    async def _note(self, connection: Connection) -> None:
        note = json.dumps({"runs": self.runs, "made": datetime.now(UTC).isoformat(), "schema": _schema()})
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"COMMENT ON DATABASE \"{name}\" IS '{note}'")


def _schema() -> str:
    """Changes with any migration, and with what is inserted."""
    steps = sorted((ROOT / "alembic").rglob("*.py"))
    return hashlib.sha256(b"".join((_INSERT.encode(), *(step.read_bytes() for step in steps)))).hexdigest()[:16]


def fill(url: str, runs: int, until: datetime) -> None:
    """Insert so many runs of the 30 days before a time, without their sums."""
    asyncio.run(_insert(url, runs, lambda _done, _all: None, until))


async def _insert(url: str, runs: int, report: Report, until: datetime | None = None) -> None:
    now, inserted = until or datetime.now(UTC), 0
    starts = iter(range(1, runs + 1, CHUNK))
    # Nothing of this needs to survive a crash, unlike what is measured.
    connections: list[Connection] = [
        await asyncpg.connect(url, server_settings={"synchronous_commit": "off"}) for _ in range(CONNECTIONS)
    ]

    async def work(connection: Connection) -> None:
        nonlocal inserted
        for start in starts:
            end = min(start + CHUNK - 1, runs)
            await connection.execute(_INSERT, start, end, runs, now)
            inserted += end - start + 1
            report(inserted, runs)

    await connections[0].execute(
        "INSERT INTO projects (id, name, created_at) SELECT id, id, now() "
        "FROM (SELECT 'bench-' || lpad(n::text, 4, '0') AS id FROM generate_series(1, $1::int) AS n) AS ids "
        "ON CONFLICT DO NOTHING",
        PROJECTS,
    )
    await asyncio.gather(*map(work, connections))
    for connection in connections:
        await connection.close()
