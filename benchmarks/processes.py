"""The programs that are measured: the service as it is started in production, and the yardsticks on the same server."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPMessage
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
RUNTALLY = Path(sys.executable).with_name("runtally")
KEY = "ingest-key-of-the-benchmark"
START_SECONDS = 60.0
POLL_SECONDS = 0.01
# No limit is ever reached, but every request is counted.
UNLIMITED = "1000000000"
ENVIRONMENT = {
    "INGEST_API_KEY": KEY,
    "SECRET_KEY": "secret-key-of-the-benchmark",
    # With a secret every run is queued for the reporting table, and the service's own relay copies it there.
    "SERVICE_SYNC_SIGN": "sync-secret-of-the-benchmark",
    "SVC_RATE_LIMIT_PER_MINUTE": UNLIMITED,
    "WRONG_KEY_LIMIT_PER_MINUTE": UNLIMITED,
    "LOG_FORMAT": "json",
    "DATA_DIR": "/nonexistent",
}


@dataclass(frozen=True, slots=True)
class Running:
    """A program that serves HTTP."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path
    """The file that stderr is written to."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, HTTPMessage]:
        """Status and headers of one request, with a body of JSON if there is one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.headers

    def resident_bytes(self) -> list[int]:
        """Return the memory of each process that serves: the workers if there are any, else the program itself."""
        program = psutil.Process(self.process.pid)
        workers = [child for child in program.children() if "spawn_main" in " ".join(child.cmdline())]
        return [process.memory_info().rss for process in workers or [program]]


def runtally(*arguments: str, database_url: str, **environment: str) -> str:
    """Return the output of a command of the product."""
    return subprocess.run(  # noqa: S603  # Our own command.
        [RUNTALLY, *arguments],
        env=_environment({"DATABASE_URL": database_url, **environment}),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def differences(*arguments: str, database_url: str, **environment: str) -> str:
    """The last lines of a command of the product that compares, if it found a difference; nothing if it found none."""
    try:
        runtally(*arguments, database_url=database_url, **environment)
    except subprocess.CalledProcessError as error:
        return (str(error.stdout) + str(error.stderr)).strip() or f"exit code {error.returncode}"
    return ""


@contextmanager
def started(*arguments: str, database_url: str, **environment: str) -> Iterator[None]:
    """A command of the product that runs until the block ends."""
    process = subprocess.Popen(  # noqa: S603  # Our own command.
        [RUNTALLY, *arguments],
        env=_environment({"DATABASE_URL": database_url, **environment}),
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        _stop(process)


@contextmanager
def service(database_url: str, *, workers: int = 1, **environment: str) -> Iterator[Running]:
    """`runtally serve` over a database, which it migrates and fills with prices."""
    port = free_port()
    command = [str(RUNTALLY), "serve", "--port", str(port), "--workers", str(workers)]
    with serving(command, port, "/api/health", {"DATABASE_URL": database_url, **environment}) as running:
        yield running


@contextmanager
def bare() -> Iterator[Running]:
    """The bare Quart route, on the server and with the options of `runtally serve`."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "uvicorn", "benchmarks.bare:app", "--loop", "uvloop", "--http", "httptools"),
        *("--no-access-log", "--log-level", "warning", "--workers", "1", "--port", str(port)),
    ]
    with serving(command, port, "/live") as running:
        yield running


@contextmanager
def serving(
    command: Sequence[str], port: int, path: str, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A program from its first answer on; stopped and waited for afterwards."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-log-") as folder:
        log = Path(folder) / "stderr"
        with log.open("ab") as stderr:
            process = subprocess.Popen(  # noqa: S603  # Commands of ours.
                command, cwd=ROOT, env=_environment(environment or {}), stdout=subprocess.DEVNULL, stderr=stderr
            )
        running = Running(port, process, log)
        try:
            wait_until_answered(running, path)
            yield running
        finally:
            _stop(process)


def wait_until_answered(running: Running, path: str) -> None:
    """Until a GET is answered with success. Raises `RuntimeError` when the program ends, `TimeoutError` when it hangs."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if running.process.poll() is not None:
            raise RuntimeError(f"{running.process.args!r} ended: {running.log.read_text()[-2000:]}")
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            if connection.getresponse().status < http.client.BAD_REQUEST:
                return
        connection.close()
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"{running.process.args!r} does not answer: {running.log.read_text()[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the caller's own settings: a benchmark never touches a real database."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **ENVIRONMENT, **given}
