"""The yardstick of the database: as many rows as Postgres takes by COPY, with nothing around it."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

import asyncpg

from benchmarks.store import Connection, execute

ROWS: Final = 1_000
CONNECTIONS: Final = 8
_TAG = b"@@@@@@@@@@@@"
_COLUMNS = (
    "project_id", "id", "occurred_at", "provider", "model", "status", "input_tokens", "output_tokens", "latency_ms",
    "cost_usd", "cost_source", "cost_estimated", "price_entry_id", "metadata", "created_at", "version",
)  # fmt: skip
_METADATA = (
    '{"region": "eu-west-1", "release": "2026.11.20", "feature": "checkout-assistant", "attempt": 1, "stream": true}'
)
# The indexes are what the questions about runs need, so Postgres alone would have to write them too.
_TABLE = "CREATE TABLE copied_runs (LIKE runs INCLUDING INDEXES)"


def copy_rate(url: str, seconds: float) -> float:
    """Rows a second over 8 connections, 1,000 rows a transaction, into a table with the columns and indexes of `runs`."""
    execute(url, "DROP TABLE IF EXISTS copied_runs", _TABLE)
    rate = asyncio.run(_rate(url, seconds))
    execute(url, "DROP TABLE copied_runs")
    return rate


async def _rate(url: str, seconds: float) -> float:
    connections: list[Connection] = [await asyncpg.connect(url) for _ in range(CONNECTIONS)]
    payload = "".join(_line(number) for number in range(ROWS)).encode()
    started = time.perf_counter()
    copied = await asyncio.gather(
        *(_copy(connection, payload, number, started + seconds) for number, connection in enumerate(connections))
    )
    rate = sum(copied) / (time.perf_counter() - started)
    for connection in connections:
        await connection.close()
    return rate


async def _copy(connection: Connection, payload: bytes, number: int, until: float) -> int:
    copied = 0
    while time.perf_counter() < until:
        rows = payload.replace(_TAG, f"{number:02}-{copied:09}".encode())
        await connection.copy_to_table("copied_runs", columns=_COLUMNS, source=_chunks(rows))
        copied += ROWS
    return copied


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _line(number: int) -> str:
    values = (
        f"project-{number % 10}", f"{_TAG.decode()}-{number:023}", "2026-11-20 12:00:00.123456+00", "anthropic",
        "claude-sonnet-4-5", "success", number, number % 900, 400 + number, "0.001234560000", "catalog", "f", 17,
        _METADATA, "2026-11-20 12:00:01.123456+00", 1,
    )  # fmt: skip
    return "\t".join(map(str, values)) + "\n"
