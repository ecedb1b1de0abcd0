"""`runtally retention` on a real database."""

import asyncio
from pathlib import Path

from click.testing import CliRunner, Result

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run
from webapp.cli import main


async def insert(database_url: str) -> None:
    async with Database(database_url) as database, database.connection() as connection:
        await insert_runs(connection, [make_stored_run("support", "a")])


def test_days_are_set_and_listed_and_due_runs_are_dropped(empty_database_url: str, tmp_path: Path) -> None:
    asyncio.run(insert(empty_database_url))
    environment = {"DATABASE_URL": empty_database_url, "DATA_DIR": str(tmp_path), "RETENTION_DAYS": "365"}

    def run(*arguments: str) -> Result:
        return CliRunner(env=environment).invoke(main, ["retention", *arguments])

    assert run("list").output.split() == ["support", "365", "days", "by", "RETENTION_DAYS"]
    assert run("set", "support", "90").output == "support keeps its runs 90 days.\n"
    assert run("list").output.split() == ["support", "90", "days"]
    assert run("set", "support", "forever").output == "support keeps its runs for ever.\n"
    assert run("set", "support", "default").output == "support keeps its runs 365 days.\n"
    assert run("drop").output.endswith("Dropped 0 runs.\n")
    assert run("set", "support", "7").output == "Error: Keep runs 31 to 3650 days, or for ever.\n"
    assert run("set", "support", "soon").exit_code == 2
