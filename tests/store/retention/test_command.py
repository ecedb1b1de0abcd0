"""`runtally retention` on a real database."""

import asyncio
from pathlib import Path

from click.testing import CliRunner

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run
from webapp.cli import main


async def insert(database_url: str) -> None:
    async with Database(database_url) as database, database.connection() as connection:
        await insert_runs(connection, [make_stored_run("support", "a")])


def test_what_is_not_too_old_is_kept_and_how_many_were_dropped_is_said(empty_database_url: str, tmp_path: Path) -> None:
    asyncio.run(insert(empty_database_url))
    environment = {"DATABASE_URL": empty_database_url, "DATA_DIR": str(tmp_path), "RETENTION_DAYS": "365"}

    dropped = CliRunner(env=environment).invoke(main, ["retention", "drop"])

    assert dropped.output.endswith("Dropped 0 runs.\n")
