"""When the parent of several workers replaces one, counted in its checks."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from multiprocessing import Pipe, active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvicorn
from structlog.testing import LogCapture

from runtally import telemetry
from runtally.settings import Settings
from webapp.cli import supervisor
from webapp.cli.supervisor import CHECK_SECONDS, WORKER_SECONDS, WORKER_START_SECONDS, Workers

Log = list[MutableMapping[str, Any]]


class FakeProcess:
    """A worker that answers when it is told to."""

    def __init__(self, *_: object) -> None:
        self.parent_conn, self.child_conn = Pipe()
        self.pid = id(self)
        self.exitcode: int | None = None

    def start(self) -> None:
        """Nothing starts."""

    def kill(self) -> None:
        self.exitcode = self.exitcode or -signal.SIGKILL

    def join(self) -> None:
        """It has ended already."""

    def answer(self) -> None:
        while self.child_conn.poll():
            self.child_conn.recv()
            self.child_conn.send(obj=False)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr(supervisor, "Process", FakeProcess)
    monkeypatch.setattr(supervisor, "count_replaced_worker", lambda: None)
    # It takes every signal for itself.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    workers = Workers(uvicorn.Config("nothing", workers=2), [])
    workers.processes = [FakeProcess(), FakeProcess()]  # type: ignore[list-item]  # As much of one as is asked.
    yield workers
    for process in workers.processes:
        process.parent_conn.close()
        process.child_conn.close()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """What the supervisor logs."""
    capture = LogCapture()
    monkeypatch.setattr(supervisor, "log", structlog.wrap_logger(None, processors=[capture]))
    return capture.entries


def check_for(seconds: float, workers: Workers, *, answering: FakeProcess | None = None) -> None:
    for _ in range(int(seconds / CHECK_SECONDS)):
        if answering:
            answering.answer()
        workers.keep_subprocess_alive()


def test_a_worker_has_five_minutes_to_start_and_the_log_says_when_that_was_not_enough(
    workers: Workers, log: Log
) -> None:
    good, slow = workers.processes
    check_for(WORKER_START_SECONDS, workers, answering=good)  # type: ignore[arg-type]  # A fake one.
    assert workers.processes == [good, slow]

    check_for(CHECK_SECONDS, workers, answering=good)  # type: ignore[arg-type]

    assert workers.processes[0] is good
    assert workers.processes[1] is not slow
    assert [(entry["event"], entry["pid"], entry["reason"]) for entry in log] == [
        ("worker_replaced", slow.pid, "no answer for 300 s")
    ]


def test_a_worker_that_has_answered_and_hangs_is_replaced_after_half_a_minute(workers: Workers, log: Log) -> None:
    hung, starting = workers.processes
    check_for(2 * CHECK_SECONDS, workers, answering=hung)  # type: ignore[arg-type]
    check_for(WORKER_SECONDS - 1, workers)
    assert workers.processes == [hung, starting]

    check_for(2 * CHECK_SECONDS, workers)

    assert workers.processes[0] is not hung
    assert workers.processes[1] is starting
    assert [entry["reason"] for entry in log] == ["no answer for 30 s"]


def test_a_worker_is_asked_once_until_it_answers(workers: Workers) -> None:
    process = workers.processes[0]
    check_for(20, workers)

    process.child_conn.recv()
    assert not process.child_conn.poll()


@pytest.mark.parametrize(
    ("code", "reason"), [(-signal.SIGSEGV, "ended by SIGSEGV"), (1, "ended with exit code 1")], ids=["signal", "code"]
)
def test_the_log_says_how_a_worker_ended(workers: Workers, log: Log, code: int, reason: str) -> None:
    workers.processes[0].exitcode = code  # type: ignore[misc]  # A fake one.
    workers.keep_subprocess_alive()

    assert [entry["reason"] for entry in log] == [reason]


def test_a_worker_that_refuses_to_start_ends_the_service(workers: Workers, log: Log) -> None:
    failed = workers.processes[0]
    failed.exitcode = 3  # type: ignore[misc]  # A fake one.
    workers.keep_subprocess_alive()

    assert workers.should_exit.is_set()
    assert workers.processes[0] is failed
    assert [entry["event"] for entry in log] == ["worker_did_not_start"]


def test_the_parent_of_several_workers_imports_nothing_that_only_they_need() -> None:
    script = "import sys, webapp.cli.serve, webapp.cli.supervisor, webapp.cli.supervisor; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603  # Ours.

    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"uvicorn", "pydantic"} <= loaded
    assert not loaded & {"alembic", "altair", "asyncpg", "jinja2", "msgspec", "quart", "sqlalchemy", "sqlmodel"}


def sleep_through(ready: Connection) -> None:
    """Take SIGTERM as a server does, which ends nothing by itself."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    ready.send(obj=True)
    ready.recv()


class Sleeper(FakeProcess):
    """A real process that does not hear that it shall end."""

    def __init__(self) -> None:
        super().__init__()
        self.process = get_context("spawn").Process(target=sleep_through, args=(self.child_conn,))
        self.process.start()
        assert self.parent_conn.recv()
        self.pid = self.process.pid or 0
        os.kill(self.pid, signal.SIGSTOP)

    @property
    def exitcode(self) -> int | None:
        return self.process.exitcode

    @exitcode.setter
    def exitcode(self, _code: int | None) -> None:
        """Its own."""

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    def join(self) -> None:
        self.process.join()


def test_workers_that_are_stopped_by_a_signal_do_not_keep_the_service_from_ending(
    workers: Workers, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "WORKER_STOP_SECONDS", 0.2)
    stopped = [Sleeper(), Sleeper()]
    workers.processes = stopped  # type: ignore[assignment]  # As much of one as is asked.

    workers.terminate_all()
    workers.join_all()

    assert [one.exitcode for one in stopped] == [-signal.SIGKILL] * 2
    assert [(entry["event"], entry["pid"]) for entry in log] == [("worker_killed", one.pid) for one in stopped]


def test_a_worker_that_had_no_place_yet_does_not_outlive_a_parent_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[Sleeper] = []

    def start_one_and_fail(_: Workers) -> None:
        made.append(Sleeper())
        raise OSError("Too many open files.")

    # It takes every signal for itself.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(Workers, "run", start_one_and_fail)
    # This process has children of other tests, too, such as a server that many share.
    others = set(active_children())
    monkeypatch.setattr(supervisor, "active_children", lambda: set(active_children()) - others)
    listener = socket.create_server(("127.0.0.1", 0))

    with listener, pytest.raises(OSError, match="Too many open files"):
        supervisor.supervise(Settings(data_dir=tmp_path), listener, "It is up.")

    assert [one.exitcode for one in made] == [-signal.SIGKILL]
    assert not set(active_children()) - others


def test_a_worker_whose_replacement_cannot_be_counted_is_replaced(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended = workers.processes[0]
    ended.exitcode = 1  # type: ignore[misc]  # A fake one.
    monkeypatch.setattr(supervisor, "count_replaced_worker", telemetry.count_replaced_worker)
    monkeypatch.setattr(telemetry, "_take_room", lambda _: None)
    with telemetry.sharing(tmp_path):
        (folder,) = (tmp_path / "telemetry").iterdir()
        # The file cannot be opened, as where no more files may be.
        (folder / f"counter_{os.getpid()}.db").mkdir()
        workers.keep_subprocess_alive()

    assert workers.processes[0] is not ended
