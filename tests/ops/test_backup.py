"""`runtally backup` and `runtally restore`, between versions of Postgres, and with files that are not what they should be."""

import asyncio
import json
import re
import stat
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runtally.backup.file import MANIFEST
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.schema import REPORTING
from runtally.embedded.server import database_url as embedded_url
from runtally.ingest.queries import insert_runs
from runtally.settings import Settings
from runtally.usage.upkeep.repair_queries import rebuild_if_missing
from tests.documents import make_stored_run
from tests.folders import open_folder
from tests.ops.processes import answer_of
from tests.ops.test_upgrade import MADE_LATER, fill
from tests.serving import Postgres
from webapp.cli import main

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
DEBIAN = Path("/usr/lib/postgresql/15/bin")
# Of what a crash empties there is no backup.
TABLES = """
  SELECT relname::text FROM pg_class
   WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relpersistence = 'p' ORDER BY 1
"""
FINGERPRINT = "SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM {table} AS t"
IDENTITIES = """
  SELECT table_name::text, pg_get_serial_sequence(table_name, column_name)
    FROM information_schema.columns WHERE table_schema = 'public' AND is_identity = 'YES'
"""
FILLED = "filled"
ODD = "tab\t, line\n, return\r, backslash \\N \\. and \u00e9\u4e2d\U0001f600"

ServerOf = Callable[[int], Postgres]


@pytest.fixture(scope="module")
def server_of(postgres: Postgres) -> Iterator[ServerOf]:
    """The server of this version: the one of the tests for 18, Debian's for 15."""
    with ExitStack() as stack:
        servers = {18: postgres}

        def server_of(version: int) -> Postgres:
            if version not in servers:
                if not DEBIAN.is_dir():
                    pytest.skip("Debian's package postgresql-15 is not installed.")
                folder = stack.enter_context(open_folder("runtally-debian-"))
                url = stack.enter_context(embedded_url(Settings(data_dir=folder, database_url=None, pg_bin=DEBIAN)))
                servers[version] = Postgres(url)
            return servers[version]

        yield server_of


@dataclass(frozen=True)
class Filled:
    """A database with rows in every table."""

    url: str
    contents: dict[str, str]


@pytest.fixture(scope="module")
def made(server_of: ServerOf) -> Callable[[int], Filled]:
    """A database of the test's own each time: a copy of one that is filled once for each version."""
    filled: dict[int, dict[str, str]] = {}

    def made(version: int) -> Filled:
        server = server_of(version)
        if version not in filled:
            url = server.create_migrated(FILLED)
            asyncio.run(fill_all(url))
            filled[version] = contents(url)
        return Filled(server.create(f"filled_{uuid.uuid4().hex}", FILLED), filled[version])

    return made


async def fill_all(url: str) -> None:
    async with Database(url) as database:
        async with database.connection() as connection:
            await fill(connection, {})
        await rebuild_if_missing(database, system_clock())
        async with database.connection() as connection:
            runs = [make_stored_run(f"p{number % 3}", f"r{number}", metadata={ODD: number}) for number in range(300)]
            await insert_runs(connection, [*runs, make_stored_run("odd", ODD)])


def contents(url: str) -> dict[str, str]:
    """Every table with the number of its rows and a hash of all they hold."""

    async def ask() -> dict[str, str]:
        async with Database(url) as database, database.connection() as connection:
            names = [row[0] for row in await connection.fetch(TABLES)]
            return {name: await connection.fetchval(FINGERPRINT.format(table=name)) for name in names}

    return asyncio.run(ask())


def blank(server: Postgres) -> str:
    return server.create(f"blank_{uuid.uuid4().hex}")


def runtally(url: str, *arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments), env={"DATABASE_URL": url})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def backup_file(made: Callable[[int], Filled], tmp_path: Path) -> Path:
    path = tmp_path / "runtally.zip"
    assert runtally(made(18).url, "backup", str(path)).exit_code == 0
    return path


@pytest.mark.parametrize(("source", "target"), [(18, 15), (15, 18), (18, 18), (15, 15)])
def test_all_is_there_after_a_restore_into_another_version(
    made: Callable[[int], Filled], server_of: ServerOf, tmp_path: Path, source: int, target: int
) -> None:
    filled, url, path = made(source), blank(server_of(target)), tmp_path / "runtally.zip"

    backed_up, restored = runtally(filled.url, "backup", str(path)), runtally(url, "restore", str(path))

    assert (backed_up.exit_code, restored.exit_code) == (0, 0), backed_up.output + restored.output
    ended = dict.fromkeys(("invitations", "sessions"), "0 ")
    assert contents(url) == filled.contents | ended
    assert not set(ended.values()) & {filled.contents[name] for name in ended}
    assert "revoke again what was revoked since" in restored.output
    assert len(filled.contents) > 25
    assert {name for name, rows in filled.contents.items() if rows.startswith("0 ")} <= MADE_LATER
    verified = runtally(url, "rollups", "verify")
    assert verified.exit_code == 0, verified.output
    assert int(str(answer_of(url, "SELECT current_setting('server_version_num')"))) // 10_000 == target


def test_numbers_go_on_where_they_were(made: Callable[[int], Filled], server_of: ServerOf, tmp_path: Path) -> None:
    filled, url, path = made(18), blank(server_of(18)), tmp_path / "runtally.zip"
    runtally(filled.url, "backup", str(path))
    runtally(url, "restore", str(path))

    async def next_numbers(url: str) -> dict[str, int]:
        async with Database(url) as database, database.connection() as connection:
            found = await connection.fetch(IDENTITIES)
            return {table: await connection.fetchval("SELECT nextval($1)", name) for table, name in found}

    expected = asyncio.run(next_numbers(filled.url))
    assert asyncio.run(next_numbers(url)) == expected
    assert max(expected.values()) > 1


def test_a_backup_is_of_one_moment_while_others_write(
    made: Callable[[int], Filled], server_of: ServerOf, tmp_path: Path
) -> None:
    filled, url, path = made(18), blank(server_of(18)), tmp_path / "runtally.zip"

    async def back_up_while_writing() -> int:
        """How many runs were stored meanwhile."""
        async with Database(filled.url) as database, database.connection() as connection:
            command = asyncio.create_task(asyncio.to_thread(runtally, filled.url, "backup", str(path)))
            stored = 0
            while not command.done():
                runs = [make_stored_run(f"p{stored % 3}", f"late-{stored + number}") for number in range(5)]
                await insert_runs(connection, runs)
                stored += len(runs)
            assert command.result().exit_code == 0
            return stored

    stored = asyncio.run(back_up_while_writing())
    restored = runtally(url, "restore", str(path))

    # Sums and runs were written together, and are together in the backup or not at all.
    verified = runtally(url, "rollups", "verify")
    assert (restored.exit_code, verified.exit_code) == (0, 0), restored.output + verified.output
    assert stored > 5


def test_nobody_else_may_read_the_file_and_it_says_what_is_in_it(backup_file: Path) -> None:
    with zipfile.ZipFile(backup_file) as file:
        manifest = json.loads(file.read(MANIFEST))
        names = set(file.namelist())

    assert stat.S_IMODE(backup_file.stat().st_mode) == 0o600
    assert names == {MANIFEST, *(f"tables/{table['name']}.copy" for table in manifest["tables"])}
    assert {"runtally", "postgres", "madeAt", "revisions"} <= manifest.keys()
    assert [path.name for path in backup_file.parent.iterdir()] == [backup_file.name]


def test_a_backup_overwrites_nothing_and_leaves_nothing_halfway(
    backup_file: Path, made: Callable[[int], Filled], server_of: ServerOf
) -> None:
    before = backup_file.read_bytes()
    again = runtally(made(18).url, "backup", str(backup_file))
    nowhere = runtally(made(18).url, "backup", str(backup_file.parent / "none" / "x.zip"))
    of_nothing = runtally(blank(server_of(18)), "backup", str(backup_file.with_name("blank.zip")))

    assert (again.exit_code, nowhere.exit_code, of_nothing.exit_code) == (1, 1, 1)
    assert "is there already" in again.output
    assert "cannot be written" in nowhere.output
    assert "no tables of Runtally" in of_nothing.output
    assert backup_file.read_bytes() == before
    assert [path.name for path in backup_file.parent.iterdir()] == [backup_file.name]


def test_a_database_that_is_not_empty_is_refused_and_stays_as_it_is(
    backup_file: Path, made: Callable[[int], Filled], server_of: ServerOf
) -> None:
    filled, foreign = made(18), blank(server_of(18))
    asyncio.run(execute(foreign, "CREATE TABLE of_others (id int)"))

    refused = runtally(filled.url, "restore", str(backup_file))
    refused_too = runtally(foreign, "restore", str(backup_file))

    assert (refused.exit_code, refused_too.exit_code) == (1, 1)
    assert "is not empty" in refused.output
    assert "tables of other programs (of_others)" in refused_too.output
    assert contents(filled.url) == filled.contents
    assert contents(foreign).keys() == {"of_others"}


def test_a_file_that_is_damaged_or_no_backup_is_refused_before_anything_is_changed(
    backup_file: Path, server_of: ServerOf
) -> None:
    whole, url = backup_file.read_bytes(), blank(server_of(18))
    with zipfile.ZipFile(backup_file) as file:
        at = file.getinfo("tables/runs.copy").header_offset + 400
    damaged = {
        "flipped.zip": whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :],
        "cut.zip": whole[: len(whole) // 2],
        "empty.zip": b"",
        "none.zip": b"-- PostgreSQL database dump",
    }

    for name, content in damaged.items():
        path = backup_file.with_name(name)
        path.write_bytes(content)
        refused = runtally(url, "restore", str(path))
        assert refused.exit_code == 1, name
        assert "is no backup that Runtally made, or is damaged" in refused.output, name
    assert "There is no file" in runtally(url, "restore", str(backup_file.with_name("gone.zip"))).output
    assert contents(url) == {}


def changed(backup_file: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A copy of the backup_file, in which every member is what the manifest says."""
    with zipfile.ZipFile(backup_file) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    path = backup_file.with_name("changed.zip")
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_a_backup_of_another_version_of_the_schema_is_refused(backup_file: Path, server_of: ServerOf) -> None:
    def older(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        manifest["revisions"]["alembic_version"] = "0000"
        members[MANIFEST] = json.dumps(manifest).encode()

    def newer(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps({"format": 2}).encode()

    url = blank(server_of(18))

    assert "has the schema 0000" in runtally(url, "restore", str(changed(backup_file, older))).output
    assert "made by a newer version" in runtally(url, "restore", str(changed(backup_file, newer))).output
    assert contents(url) == {}


def test_a_restore_that_fails_halfway_leaves_no_row_and_can_be_done_again(
    backup_file: Path, server_of: ServerOf
) -> None:
    def twice(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        # The last one, when all others are there.
        table = next(one for one in reversed(manifest["tables"]) if one["rows"])
        member = f"tables/{table['name']}.copy"
        members[member] += members[member].partition(b"\n")[0] + b"\n"
        table["rows"] += 1
        table["sha256"] = sha256(members[member]).hexdigest()
        members[MANIFEST] = json.dumps(manifest).encode()

    url = blank(server_of(18))

    refused = runtally(url, "restore", str(changed(backup_file, twice)))

    assert refused.exit_code == 1
    assert "does not take" in refused.output
    rows = {name: int(found.split()[0]) for name, found in contents(url).items()}
    assert {name for name, count in rows.items() if count} == {
        "alembic_version", "cell_alembic_version", "reporting_alembic_version", "tracked_keys",
    }  # fmt: skip
    assert runtally(url, "restore", str(backup_file)).exit_code == 0


def test_a_reporting_table_in_a_database_of_its_own_has_a_backup_of_its_own(
    server_of: ServerOf, tmp_path: Path
) -> None:
    source, target = server_of(18).create_migrated(f"alone_{uuid.uuid4().hex}", REPORTING), blank(server_of(18))
    asyncio.run(fill_tables(source))
    path = tmp_path / "reporting.zip"

    assert runtally(source, "backup", str(path)).exit_code == 0
    assert runtally(target, "restore", str(path)).exit_code == 0
    assert contents(target) == contents(source)
    assert contents(target).keys() == {"reporting_alembic_version", "reporting_runs"}


def test_the_documentation_has_the_commands_and_a_line_for_cron() -> None:
    section = OPERATIONS.read_text().partition("### Back up")[2].partition("\n## ")[0]

    assert re.search(r"^runtally backup \S+\.zip$", section, re.MULTILINE)
    assert re.search(r"runtally restore \S+\.zip$", section, re.MULTILINE)
    assert re.search(r"^\d+ \d+ \* \* \* .*runtally backup .*\.zip", section, re.MULTILINE)


async def fill_tables(url: str) -> None:
    async with Database(url) as database, database.connection() as connection:
        await fill(connection, {})


async def execute(url: str, statement: str) -> None:
    async with Database(url) as database, database.connection() as connection:
        await connection.execute(statement)
