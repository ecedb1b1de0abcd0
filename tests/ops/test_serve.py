"""`runtally serve` from its first line to its last, as a real process."""

import os
import pty
import re
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from sqlalchemy.engine import make_url

from runtally.db.connecting import NO_RIGHTS
from runtally.settings import Settings
from tests import commands
from tests.factories import make_run
from tests.ops.processes import (
    RUNTALLY,
    children_of,
    environment,
    is_running,
    kill,
    run,
    server_pid,
    started,
    until,
    workers_of,
)
from tests.serving import Postgres, free_port, is_live

# For a service to end on a machine that does other things too; a request may take 10 of them.
END_SECONDS = 80


def takes_connections(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextmanager
def serving(
    data_dir: Path,
    *flags: str,
    port: int | None = None,
    early: signal.Signals | None = None,
    cwd: str | Path | None = None,
    **more: str,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service in dev mode, live, and its URL; given an early signal, it got that while it started."""
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    command = [RUNTALLY, "serve", "--provision", "--port", str(port), *flags]
    # Quiet unless something is wrong: requests are logged at INFO.
    settings = {"SERVICE_DEV_MODE": "1", "LOG_LEVEL": "WARNING", **more}
    with started(command, data_dir, user=None, cwd=cwd, **settings) as process:
        try:
            if early:
                until(lambda: takes_connections(port))
                process.send_signal(early)
            until(lambda: process.poll() is not None or is_live(url))
            yield process, url
        finally:
            process.terminate()


def test_the_environment_says_how_many_workers_there_are_unless_a_flag_does(settings: Settings) -> None:
    with serving(settings.data_dir, WEB_CONCURRENCY="2") as (process, _url):
        until(lambda: len(workers_of(process.pid)) > 1, seconds=20)
    with serving(settings.data_dir, "--workers", "1", WEB_CONCURRENCY="2") as (process, _url):
        assert workers_of(process.pid) == []


def test_ctrl_c_ends_everything_in_order(settings: Settings) -> None:
    with serving(settings.data_dir, "--workers", "2") as (process, _url):
        family = family_of(process, settings)
        # As a terminal does, to the workers too.
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=END_SECONDS)

    assert (process.returncode, errors) == (0, "")
    until(lambda: not any(is_running(pid) for pid in family))


def test_a_term_signal_ends_everything_in_order(settings: Settings) -> None:
    with serving(settings.data_dir) as (process, _url):
        family = family_of(process, settings)
        process.terminate()
        _, errors = process.communicate(timeout=END_SECONDS)

    assert (process.returncode, errors) == (0, "")
    until(lambda: not any(is_running(pid) for pid in family))


def test_files_in_the_working_folder_are_not_imported_whatever_their_names(data_dir: Path, tmp_path: Path) -> None:
    for name in ("runtally", "types", "zlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('This file of the working folder was imported.')")

    # A first start also reads the price catalogue, in a process of its own.
    with serving(data_dir, "--workers", "2", cwd=tmp_path) as (process, url):
        health = httpx.get(f"{url}/api/health").status_code
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=END_SECONDS)

    assert health == 200
    assert (process.returncode, errors) == (0, "")


def test_a_worker_that_dies_is_replaced_at_once_with_a_line_in_the_log_and_a_count(settings: Settings) -> None:
    with serving(settings.data_dir, "--workers", "2", METRICS_TOKEN="token") as (process, url):
        worker = workers_of(process.pid)[0]
        kill(worker)
        until(lambda: not is_running(worker) and len(workers_of(process.pid)) > 1, seconds=20)
        metrics = httpx.get(f"{url}/metrics", headers={"Authorization": "Bearer token"}, timeout=END_SECONDS).text
        process.terminate()
        _, errors = process.communicate(timeout=END_SECONDS)

    assert all(said in errors for said in ("worker_replaced", f"pid={worker}", "ended by SIGKILL"))
    assert "runtally_workers_replaced_total 1.0" in metrics


def test_a_parent_that_cannot_start_a_worker_tries_again_and_one_that_fails_takes_its_workers_along(
    settings: Settings,
) -> None:
    files = resource.RLIMIT_NOFILE
    with serving(settings.data_dir, "--workers", "2") as (process, url):
        until(lambda: len(workers_of(process.pid)) > 1)
        limits = resource.prlimit(process.pid, files, (3, resource.prlimit(process.pid, files)[1]))
        kill(workers_of(process.pid)[0])
        assert process.stderr is not None
        # The thread that watches Postgres may lack a file, too; it goes on.
        said = iter(process.stderr.readline, "")
        others = list(takewhile(lambda line: "worker_not_started" not in line, said))
        assert all("embedded_postgres_not_watched" in line for line in others)
        assert is_live(url)
        resource.prlimit(process.pid, files, limits)
        until(lambda: len(workers_of(process.pid)) > 1)
        workers = workers_of(process.pid)
        resource.prlimit(process.pid, files, (3, limits[1]))
        # It asks for one more worker, which fails in a place that nobody thought of.
        process.send_signal(signal.SIGTTIN)
        _, errors = process.communicate(timeout=END_SECONDS)

    assert process.returncode != 0
    assert "Too many open files" in errors.splitlines()[-1]
    assert not any(is_running(pid) for pid in workers)


def test_a_run_survives_a_kill_of_the_service_and_nothing_keeps_the_next_start(settings: Settings) -> None:
    body = {"projectId": "killed", "runId": "r1", "provider": "openai", "model": "gpt-4o-mini", "inputTokens": 1}
    port = free_port()
    with serving(settings.data_dir, "--workers", "2", port=port, INGEST_API_KEY="k") as (process, url):
        first = httpx.post(f"{url}/api/ingest", json=body, headers={"x-api-key": "k"}, timeout=END_SECONDS).json()
        postgres, *workers = family_of(process, settings)
        process.kill()
    until(lambda: not any(is_running(pid) for pid in workers))

    with serving(settings.data_dir, port=port, INGEST_API_KEY="k") as (_, url):
        assert server_pid(settings.data_dir) == postgres
        again = httpx.post(f"{url}/api/ingest", json=body, headers={"x-api-key": "k"}, timeout=END_SECONDS).json()

    assert first["ok"]
    assert again["duplicates"] == 1


def test_a_postgres_that_dies_under_it_comes_back_with_the_data_each_time(settings: Settings) -> None:
    body = {"projectId": "died", "runId": "r1", "provider": "openai", "model": "gpt-4o-mini", "inputTokens": 1}
    with serving(settings.data_dir, INGEST_API_KEY="k") as (_process, url):
        httpx.post(f"{url}/api/ingest", json=body, headers={"x-api-key": "k"}, timeout=END_SECONDS).raise_for_status()
        for _ in range(2):
            postgres = server_pid(settings.data_dir)
            assert postgres
            kill(postgres)
            until(lambda postgres=postgres: server_pid(settings.data_dir) != postgres)  # type: ignore[misc]  # mypy infers no type of a lambda's default.
            until(lambda: httpx.get(f"{url}/api/health", timeout=END_SECONDS).is_success)
        again = httpx.post(f"{url}/api/ingest", json=body, headers={"x-api-key": "k"}, timeout=END_SECONDS).json()

    assert again["duplicates"] == 1
    assert server_pid(settings.data_dir) is None


def test_beside_it_the_line_that_it_prints_works_when_pasted_and_so_do_commands(settings: Settings) -> None:
    with serving(settings.data_dir) as (process, url):
        line = re.search(r"^    curl .*?[^\\]$", greeting_of(process), re.DOTALL | re.MULTILINE)
        assert line
        pasted = subprocess.run(["/bin/sh", "-c", f"{line[0]} --silent"], check=False, capture_output=True, text=True)  # noqa: S603  # What it printed.

        listed = run([RUNTALLY, "keys", "list"], settings.data_dir)
        health = httpx.get(f"{url}/api/health", timeout=END_SECONDS)

    assert pasted.stdout.startswith('{"ok":true'), pasted.stdout + pasted.stderr
    assert listed.returncode == 0, listed.stderr
    assert health.json()["database"] == "ok"


def test_a_taken_port_is_said_before_anything_starts(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = commands.run("serve", "--port", port, environment=environment(data_dir))

    assert refused.code == 1
    assert "another program listens there" in refused.err
    assert "Traceback" not in refused.err
    assert not list(data_dir.iterdir())


def test_dev_mode_is_refused_where_others_can_reach_it(data_dir: Path) -> None:
    dev_mode = environment(data_dir, SERVICE_DEV_MODE="1")

    refused = commands.run("serve", "--host", "0.0.0.0", environment=dev_mode)  # noqa: S104  # Refused.

    assert refused.code == 1
    assert "SERVICE_DEV_MODE_ALLOW_REMOTE=1" in refused.err


def test_settings_that_would_end_it_are_refused_before_anything_is_started(data_dir: Path) -> None:
    half = environment(
        data_dir, OIDC_ISSUER="https://id.example.com", SERVICE_SYNC_URL="http://x:port", SERVICE_DEV_MODE="1"
    )

    refused = commands.run("serve", "--provision", "--host", "0.0.0.0", "--workers", "2", environment=half)  # noqa: S104  # Refused.

    assert (refused.code, refused.out) == (1, "")
    for name in ("OIDC_CLIENT_SECRET", "SERVICE_SYNC_URL", "SERVICE_DEV_MODE_ALLOW_REMOTE"):
        assert name in refused.err
    assert list(data_dir.iterdir()) == []


def test_a_replacement_that_never_starts_keeps_nobody_from_ending_the_service(settings: Settings) -> None:
    with serving(settings.data_dir, "--workers", "2") as (process, _url):
        before = set(workers_of(process.pid))
        os.kill(process.pid, signal.SIGHUP)
        new = until(lambda: set(workers_of(process.pid)) - before)
        for pid in new:
            os.kill(pid, signal.SIGSTOP)
        process.terminate()
        # Of the five minutes that it has to start.
        process.communicate(timeout=END_SECONDS)

    assert process.returncode == 0
    until(lambda: not any(is_running(pid) for pid in before | new))


def test_without_a_database_it_serves_503_and_says_so(data_dir: Path) -> None:
    nowhere = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    with serving(data_dir, DATABASE_URL=nowhere) as (process, url):
        health = httpx.get(f"{url}/api/health", timeout=END_SECONDS)
        process.terminate()
        _, errors = process.communicate(timeout=END_SECONDS)

    assert health.status_code == 503
    assert "out of reach" in errors


@pytest.fixture
def powerless_url(postgres: Postgres) -> Iterator[str]:
    """A database without tables, as a role that may not make any."""
    name = f"powerless_{uuid4().hex}"
    url = make_url(postgres.create(name))
    postgres.execute(f"CREATE ROLE {name} LOGIN")
    yield url.set(username=name).render_as_string(hide_password=False)
    postgres.drop(name)
    postgres.execute(f"DROP ROLE {name}")


def test_without_tables_that_it_may_make_it_serves_503_until_somebody_migrates(
    powerless_url: str, postgres: Postgres, data_dir: Path
) -> None:
    role = make_url(powerless_url).username
    owned = postgres.named(str(role))
    grant = f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"
    # Outside dev mode it looks for users, to print a link for the first. Warnings of each try would fill the pipe.
    service = serving(
        data_dir,
        DATABASE_URL=powerless_url,
        SERVICE_DEV_MODE="",
        SECRET_KEY="secret",
        INGEST_API_KEY="key",
        LOG_LEVEL="ERROR",
    )
    with (
        service as (process, url),
        httpx.Client(base_url=url, timeout=END_SECONDS) as client,
    ):

        def posted() -> httpx.Response:
            return client.post("/api/ingest", json=make_run(projectId="shop"), headers={"x-api-key": "key"})

        before = posted()
        migrated = commands.run("migrate", environment={"DATABASE_URL": owned})
        postgres.execute(grant, url=owned)
        until(lambda: posted().status_code == 200)
        process.terminate()
        _, errors = process.communicate(timeout=END_SECONDS)

    assert before.status_code == 503
    assert migrated.code == 0
    assert f"Warning: The database of DATABASE_URL is out of reach: {NO_RIGHTS}." in errors
    assert "Traceback" not in errors


def family_of(process: subprocess.Popen[str], settings: Settings) -> list[int]:
    """The Postgres that it started, and its workers."""
    postgres = server_pid(settings.data_dir)
    assert postgres
    return [postgres, *(pid for pid in children_of(process.pid) if pid != postgres)]


def greeting_of(process: subprocess.Popen[str]) -> str:
    """All that was printed up to the last line of the greeting."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(process.stdout.readline())
    return "".join(lines)


def test_with_several_workers_what_is_wrong_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    ended = run([RUNTALLY, "serve", "--workers", "2", "--port", "0"], tmp_path / "file")

    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: DATA_DIR")
    assert ended.stderr.count("\n") == 1


def test_who_waits_at_a_terminal_is_told_what_the_first_start_makes(data_dir: Path) -> None:
    def said() -> str:
        shown, terminal = pty.openpty()
        port = free_port()
        command = [RUNTALLY, "serve", "--provision", "--port", str(port)]
        with (
            os.fdopen(shown, "rb", buffering=0) as screen,
            subprocess.Popen(command, env=environment(data_dir), stdout=terminal, stderr=terminal) as process,  # noqa: S603  # Ours.
        ):
            os.close(terminal)
            try:
                until(lambda: process.poll() is not None or is_live(f"http://127.0.0.1:{port}"))
            finally:
                process.terminate()
            text = b""
            # Linux ends a terminal that nobody has open any more with an error.
            with suppress(OSError):
                while part := screen.read(4096):
                    text += part
            return text.decode()

    assert said().startswith(f"Making a Postgres with tables and prices in {data_dir}, once...\r\n")
    assert "Making a Postgres" not in said()
