"""`runtally migrate` and `runtally doctor` on databases in every state."""

import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.doctor import State, examine_database, examine_disk
from runtally.models.price import Match
from tests.factories import make_price
from tests.serving import Postgres, free_port
from webapp.cli import main


@pytest.fixture
def blank_database_url(postgres: Postgres) -> str:
    """A database without tables."""
    return postgres.create(f"blank_{uuid.uuid4().hex}")


def runtally(command: str, database_url: str, **more: str) -> Result:
    environment = {"DATABASE_URL": database_url, "INGEST_API_KEY": "k", "SECRET_KEY": "k", **more}
    return CliRunner().invoke(main, [command], env=environment)


def states_of(result: Result) -> dict[str, str]:
    """The state of each check that was printed."""
    return {check: state for state, check, *_ in (line.split() for line in result.output.splitlines())}


def test_migrate_brings_a_blank_database_up_to_date_once(blank_database_url: str) -> None:
    first = runtally("migrate", blank_database_url)
    again = runtally("migrate", blank_database_url)

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.output.startswith("Migrated to version 0")
    assert again.output.startswith("Nothing to do")


def test_a_database_without_tables_is_told_to_migrate(blank_database_url: str) -> None:
    result = runtally("doctor", blank_database_url)

    assert result.exit_code == 1
    assert states_of(result)["migrations"] == "fail"
    assert "run `runtally migrate`" in result.output


def test_a_database_without_prices_is_a_warning(empty_database_url: str) -> None:
    result = runtally("doctor", empty_database_url)

    assert result.exit_code == 0
    assert states_of(result) == {
        "settings": "ok",
        "INGEST_API_KEY": "ok",
        "SECRET_KEY": "ok",
        "database": "ok",
        "clock": "ok",
        "migrations": "ok",
        "SERVICE_SYNC_SIGN": "warn",
        "prices": "warn",
        "relay": "ok",
    }


async def test_a_pattern_that_cannot_be_used_is_a_warning(empty_database_url: str) -> None:
    async with Database(empty_database_url) as database:
        async with database.session() as session:
            session.add(make_price(match=Match.REGEX, pattern="(?!gpt-4o-audio)gpt-4o.*"))
        async with database.connection() as connection:
            findings = {one.check: one for one in await examine_database(connection, system_clock)}

    assert findings["prices"].state is State.WARN
    assert "price nothing, of the entries 1; run `runtally prices sync`" in findings["prices"].message


def test_a_database_that_is_down_is_a_finding_like_any_other() -> None:
    result = runtally("doctor", f"postgresql://somebody:very-secret@127.0.0.1:{free_port()}/none")

    assert result.exit_code == 1
    assert states_of(result)["database"] == "fail"
    assert "very-secret" not in result.output


def test_missing_secrets_and_dev_mode_are_warnings(empty_database_url: str) -> None:
    result = runtally("doctor", empty_database_url, INGEST_API_KEY="", SECRET_KEY="", SERVICE_DEV_MODE="1")

    assert result.exit_code == 0
    assert states_of(result) | {"INGEST_API_KEY": "warn", "dev": "warn"} == states_of(result)


def test_settings_that_are_wrong_are_named_and_nothing_else_is_tried(empty_database_url: str) -> None:
    result = runtally("doctor", empty_database_url, PORT="99999", MAX_BATCH_RUNS="0")

    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert "PORT" in result.output
    assert "MAX_BATCH_RUNS" in result.output


@pytest.mark.parametrize(("off_by", "state"), [(1.9, State.OK), (-30, State.WARN), (30, State.WARN)])
async def test_a_clock_that_is_off_is_a_warning(empty_database_url: str, off_by: float, state: State) -> None:
    async with Database(empty_database_url) as database, database.connection() as connection:
        findings = await examine_database(connection, lambda: system_clock() + timedelta(seconds=off_by))

    assert {finding.check: finding.state for finding in findings}["clock"] is state


def test_the_disk_of_the_data_folder_is_measured(tmp_path: Path) -> None:
    assert str(tmp_path) in examine_disk(tmp_path).message
