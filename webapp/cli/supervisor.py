"""The parent of several server processes: replaces those that die, and restarts all of them without a gap."""

import signal
import socket
from dataclasses import dataclass
from types import FrameType
from weakref import WeakKeyDictionary

import structlog
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from runtally.telemetry import count_replaced_worker

# Uvicorn makes a check that often. Counted in checks, so that a parent that was itself stopped blames nobody.
CHECK_SECONDS = 0.5
# For a worker to say that it lives, on a machine that does other things too.
WORKER_SECONDS = 30
# For a worker to start: on a machine whose processors are all busy, 30 were not enough.
WORKER_START_SECONDS = 300

log = structlog.get_logger()


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
            super().restart_all()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

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
            log.warning("worker_replaced", pid=process.pid, reason=reason)
            count_replaced_worker()
            new = Process(self.config, self.sockets)
            new.start()
            self.processes[index] = new

    def _reason_to_replace(self, process: Process) -> str | None:
        if process.exitcode is not None:
            return _ending(process.exitcode)
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


def _ending(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
