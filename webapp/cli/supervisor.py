"""The parent of several server processes: replaces those that die, and restarts all of them without a gap.

It imports little, since it does nothing else: a process of its own prepares the service, and the parent keeps nothing of what
that imports.
"""

import gc
import http.client
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe, active_children
from multiprocessing.connection import Connection
from time import monotonic
from types import FrameType
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import click
import structlog
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from runtally import COMMAND_AGENT
from runtally.errors import RuntallyError
from runtally.settings import Settings
from runtally.telemetry import count_replaced_worker, sharing
from webapp.cli.serve import BACKLOG

# Uvicorn makes a check that often. Counted in checks, so that a parent that was itself stopped blames nobody.
CHECK_SECONDS = 0.5
# For a worker to say that it lives, on a machine that does other things too.
WORKER_SECONDS = 30
# For a worker to start: on a machine whose processors are all busy, 30 were not enough.
WORKER_START_SECONDS = 300
# Longer than any request of ours takes; a client that stays connected must not keep the service from stopping.
SHUTDOWN_SECONDS = 10
# Longer than a proxy keeps an idle connection, so that it is never closed under a request.
KEEP_ALIVE_SECONDS = 75
GREETING_SECONDS = 0.1
# For workers to end after they were told to: open requests have 10 of it, and background work the rest.
WORKER_STOP_SECONDS = 60
NOT_STARTED = "The service did not start; the lines above say why."

log = structlog.get_logger()


def supervise(settings: Settings, listener: socket.socket, greeting: str) -> None:
    """Keep several workers until a signal, and greet once they answer. Raises `RuntallyError` when they do not start."""
    with sharing(settings.data_dir):
        workers = Workers(serving(settings.web_concurrency), sockets=[listener])
        with greeting_once_up(settings.own_url(listener.getsockname()[1]), greeting):
            try:
                workers.run()
            except BaseException:
                # Python waits at its end for those that it started: without a parent they would serve on, and keep the port.
                workers.terminate_all()
                workers.join_all()
                # One that was just started may have no place among them yet.
                for left in active_children():
                    left.kill()
                    left.join()
                raise
    if any(process.exitcode == STARTUP_FAILURE for process in workers.processes):
        raise RuntallyError(NOT_STARTED)


def serving(workers: int) -> Config:
    """Return how the service is served."""
    return Config(
        "webapp.cli.worker:application",
        factory=True,
        workers=workers,
        loop="uvloop",
        http="webapp.server.protocol:LimitedProtocol",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


@dataclass(slots=True)
class _Watch:
    """What a worker has answered so far."""

    has_answered: bool = False
    is_asked: bool = False
    checks_unanswered: int = 0

    @property
    def patience(self) -> int:
        return WORKER_SECONDS if self.has_answered else WORKER_START_SECONDS


class Workers(Multiprocess):
    """Processes that ignore Ctrl-C while they start, since it would end a worker that still imports in a traceback.

    Their servers handle it, and the supervisor passes it on.
    """

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._watches: WeakKeyDictionary[Process, _Watch] = WeakKeyDictionary()

    def init_processes(self) -> None:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().init_processes()
        signal.signal(signal.SIGINT, handler)

    def restart_all(self) -> None:
        """Give each new worker time to start under full load, and stop at once when the service is to end.

        Those before it serve meanwhile. Signals are handled between restarts otherwise.
        """
        handlers = {number: signal.signal(number, self._leave) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for index, old in enumerate(self.processes):
                if self.should_exit.is_set() or not self._replaced(index):
                    return
                old.terminate()
                _end([old])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _replaced(self, index: int) -> bool:
        """Return whether a new worker serves in the place of one, which goes on otherwise."""
        new = self._started()
        if new is None:
            return False
        if new.wait_until_ready(WORKER_START_SECONDS, self.should_exit):
            self.processes[index] = new
            return True
        new.kill()
        new.join()
        if not self.should_exit.is_set():
            log.error("restart_given_up", pid=new.pid, reason=f"not ready within {WORKER_START_SECONDS} s")
        return False

    def _started(self) -> Process | None:
        """Return a new worker; None where the system has no memory or files for it, which it may have at the next check."""
        try:
            # Its pipes are files too.
            new = Process(self.config, self.sockets)
            new.start()
        except OSError as error:
            log.error("worker_not_started", reason=error.strerror)  # noqa: TRY400  # Its words say all.
            return None
        return new

    def join_all(self) -> None:
        """Wait for the workers to end, and kill those that do not."""
        _end(self.processes)

    def _leave(self, _number: int, _frame: FrameType | None) -> None:
        self.should_exit.set()

    def keep_subprocess_alive(self) -> None:
        """Replace each worker that has ended or does not answer, and say why.

        Unlike uvicorn's, a check never waits, so that one worker that hangs delays neither signals nor the others.
        """
        for index, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            reason = self._reason_to_replace(process)
            if reason is None:
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                # It would fail the same way each time.
                log.error("worker_did_not_start", pid=process.pid)
                self.should_exit.set()
                return
            new = self._started()
            if new is None:
                continue
            log.warning("worker_replaced", pid=process.pid, reason=reason)
            count_replaced_worker()
            self.processes[index] = new

    def _reason_to_replace(self, process: Process) -> str | None:
        if process.exitcode is not None:
            code = process.exitcode
            return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        watch = self._watches.setdefault(process, _Watch())
        try:
            # A restart asks more often than it is answered.
            while process.parent_conn.poll():
                process.parent_conn.recv()
                watch.has_answered, watch.is_asked, watch.checks_unanswered = True, False, 0
            if not watch.is_asked:
                process.parent_conn.send(b"ping")
                watch.is_asked = True
        except (OSError, EOFError):
            # It closed its end, so that it is about to end: unless it hangs, the next checks find how.
            pass
        watch.checks_unanswered += 1
        if watch.checks_unanswered * CHECK_SECONDS > watch.patience:
            return f"no answer for {watch.patience} s"
        return None


def _end(processes: Iterable[Process]) -> None:
    """Wait for processes that were told to end; one that is stopped or hangs is killed, as it would keep the service for ever."""
    deadline = monotonic() + WORKER_STOP_SECONDS
    for process in processes:
        process.process.join(max(0.0, deadline - monotonic()))
        if process.exitcode is None:
            log.warning("worker_killed", pid=process.pid, reason=f"it did not end within {WORKER_STOP_SECONDS} s")
            process.kill()
            process.join()


@contextmanager
def greeting_once_up(url: str, greeting: str) -> Iterator[None]:
    """Print the greeting once a worker answers, since no worker reports that it has started."""
    ended = threading.Event()

    def greet() -> None:
        while not ended.wait(GREETING_SECONDS):
            if _answers(url):
                click.echo(greeting)
                return

    thread = threading.Thread(target=greet, name="greeting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WORKER_SECONDS)
    try:
        connection.request("GET", "/api/health/live", headers={"User-Agent": COMMAND_AGENT})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def preparing(settings: Settings, listener: socket.socket, *, by_make: bool) -> Iterator[Callable[[str], str]]:
    """Begin to import what prepares; in the block, the function prepares the database of a URL and returns the greeting.

    The other process says what is wrong as this one would, and this one then ends with its exit code.
    """
    ours, theirs = Pipe()
    pid = os.fork()
    if not pid:
        ours.close()
        _prepare(settings, listener, theirs, by_make=by_make)
        os._exit(0)
    theirs.close()

    def prepared(url: str) -> str:
        nonlocal pid
        ours.send(url)
        try:
            greeting: str = ours.recv()
        except EOFError:
            _, status = os.waitpid(pid, 0)
            pid = 0
            sys.exit(abs(os.waitstatus_to_exitcode(status)))
        return greeting

    try:
        yield prepared
    finally:
        if pid:
            # It has ended, or nobody waits for it any more.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _prepare(settings: Settings, listener: socket.socket, parent: Connection, *, by_make: bool) -> None:
    # Nothing that is imported is garbage.
    gc.disable()
    from webapp.cli import service  # noqa: PLC0415  # Only here.

    try:
        url: str = parent.recv()
    except EOFError:
        # The parent has said why.
        return
    service.prepare(settings, url)
    parent.send(str(service.greeting(settings, url, listener, by_make=by_make)))
