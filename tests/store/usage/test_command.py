"""`runtally usage` on a real database."""

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from api.usage import UsageGroup
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run
from webapp.cli import main


@pytest.fixture
def environment(empty_database_url: str, tmp_path: Path) -> dict[str, str]:
    """The settings of a service with runs of two models and features, and one of two weeks ago."""
    now = system_clock()
    search, chat = {"feature": "search"}, {"feature": "chat"}

    async def insert() -> None:
        async with Database(empty_database_url) as database, database.connection() as connection:
            await insert_runs(
                connection,
                [
                    make_stored_run("shop", "a", occurred_at=now, cost_usd=Decimal("0.5"), metadata=search),
                    make_stored_run(
                        "shop", "b", occurred_at=now, cost_usd=Decimal(2), model="acme-small", metadata=chat
                    ),
                    make_stored_run("bot", "c", occurred_at=now, cost_usd=Decimal("0.000000000001")),
                    make_stored_run("shop", "d", occurred_at=now - timedelta(days=14), cost_usd=Decimal(40)),
                ],
            )

    asyncio.run(insert())
    return {"DATABASE_URL": empty_database_url, "DATA_DIR": str(tmp_path)}


def run(environment: dict[str, str], *arguments: str) -> Result:
    return CliRunner(env=environment).invoke(main, ["usage", *arguments])


def test_usage_is_a_table_by_model_with_the_dearest_first(environment: dict[str, str]) -> None:
    heading, first, second = run(environment).stdout.splitlines()

    assert heading.split()[:4] == ["PROVIDER", "MODEL", "RUNS", "FAILED"]
    assert first.split()[:5] == ["acme", "acme-small", "1", "0", "2"]
    assert second.split()[:5] == ["acme", "acme-large", "2", "0", "0.500000000001"]


def test_usage_is_told_apart_by_any_dimension_and_filtered_as_pages_are(environment: dict[str, str]) -> None:
    def totals(*arguments: str) -> dict[str | None, str]:
        result = run(environment, "--json", *arguments)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout, parse_float=str, parse_int=str)["totals"]
        return {next(iter(one["group"].values()), ""): one["costUSD"] for one in found}

    assert totals("--by", "metadata.feature", "--project", "shop") == {"chat": "2", "search": "0.5"}
    assert totals("--by", "model", "--range", "30d", "--project", "shop") == {"acme-large": "40.5", "acme-small": "2"}
    assert totals("--by", "model", "--limit", "1") == {"acme-small": "2", "(other)": "0.500000000001"}
    assert totals("--by", "model", "--by", "status") == totals("--by", "model,status")
    assert totals("--by", "", "--model", "acme-large") == {"": "0.500000000001"}


def test_usage_by_line_says_what_the_parts_of_the_cost_came_to(environment: dict[str, str]) -> None:
    heading, *rows = run(environment, "--by", "line,model").stdout.splitlines()
    answer = run(environment, "--by", "line", "--project", "shop", "--range", "30d", "--json")

    assert heading.split() == ["MODEL", "LINE", "COST", "USD", "QUANTITY"]
    assert [row.split() for row in rows] == [
        ["acme-small", "Reported", "cost", "2", "-"],
        ["acme-large", "Reported", "cost", "0.500000000001", "-"],
    ]
    assert json.loads(answer.stdout, parse_float=Decimal)["totals"] == [
        {
            "group": {"line": "reported"},
            "name": "Reported cost",
            "costUSD": Decimal("42.5"),
            "quantity": None,
            "measured": None,
        }
    ]


def test_json_has_the_sums_of_the_api(environment: dict[str, str]) -> None:
    [total] = json.loads(run(environment, "--by", "", "--json").stdout)["totals"]

    assert list(total) == [one.encode_name for one in msgspec.structs.fields(UsageGroup)]


@pytest.mark.parametrize("listed", ["keys", "users"])
def test_an_empty_list_says_what_fills_it_and_prints_nothing_for_programs(
    environment: dict[str, str], listed: str
) -> None:
    result = CliRunner(env=environment).invoke(main, [listed, "list"])

    assert result.stdout == ""
    assert f"No {listed} yet; " in result.stderr


def test_an_unknown_dimension_or_project_is_refused(environment: dict[str, str]) -> None:
    unknown = run(environment, "--by", "colour")
    nowhere = run(environment, "--project", "nowhere")

    assert unknown.exit_code == 2
    assert "metadata.KEY" in unknown.output
    assert nowhere.exit_code == 1
    assert "There is no such project" in nowhere.output
