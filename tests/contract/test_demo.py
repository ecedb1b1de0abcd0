"""`runtally demo` against a real server: all of it arrives, a second time adds nothing, live traffic stops cleanly."""

import asyncio
import re
import signal
import sys
from pathlib import Path

from runtally.client.demo.projects import PROJECTS
from runtally.db.database import Database
from tests.commands import Finished, run_beside
from tests.serving import Server, free_port

ENVIRONMENT = {"DATA_DIR": "/nonexistent"}
IDS = [project.id for project in PROJECTS]


async def demo(url: str, key: str, *arguments: str) -> Finished:
    return await run_beside("demo", *arguments, "--url", url, environment={**ENVIRONMENT, "INGEST_API_KEY": key})


async def stored(database: Database, prefix: str) -> dict[str, int]:
    """Runs by project, of the runs whose id begins so."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT project_id, count(*) AS runs FROM runs WHERE project_id = ANY($1) AND starts_with(id, $2) GROUP BY 1",
            IDS,
            prefix,
        )
    return {row["project_id"]: row["runs"] for row in rows}


async def test_the_whole_demo_arrives_and_a_second_one_adds_only_later_runs(server: Server, database: Database) -> None:
    # A seed of its own: other tests may post the usual demo to the same projects.
    first = (await demo(server.url, server.ingest_key, "--days", "2", "--seed", "4711")).out
    after_first = await stored(database, "demo-4711-")
    second = (await demo(server.url, server.ingest_key, "--days", "2", "--seed", "4711")).out

    added = re.search(r"([\d,]+) runs added and 0 there already", first)
    assert added
    assert sum(after_first.values()) == int(added[1].replace(",", ""))
    assert set(after_first) == set(IDS)
    assert f"Open {server.url}" in first
    # A few calls may have ended between the two.
    new = re.search(r"^(\d+) runs added and", second, re.MULTILINE)
    assert new
    assert int(new[1]) < 20


async def test_live_traffic_goes_on_until_it_is_stopped(server: Server, database: Database) -> None:
    before = await stored(database, "demo-live-")

    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("runtally"), "demo", "--url", server.url),
        *("--days", "1", "--seed", "4712", "--live"),
        env={**ENVIRONMENT, "INGEST_API_KEY": server.ingest_key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    while b"Ctrl-C stops it" not in await process.stdout.readline():
        assert process.returncode is None
    async with asyncio.timeout(60):
        while await stored(database, "demo-live-") == before:
            assert process.returncode is None
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert b"Stopped after" in out
    assert b"Traceback" not in err


async def test_without_a_server_the_error_tells_how_to_start_one() -> None:
    finished = await demo(f"http://127.0.0.1:{free_port()}", "some-key")

    assert finished.code == 1
    assert "make run" in finished.err
    assert "some-key" not in finished.err


async def test_without_a_key_the_error_tells_where_to_get_one() -> None:
    finished = await demo(f"http://127.0.0.1:{free_port()}", "")

    assert finished.code == 2
    assert "INGEST_API_KEY" in finished.err
