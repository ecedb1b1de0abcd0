"""The embedded Postgres as processes see it: who starts it, who finds it, who stops it, what survives."""

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from runtally.embedded import server
from runtally.embedded.server import database_url
from runtally.settings import Settings
from tests.ops.processes import (
    answer_of,
    children_of,
    holder,
    is_running,
    kill,
    server_pid,
    started,
    until,
    url_of,
)

CHURN = """
import asyncio
from runtally.db.database import Database
from runtally.embedded.server import database_url
from runtally.settings import load_settings

async def ask(url):
    async with Database(url) as database, database.connection() as connection:
        await connection.execute("INSERT INTO rounds VALUES (DEFAULT)")

for _ in range(8):
    with database_url(load_settings()) as url:
        asyncio.run(ask(url))
"""


def test_a_url_that_is_set_is_taken_as_it_is(data_dir: Path) -> None:
    with database_url(Settings(data_dir=data_dir, database_url="postgresql://elsewhere/db")) as url:
        assert url == "postgresql://elsewhere/db"

    assert not list(data_dir.iterdir())


def test_data_is_there_again_after_a_stop(settings: Settings) -> None:
    with database_url(settings) as url:
        answer_of(url, "CREATE TABLE kept AS SELECT 42 AS answer")

    assert server_pid(settings.data_dir) is None
    with database_url(settings) as url:
        assert answer_of(url, "SELECT answer FROM kept") == 42


def test_only_the_socket_is_listened_on_and_commits_reach_the_disk(settings: Settings) -> None:
    with database_url(settings) as url:
        shown = {name: answer_of(url, f"SHOW {name}") for name in ("listen_addresses", "fsync", "synchronous_commit")}

        assert shown == {"listen_addresses": "", "fsync": "on", "synchronous_commit": "on"}
        assert (settings.data_dir / "socket").stat().st_mode & 0o777 == 0o700
        assert (settings.data_dir / "postgres").stat().st_mode & 0o777 == 0o700


def test_text_sorts_the_same_on_every_machine(settings: Settings) -> None:
    with database_url(settings) as url:
        assert (
            answer_of(url, "SELECT datcollate || datlocale FROM pg_database WHERE datname = 'runtally'") == "CC.UTF-8"
        )
        assert answer_of(url, "SHOW server_encoding") == "UTF8"


def test_the_server_of_a_killed_process_is_adopted(settings: Settings) -> None:
    with holder(settings.data_dir) as process:
        url = url_of(process)
        pid = server_pid(settings.data_dir)
        process.kill()
    assert pid
    assert is_running(pid)

    with database_url(settings) as found:
        assert (found, server_pid(settings.data_dir)) == (url, pid)

    until(lambda: not is_running(pid))


def test_the_last_to_leave_stops_the_server(settings: Settings) -> None:
    data_dir = settings.data_dir
    with holder(data_dir) as last:
        url = url_of(last)
        pid = server_pid(data_dir)
        assert pid
        with holder(data_dir) as first:
            assert url_of(first) == url
        assert first.returncode == 0
        assert answer_of(url, "SELECT 1") == 1

    assert not is_running(pid)


def test_first_starts_at_once_make_one_server(data_dir: Path) -> None:
    with ExitStack() as stack:
        holders = [stack.enter_context(holder(data_dir)) for _ in range(4)]
        urls = {url_of(process) for process in holders}
        log = (data_dir / "postgres.log").read_text()

    assert len(urls) == 1
    assert log.count("starting PostgreSQL") == 1
    assert [process.returncode for process in holders] == [0, 0, 0, 0]
    assert server_pid(data_dir) is None


def test_starts_and_stops_in_any_order_do_not_disturb_each_other(settings: Settings) -> None:
    with database_url(settings) as url:
        answer_of(url, "CREATE TABLE rounds (id bigserial PRIMARY KEY)")

    with ExitStack() as stack:
        processes = [stack.enter_context(started([sys.executable, "-c", CHURN], settings.data_dir)) for _ in range(3)]

    assert [process.returncode for process in processes] == [0, 0, 0]
    with database_url(settings) as url:
        assert answer_of(url, "SELECT count(*) FROM rounds") == 24


def test_the_server_inherits_nothing_of_the_process_that_started_it(settings: Settings) -> None:
    data_dir = settings.data_dir
    with holder(data_dir) as process:
        url_of(process)
        pid = server_pid(data_dir)
        assert pid

        open_files = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
        variables = Path(f"/proc/{pid}/environ").read_bytes()

        assert not {str(data_dir / name) for name in ("postgres.users", "postgres.turn")} & open_files
        assert b"DATA_DIR" not in variables
        assert os.getsid(pid) != os.getsid(process.pid)


def test_committed_runs_survive_a_kill_of_the_server(settings: Settings) -> None:
    with database_url(settings) as url:
        answer_of(url, "CREATE TABLE survived AS SELECT 42 AS answer")
        pid = server_pid(settings.data_dir)
        assert pid
        kill(pid)
        until(lambda: not is_running(pid))

        # The killed server is a zombie of this process now, with a pid that looks alive.
        with holder(settings.data_dir) as process:
            assert answer_of(url_of(process), "SELECT answer FROM survived") == 42


def _recovering(settings: Settings) -> int:
    """The server's pid, in the moment in which it recovers from a crash of one of its processes."""
    log = settings.data_dir / "postgres.log"
    said, pid = log.stat().st_size, server_pid(settings.data_dir)
    assert pid
    kill(
        next(child for child in children_of(pid) if b"background writer" in Path(f"/proc/{child}/cmdline").read_bytes())
    )
    until(lambda: "reinitializing" in log.read_text()[said:])
    return pid


def test_a_server_that_recovers_is_stopped_all_the_same(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RECOVERY_SECONDS", 1)
    with database_url(settings) as url:
        answer_of(url, "CREATE TABLE outlived AS SELECT 42 AS answer")
        pid = _recovering(settings)

    assert not is_running(pid)
    with database_url(settings) as url:
        assert answer_of(url, "SELECT answer FROM outlived") == 42


def test_a_server_that_never_ends_its_shutdown_does_not_keep_the_next_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 1)
    with holder(settings.data_dir) as process:
        url_of(process)
        pid = _recovering(settings)
        # What Postgres 18 never ends when it recovers.
        os.kill(pid, signal.SIGINT)
        process.kill()

    with database_url(settings) as url:
        assert answer_of(url, "SELECT 1") == 1


def test_a_pid_that_another_program_has_now_does_not_keep_the_server_from_starting(settings: Settings) -> None:
    with database_url(settings):
        pid_file = settings.data_dir / "postgres" / "postmaster.pid"
        left_behind = pid_file.read_text().splitlines()
    uid, gid = pid_file.parent.stat().st_uid, pid_file.parent.stat().st_gid
    with started(["sleep", "60"], settings.data_dir, user=uid) as sleeper:
        pid_file.write_text("\n".join([str(sleeper.pid), *left_behind[1:]]) + "\n")
        os.chown(pid_file, uid, gid)

        with database_url(settings) as url:
            assert answer_of(url, "SELECT 1") == 1
        sleeper.kill()


def test_a_long_and_odd_path_gets_a_short_socket_folder(data_dir: Path) -> None:
    odd = data_dir / ("with spaces, commas & ümlauts?%" * 4) / "data"
    odd.parent.mkdir()

    with database_url(Settings(data_dir=odd, database_url=None)) as url:
        folder = Path(url.partition("host=")[2].partition("&")[0])
        assert folder.parent == Path("/tmp")  # noqa: S108  # Where it has to be.
        assert folder.stat().st_mode & 0o777 == 0o700
        assert answer_of(url, "SELECT 1") == 1

    assert not folder.exists()
