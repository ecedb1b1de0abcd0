"""`runtally migrate` and `runtally doctor` on databases in every state."""

import asyncio
import uuid
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from runtally import extras
from runtally.access.secret_keys import remember
from runtally.clock import system_clock
from runtally.db import connecting
from runtally.db.database import Database
from runtally.doctor import State, examine_database, examine_disk
from runtally.ingest.queries import insert_runs
from runtally.models.price import Match
from tests.documents import make_stored_run
from tests.factories import make_price
from tests.ops.processes import answer_of
from tests.serving import Postgres, free_port
from tests.stored import until_merged
from webapp.cli import main

WEAK = ("abc", "a" * 40)
KEY = "n0t-so-easily-guessed-5f2c91"


@pytest.fixture
def blank_database_url(postgres: Postgres) -> str:
    """A database without tables."""
    return postgres.create(f"blank_{uuid.uuid4().hex}")


def runtally(command: str, database_url: str, *arguments: str, **more: str) -> Result:
    environment = {"DATABASE_URL": database_url, "INGEST_API_KEY": KEY, "SECRET_KEY": KEY, **more}
    return CliRunner().invoke(main, [command, *arguments], env=environment)


def states_of(result: Result) -> dict[str, str]:
    """The state of each check that was printed."""
    return {check: state for state, check, *_ in (line.split() for line in result.output.splitlines())}


def test_migrate_brings_a_blank_database_up_to_date_once(blank_database_url: str) -> None:
    first = runtally("migrate", blank_database_url)
    again = runtally("migrate", blank_database_url)

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.output.startswith("Migrated to version 0")
    assert again.output.startswith("Nothing to do")


def test_for_a_database_without_tables_the_advice_is_to_migrate(blank_database_url: str) -> None:
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
        "sums": "ok",
    }


async def test_sums_that_differ_from_their_runs_are_named_with_what_repairs_them(empty_database_url: str) -> None:
    run = make_stored_run("shop", "a", occurred_at=system_clock(), cost_usd=Decimal("0.5"))
    async with Database(empty_database_url) as database, database.connection() as connection:
        await insert_runs(connection, [run])
        right = await asyncio.to_thread(runtally, "doctor", empty_database_url)
        await until_merged(database)
        await connection.execute("UPDATE rollups SET cost_usd = cost_usd - 0.25 WHERE project_id = 'shop'")  # Ours.
    wrong = await asyncio.to_thread(runtally, "doctor", empty_database_url)
    repaired = await asyncio.to_thread(runtally, "rollups", empty_database_url, "rebuild")

    assert states_of(right)["sums"] == "ok"
    assert states_of(wrong)["sums"] == "warn"
    assert message_of(wrong, "sums").strip().startswith("shop: ")
    assert "which lack 0 runs and 0.25" in message_of(wrong, "sums")
    assert message_of(wrong, "sums").endswith("`runtally rollups rebuild` repairs them")
    assert repaired.exit_code == 0
    assert states_of(await asyncio.to_thread(runtally, "doctor", empty_database_url))["sums"] == "ok"


async def test_projects_that_send_more_names_than_are_told_apart_are_named(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtally.doctor.MAX_VALUES", 2)
    now = system_clock()
    runs = [
        make_stored_run("shop", name, occurred_at=now, created_at=now, experiment_id=name, counted_as_other=True)
        for name in "ab"
    ]
    async with Database(empty_database_url) as database, database.connection() as connection:
        await insert_runs(connection, [*runs, make_stored_run("calm", "a", occurred_at=now, created_at=now)])

    found = await asyncio.to_thread(runtally, "doctor", empty_database_url)

    assert found.exit_code == 0
    said = [line.split(maxsplit=2) for line in found.output.splitlines() if line.split()[1] == "names"]
    assert [(state, message.partition(",")[0]) for state, _, message in said] == [
        ("warn", "shop: 2 or more experiments on 1 of the last 7 days"),
        ("warn", "shop: 2 or more models on 1 of the last 7 days"),
    ]
    assert 'so that further ones count as "(other)"; let its programs send' in said[1][2]


def test_sums_of_more_runs_than_a_person_waits_for_are_said_not_to_be_compared(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.cli.doctor.SUMS_SECONDS", 0.0)

    assert "not compared within 0 s; `runtally rollups verify`" in message_of(
        runtally("doctor", empty_database_url), "sums"
    )


@pytest.mark.parametrize("history", ["alembic_version", "cell_alembic_version", "reporting_alembic_version"])
async def test_for_tables_of_a_newer_version_the_advice_is_that_version(
    empty_database_url: str, history: str, tmp_path: Path
) -> None:
    async with Database(empty_database_url) as database, database.connection() as connection:
        await connection.execute(f"UPDATE {history} SET version_num = '9999'")  # Ours.

    examined = await asyncio.to_thread(runtally, "doctor", empty_database_url)
    saved = await asyncio.to_thread(runtally, "backup", empty_database_url, str(tmp_path / "backup.zip"))
    migrated = await asyncio.to_thread(runtally, "migrate", empty_database_url)

    assert (examined.exit_code, saved.exit_code, migrated.exit_code) == (1, 1, 1)
    assert migrated.output.startswith("Error: The database was migrated by another version of Runtally; use that one.")
    advice = "tables are those of a newer version of Runtally; use that one, or restore a backup from before it"
    assert message_of(examined, "migrations").strip() == advice
    assert saved.output == f"Error: The database's {advice}.\n"


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


def message_of(result: Result, check: str) -> str:
    return next(line.split(check, 1)[1] for line in result.output.splitlines() if line.split()[1] == check)


@pytest.fixture
def guarded_role(postgres: Postgres) -> Iterator[str]:
    """A role without any rights, which the server asks for its password."""
    name = f"guarded_{uuid.uuid4().hex}"
    postgres.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'a right one'")
    rules = Path(str(answer_of(postgres.url, "SHOW hba_file")))
    before = rules.read_text()
    rules.write_text(f"local all {name} scram-sha-256\n{before}")
    postgres.execute("SELECT pg_reload_conf()")
    yield name
    rules.write_text(before)
    postgres.execute("SELECT pg_reload_conf()", f"DROP ROLE {name}")


def as_role(url: str, name: str, password: str) -> str:
    return make_url(url).set(username=name, password=password).render_as_string(hide_password=False)


def test_each_reason_for_a_database_that_is_out_of_reach_is_a_sentence_of_its_own(
    empty_database_url: str, postgres: Postgres, guarded_role: str
) -> None:
    ways = {
        connecting.NO_PASSWORD: as_role(empty_database_url, guarded_role, "a wrong one"),
        connecting.NO_ROLE: as_role(empty_database_url, "nobody_of_this_name", "any"),
        connecting.NO_DATABASE: postgres.named("no_such_database"),
        connecting.NO_HOST: "postgresql://somebody@no-such-host.invalid/any",
        connecting.REFUSED: f"postgresql://somebody@localhost:{free_port()}/any",
        connecting.NO_RIGHTS: as_role(empty_database_url, guarded_role, "a right one"),
    }
    assert len(ways) == 6

    for reason, url in ways.items():
        result = runtally("doctor", url)
        assert result.exit_code == 1, reason
        assert message_of(result, "database").strip() == f"The database of DATABASE_URL is out of reach: {reason}."
        assert "one" not in result.output.replace("none", "").split()


def test_a_role_that_may_not_make_tables_is_told_so_by_doctor_and_migrate(
    blank_database_url: str, guarded_role: str, postgres: Postgres
) -> None:
    url = as_role(blank_database_url, guarded_role, "a right one")
    assert "may not make tables; make it the owner" in message_of(runtally("doctor", url), "rights")

    refused = runtally("migrate", url)

    assert refused.exit_code == 1
    assert refused.output.endswith(f"Error: The database of DATABASE_URL is out of reach: {connecting.NO_RIGHTS}.\n")


async def test_a_role_that_may_only_read_is_a_failure(empty_database_url: str) -> None:
    role = f"reader_{uuid.uuid4().hex}"
    async with Database(empty_database_url) as database, database.connection() as connection:
        await connection.execute(
            f"CREATE ROLE {role} LOGIN PASSWORD '{KEY}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
        )
        url = make_url(empty_database_url).set(username=role, password=KEY)
        try:
            result = await asyncio.to_thread(runtally, "doctor", url.render_as_string(hide_password=False))
        finally:
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    assert result.exit_code == 1
    assert states_of(result)["migrations"] == "ok"
    assert states_of(result)["rights"] == "fail"
    assert "grant it SELECT, INSERT, UPDATE and DELETE" in result.output


def test_a_reporting_database_that_is_down_or_not_migrated_is_a_failure(
    empty_database_url: str, blank_database_url: str
) -> None:
    away = f"postgresql://somebody@127.0.0.1:{free_port()}/any"
    down = runtally("doctor", empty_database_url, REPORTING_DATABASE_URL=away, READ_DATABASE_URL=away)
    blank = runtally("doctor", empty_database_url, REPORTING_DATABASE_URL=blank_database_url)
    right = runtally("doctor", empty_database_url, REPORTING_DATABASE_URL=empty_database_url)

    assert (down.exit_code, blank.exit_code, right.exit_code) == (1, 1, 0)
    assert "REPORTING_DATABASE_URL is out of reach: no server takes connections" in message_of(down, "reporting")
    assert states_of(down)["replica"] == "warn"
    assert "run `runtally migrate`" in message_of(blank, "reporting")
    assert states_of(right)["reporting"] == "ok"


@pytest.mark.parametrize(
    ("name", "weak"),
    [
        *(
            (name, weak)
            for name in ("INGEST_API_KEY", "SECRET_KEY", "SERVICE_SYNC_SIGN", "METRICS_TOKEN")
            for weak in (*WEAK, f"{KEY},abc")
        ),
    ],
)
def test_a_key_that_can_be_guessed_is_a_warning_and_not_repeated(empty_database_url: str, name: str, weak: str) -> None:
    result = runtally("doctor", empty_database_url, **{"METRICS_TOKEN": KEY, name: weak})

    assert states_of(result)[name] == "warn"
    assert "openssl rand" in message_of(result, name)
    assert weak not in result.output.replace("openssl", "")


def test_a_secret_that_is_replaced_keeps_the_hashes_of_names_or_is_a_warning(empty_database_url: str) -> None:
    replacing = {"SECRET_KEY": f"{KEY}-new,{KEY}"}
    result = runtally("doctor", empty_database_url, **replacing)
    kept = runtally("doctor", empty_database_url, **replacing, NAMES_SECRET=KEY)

    assert states_of(result)["NAMES_SECRET"] == "warn"
    assert "set it to the last SECRET_KEY before you remove that" in message_of(result, "NAMES_SECRET")
    assert "NAMES_SECRET" not in states_of(kept)


async def test_another_secret_key_than_that_of_the_last_start_is_a_warning(empty_database_url: str) -> None:
    async with Database(empty_database_url) as database, database.connection() as connection:
        await remember(connection, [SecretStr(KEY)], system_clock())

    same, other = [
        await asyncio.to_thread(runtally, "doctor", empty_database_url, SECRET_KEY=key) for key in (KEY, f"{KEY}-other")
    ]

    assert "SECRET_KEY is not the one of before" not in same.output
    assert "start with both, SECRET_KEY=new,old." in other.output
    assert f"{KEY}-other" not in other.output


def test_settings_that_need_each_other_are_named_together(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "arro3" else find_spec(name))
    half = {"OIDC_ISSUER": "https://id.example.com", "ARCHIVE_URL": "/nowhere"}

    result = runtally("doctor", empty_database_url, SERVICE_SYNC_URL="http://x:port", **half)

    assert result.exit_code == 1
    assert states_of(result) == {"settings": "fail"}
    for part in (
        "Set OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET",
        "ARCHIVE_URL needs",
        "SERVICE_SYNC",
    ):
        assert part in result.output


def test_mail_that_has_no_sender_is_a_warning(empty_database_url: str) -> None:
    assert states_of(runtally("doctor", empty_database_url, SMTP_HOST="mail.example.com"))["mail"] == "warn"
