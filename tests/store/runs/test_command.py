"""`runtally runs` on a real database."""

import asyncio
import csv
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run
from webapp.cli import main


@pytest.fixture
def environment(empty_database_url: str, tmp_path: Path) -> dict[str, str]:
    """The settings of a service with three runs of today, and one of two weeks ago."""
    now = system_clock()

    async def insert() -> None:
        async with Database(empty_database_url) as database, database.connection() as connection:
            await insert_runs(
                connection,
                [
                    make_stored_run("shop", "cheap", occurred_at=now, cost_usd=Decimal("0.0001")),
                    make_stored_run(
                        "shop", "dear", occurred_at=now, cost_usd=Decimal("1.5"), metadata={"team": "search"}
                    ),
                    make_stored_run("bot", "failed", occurred_at=now, status="error", cost_usd=None),
                    make_stored_run("shop", "old", occurred_at=now - timedelta(days=14)),
                ],
            )

    asyncio.run(insert())
    return {"DATABASE_URL": empty_database_url, "DATA_DIR": str(tmp_path)}


def run(environment: dict[str, str], *arguments: str) -> Result:
    return CliRunner(env=environment).invoke(main, arguments)


def test_runs_are_exported_by_the_filters_of_the_pages(environment: dict[str, str]) -> None:
    def exported(*arguments: str) -> set[str]:
        result = run(environment, "runs", "export", "--format", "jsonl", *arguments)
        assert result.exit_code == 0, result.output
        return {json.loads(line)["id"] for line in result.stdout.splitlines()}

    assert exported() == {"cheap", "dear", "failed"}
    assert exported("--range", "all") == {"cheap", "dear", "failed", "old"}
    assert exported("--range", "24h", "--project", "shop", "--max-cost", "1") == {"cheap"}
    assert exported("--project", "shop", "--min-cost", "1") == {"dear"}
    assert exported("--status", "failed") == {"failed"}
    assert exported("--q", "cheap") == {"cheap"}
    assert exported("--metadata", "team=search") == {"dear"}


def test_a_filter_that_cannot_be_read_names_its_option(environment: dict[str, str]) -> None:
    refused = run(environment, "runs", "export", "--min-cost", "much", "--until", "later")
    unknown = run(environment, "runs", "export", "--modle", "gpt-4o-mini")
    halved = run(environment, "runs", "export", "--metadata", "team")

    assert (refused.exit_code, unknown.exit_code, halved.exit_code) == (2, 2, 2)
    assert "--min-cost must be an amount in US dollars" in refused.output
    assert "--until must be a time" in refused.output
    assert "--modle" in unknown.output


def test_runs_are_exported_to_a_file(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"

    told = run(environment, "runs", "export", "--project", "shop", "--output", str(file))
    lines = run(environment, "runs", "export", "--format", "jsonl", "--status", "failed")

    assert told.stderr == "2 runs.\n"
    with file.open() as written:
        assert {row["id"] for row in csv.DictReader(written)} == {"cheap", "dear"}
    assert [json.loads(line)["id"] for line in lines.stdout.splitlines()] == ["failed"]
