"""The service as in production, with its own Postgres, kept running as a supervisor does; and who is to be killed."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

import httpx

from runtally.embedded.server import Server
from tests.documents import SYNC_SECRET
from tests.ops.processes import RUNTALLY, children_of, environment, is_running, server_pid, workers_of
from tests.serving import INGEST_KEY, free_port
from webapp.cli.supervisor import WORKER_START_SECONDS

WORKERS = 2
CELL = "eu"
POLL_SECONDS = 0.02
# Of a start with recovery, on a machine that does other things too.
START_SECONDS = 180.0
STOP_SECONDS = 30.0
_UNLIMITED = "100000000"


class Service:
    """`runtally serve --workers 2` over a data folder; started again whenever it ends."""

    def __init__(self, data_dir: Path, *, has_relay: bool = False, has_cell: bool = False) -> None:
        """With a relay in a process of its own, or with one in each worker; maybe with a second cell.

        With that nothing is queued for the reporting table.
        """
        self.data_dir = data_dir
        self.port = free_port()
        self.database_url = Server(data_dir).url
        self.log = data_dir / "service.log"
        self.starts = 0
        self._leaving: set[int] = set()
        self._aborted = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._relay: subprocess.Popen[bytes] | None = None
        self._has_relay = has_relay
        self.cell: Server | None = None
        if has_cell:
            (data_dir / CELL).mkdir(mode=0o755)
            self.cell = Server(data_dir / CELL)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        of_cell = {"CELL_URLS": f"{CELL}={self.cell.url}"} if self.cell else {"SERVICE_SYNC_SIGN": SYNC_SECRET}
        return environment(
            self.data_dir,
            **of_cell,
            INGEST_API_KEY=INGEST_KEY,
            SECRET_KEY="secret-key-of-the-storm",
            SVC_RATE_LIMIT_PER_MINUTE=_UNLIMITED,
            RELAY="off" if self._has_relay else "embedded",
            LOG_FORMAT="json",
            LOG_LEVEL="WARNING",
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with self.log.open("ab") as log:
            if self.cell:
                await asyncio.to_thread(self.cell.start_or_adopt)
                for command in (("migrate",), ("cells", "add", CELL), ("cells", "open", CELL)):
                    await self._run(*command)
            watches = [asyncio.create_task(self._keep_up(log)), asyncio.create_task(self._keep_cell_up())]
            try:
                await self.until_healthy()
                yield
            finally:
                for watch in watches:
                    watch.cancel()
                await asyncio.gather(*watches, return_exceptions=True)
                await self._stop()

    async def until_healthy(self) -> None:
        """Raises `TimeoutError`; the log says why, then."""
        deadline = time.monotonic() + START_SECONDS
        async with httpx.AsyncClient(base_url=self.url, timeout=5, trust_env=False) as client:
            while time.monotonic() < deadline:
                with suppress(httpx.TransportError):
                    answer = await client.get("/api/health")
                    # A cell that is away is no reason to refuse all.
                    if answer.is_success and answer.json()["status"] == "ok":
                        return
                await asyncio.sleep(POLL_SECONDS)
        raise TimeoutError(f"no health in {START_SECONDS:.0f} s: {self.log.read_text()[-2_000:]}")

    def replace_workers(self, main_process: int) -> None:
        """Begin to replace all workers, one after the other, unless that is under way: a second time would follow the first."""
        if not self._is_replacing():
            self._leaving, self._aborted = set(self.workers()), self._count_aborted()
            os.kill(main_process, signal.SIGHUP)

    async def until_replaced(self) -> None:
        """Wait until the workers that were to be replaced last have ended, or stay. Raises `TimeoutError`."""
        deadline = time.monotonic() + WORKERS * WORKER_START_SECONDS
        while self._is_replacing():
            if time.monotonic() > deadline:
                raise TimeoutError("workers are not replaced")
            await asyncio.sleep(POLL_SECONDS)

    def _is_replacing(self) -> bool:
        return bool(self._leaving.intersection(self.workers())) and self._aborted == self._count_aborted()

    def _count_aborted(self) -> int:
        """Return how often the service kept its workers because a new one did not start in time."""
        return self.log.read_bytes().count(b"restart_given_up")

    async def migrate(self) -> None:
        """As a release does, while the old one serves. Whether it comes through is not the point: what it leaves is."""
        await self._run("migrate")

    async def _run(self, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            RUNTALLY,
            *arguments,
            env=self.environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await process.wait()

    def main_process(self) -> list[int]:
        """As all of these: those that could be killed now."""
        return _alive(self._process)

    def relay(self) -> list[int]:
        return _alive(self._relay)

    def workers(self) -> list[int]:
        with suppress(FileNotFoundError, ProcessLookupError):
            return [worker for parent in self.main_process() for worker in workers_of(parent)]
        return []

    def postgres(self) -> list[int]:
        folders = [self.data_dir, *([self.data_dir / CELL] if self.cell else [])]
        return [pid for folder in folders if (pid := server_pid(folder)) and is_running(pid)]

    def backends(self) -> list[int]:
        """Processes of Postgres that serve a connection."""
        with suppress(FileNotFoundError, ProcessLookupError):
            return [
                child
                for parent in self.postgres()
                for child in children_of(parent)
                if b"runtally [local]" in Path(f"/proc/{child}/cmdline").read_bytes()
            ]
        return []

    async def _keep_up(self, log: IO[bytes]) -> None:
        command = [RUNTALLY, "serve", "--workers", str(WORKERS), "--port", str(self.port)]
        while True:
            if not self.main_process():
                self.starts += 1
                self._process = self._started(command, log)
            # It finds the tables and the database of the service that runs.
            if self._has_relay and not self.relay() and self.postgres():
                self._relay = self._started([RUNTALLY, "relay"], log)
            await asyncio.sleep(POLL_SECONDS)

    async def _keep_cell_up(self) -> None:
        while self.cell:
            pid = server_pid(self.data_dir / CELL)
            if not pid or not is_running(pid):
                await asyncio.to_thread(self.cell.start_or_adopt)
            await asyncio.sleep(POLL_SECONDS)

    def _started(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  # Our own commands.
            command, env=self.environment, stdout=log, stderr=log, start_new_session=True
        )

    async def _stop(self) -> None:
        for process in filter(None, (self._relay, self._process)):
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        # Left only if it did not stop it.
        for pid in self.postgres():
            os.kill(pid, signal.SIGQUIT)


def _alive(process: subprocess.Popen[bytes] | None) -> list[int]:
    return [process.pid] if process and process.poll() is None else []
