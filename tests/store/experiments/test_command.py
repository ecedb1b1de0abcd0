"""`runtally experiments`, and what it changes."""

import asyncio

import asyncpg
import pytest
from click.testing import CliRunner, Result

from webapp.cli import main

PROJECT, EXPERIMENT = "support", "prompts/v2.1"


@pytest.fixture
def database_with_runs(empty_database_url: str) -> str:
    async def insert() -> None:
        connection = await asyncpg.connect(empty_database_url)
        await connection.execute("INSERT INTO projects (id, name, created_at) VALUES ($1, $1, now())", PROJECT)
        await connection.execute(
            "INSERT INTO experiments (project_id, id, created_at) VALUES ($1, $2, now())", PROJECT, EXPERIMENT
        )
        await connection.executemany(
            "INSERT INTO runs (project_id, id, occurred_at, provider, model, status, cost_usd, experiment_id, created_at, version)"
            " VALUES ($1, $2, now(), 'acme', 'acme-large', $3, $4::numeric, $5, now(), 1)",
            [
                (PROJECT, str(number), "success" if number else "error", None if number == 1 else 0, EXPERIMENT)
                for number in range(40)
            ],
        )
        await connection.close()

    asyncio.run(insert())
    return empty_database_url


def run(url: str, *arguments: str) -> Result:
    return CliRunner(env={"DATABASE_URL": url}).invoke(main, ["experiments", *arguments])


def test_list_shows_verdict_window_and_checks(database_with_runs: str) -> None:
    heading, check = run(database_with_runs, "list").output.splitlines()

    assert heading.split() == [
        *(PROJECT, EXPERIMENT, "pass", "40", "runs", "(at", "least", "1)", "of", "the", "last", "100", "public")
    ]
    assert check.split() == ["holds", "error_rate", "0.025,", "limit", "0.05"]


def test_set_changes_only_the_given_options(database_with_runs: str) -> None:
    run(database_with_runs, "set", PROJECT, EXPERIMENT, "--max-error-rate", "0.02", "--last-hours", "24")
    changed = run(database_with_runs, "set", PROJECT, EXPERIMENT, "--last-runs", "none", "--max-total-cost-usd", "1.50")
    listed = run(database_with_runs, "list", "--project", PROJECT).output

    assert changed.output == f"/api/badge/experiment/{EXPERIMENT}.svg?project={PROJECT}\n"
    assert "fail     40 runs (at least 1) of the last 24 hours" in listed
    assert "fails  error_rate        0.025, limit 0.02" in listed
    assert "fails  total_cost_usd    at least 0, limit 1.5" in listed


def test_private_makes_a_new_token_each_time_and_public_takes_it_away(database_with_runs: str) -> None:
    first = run(database_with_runs, "set", PROJECT, EXPERIMENT, "--private").output
    kept = run(database_with_runs, "set", PROJECT, EXPERIMENT, "--min-runs", "2").output
    second = run(database_with_runs, "set", PROJECT, EXPERIMENT, "--private").output
    public = run(database_with_runs, "set", PROJECT, EXPERIMENT, "--public").output

    assert "&token=" in first
    assert first == kept != second
    assert "token" not in public


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--last-runs", "none"], "--last-runs must be set when --last-hours is not"),
        (["--max-error-rate", "none"], "--max-error-rate must be set"),
        (["--max-error-rate", "1.1"], "--max-error-rate must be a number from 0 to 1"),
        (["--min-runs", "101"], "--min-runs must be a whole number"),
        (["--max-p95-latency-ms", "-1", "--max-total-cost-usd", "-1"], "--max-total-cost-usd must be a number"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_the_names_of_options(
    database_with_runs: str, arguments: list[str], message: str
) -> None:
    refused = run(database_with_runs, "set", PROJECT, EXPERIMENT, *arguments)

    assert refused.exit_code == 2
    assert f"\n  {message}" in refused.output
    assert "the last 100" in run(database_with_runs, "list").output


@pytest.mark.parametrize("value", ["much", "NaN", "inf", "1.5"])
def test_an_invalid_number_is_wrong_usage(database_with_runs: str, value: str) -> None:
    assert run(database_with_runs, "set", PROJECT, EXPERIMENT, "--last-runs", value).exit_code == 2


def test_an_experiment_that_is_not_there_is_an_error(database_with_runs: str) -> None:
    refused = run(database_with_runs, "set", PROJECT, "nothing", "--private")

    assert refused.exit_code == 1
    assert "the first run that names it makes it" in refused.output


def test_experiments_of_a_project_that_is_not_there_are_an_error(database_with_runs: str) -> None:
    refused = run(database_with_runs, "list", "--project", "nothing")

    assert refused.exit_code == 1
    assert refused.output.startswith("Error: There is no such project")


def test_deleting_the_project_deletes_its_experiments(database_with_runs: str) -> None:
    deleted = CliRunner(env={"DATABASE_URL": database_with_runs}).invoke(main, ["projects", "delete", PROJECT, "--yes"])

    assert deleted.exit_code == 0, deleted.output
    assert not run(database_with_runs, "list").stdout
