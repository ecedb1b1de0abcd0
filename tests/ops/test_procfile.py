"""The Procfile under a runner that starts all processes at once, gives each a port of its own, and ends all with the first."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from runtally.db.database import Database
from tests.factories import make_run
from tests.ops.processes import started, until
from tests.serving import PATIENCE_SECONDS, Postgres, free_port, is_live

PROCFILE = Path(__file__).parents[2] / "Procfile"
KEY = "ingest-key-of-the-procfile"


@pytest.fixture
def empty_url(postgres: Postgres) -> Iterator[str]:
    """A database without a table."""
    yield postgres.create("procfile")
    postgres.drop("procfile")


async def reported(url: str) -> int:
    async with Database(url) as database, database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM reporting_runs"))


def test_web_migrates_and_the_relay_copies_what_web_takes_in(empty_url: str, tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "DATABASE_URL": empty_url,
        "PORT": str(port),
        "INGEST_API_KEY": KEY,
        "SERVICE_SYNC_SIGN": "sync-secret",
        # Else web could have done it.
        "RELAY": "off",
        "LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-m", "honcho", "-f", str(PROCFILE), "-d", str(tmp_path), "start"]
    with started(command, tmp_path / "no-data", user=None, **settings) as runner:
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: runner.poll() is not None or is_live(url))
            headers = {"Authorization": f"Bearer {KEY}"}
            answer = httpx.post(
                f"{url}/api/ingest", json=make_run(projectId="shop"), headers=headers, timeout=PATIENCE_SECONDS
            )
            until(lambda: runner.poll() is not None or asyncio.run(reported(empty_url)))

            assert answer.status_code == 200
            assert runner.poll() is None
            assert is_live(url)
        finally:
            runner.terminate()
            out, _ = runner.communicate(timeout=60)
    assert "Traceback" not in out
