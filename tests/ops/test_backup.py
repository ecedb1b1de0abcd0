"""The commands that the documentation gives for a backup, run as they are."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from runtally.db.database import Database
from runtally.db.migrate import upgrade
from runtally.db.schema import REPORTING
from runtally.embedded.lifecycle import database_url
from runtally.ingest.queries import insert_runs
from runtally.settings import Settings
from tests.documents import make_stored_run
from tests.ops.processes import RUNTALLY, environment, run

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
TABLES = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
FINGERPRINT = "SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM {table} AS t"


async def fill(url: str) -> None:
    async with Database(url) as database, database.connection() as connection:
        runs = [make_stored_run(f"p{number % 3}", f"r{number}", metadata={"n": number}) for number in range(300)]
        await insert_runs(connection, runs)
        await connection.execute("CREATE DATABASE restored")


async def contents(url: str) -> dict[str, str]:
    """Every table with the number of its rows and a sum over all they hold."""
    async with Database(url) as database, database.connection() as connection:
        tables = [row[0] for row in await connection.fetch(TABLES)]
        return {table: await connection.fetchval(FINGERPRINT.format(table=table)) for table in tables}


def test_what_the_documentation_dumps_and_restores_is_all_there(settings: Settings, tmp_path: Path) -> None:
    commands = re.search(r"### Back up.*?```sh\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    assert commands
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".data").symlink_to(settings.data_dir)
    with database_url(settings) as url:
        upgrade(url)
        upgrade(url, REPORTING)
        asyncio.run(fill(url))
        restored = url.replace("/runtally?", "/restored?")

        subprocess.run(  # noqa: S603  # What we tell others to run.
            ["/bin/sh", "-ec", commands[1]],
            cwd=tmp_path,
            env=environment(settings.data_dir, DATABASE_URL=restored),
            check=True,
        )

        before, after = asyncio.run(contents(url)), asyncio.run(contents(restored))
        verified = run([RUNTALLY, "rollups", "verify"], settings.data_dir, DATABASE_URL=restored)

    assert after == before
    # Others use this server, too.
    assert int(after["public.runs"].partition(" ")[0]) >= 300
    assert verified.returncode == 0, verified.stdout
