"""Past what it can do the service refuses quickly, stays small, serves everybody else, and recovers by itself."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from runtally.db.database import Connection, Database
from runtally.db.embedded import database_url
from runtally.db.server import Server
from runtally.db.turn import STUCK_SECONDS
from runtally.settings import Settings
from tests.assertions import assert_error
from tests.factories import make_run
from tests.ops.processes import answer_of, children_of, server_pid
from tests.ops.test_serve import serving

KEY = "k"
MIB = 1024 * 1024
HEAD = b"POST /api/ingest HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: k\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Busy:
    """A service with one worker and a Postgres of its own."""

    url: str
    pid: int
    data_dir: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @contextmanager
    def stopped_database(self) -> Iterator[None]:
        """It keeps its connections, takes new ones, and answers nobody: as with a disk that hangs."""
        postgres = server_pid(self.data_dir)
        assert postgres
        # The parent first, so that it has no other children by then.
        os.kill(postgres, signal.SIGSTOP)
        family = [postgres, *children_of(postgres)]
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in family:
                os.kill(pid, signal.SIGCONT)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30) as client:
            yield client

    async def connected(self, stack: AsyncExitStack, sent: bytes) -> asyncio.StreamReader:
        """A connection over which so much was sent; it is closed with the stack."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        stack.callback(writer.close)
        writer.write(sent)
        await writer.drain()
        return reader


@pytest.fixture(scope="module")
def busy(made_once: Path) -> Iterator[Busy]:
    with serving(made_once, INGEST_API_KEY=KEY, LOG_FORMAT="json") as (process, url):
        yield Busy(url, process.pid, made_once)


async def post(client: httpx.AsyncClient) -> tuple[httpx.Response, float]:
    """The answer to a run, and how many seconds it took."""
    began = time.monotonic()
    answer = await client.post("/api/ingest", json=make_run(projectId="busy"))
    return answer, time.monotonic() - began


async def until_taken(client: httpx.AsyncClient) -> float:
    """Seconds until a run is taken."""
    began = time.monotonic()
    while not (await post(client))[0].is_success:
        pass
    return time.monotonic() - began


async def test_a_database_that_hangs_costs_nobody_more_than_a_second_and_is_forgotten_when_it_goes_on(
    busy: Busy,
) -> None:
    async with busy.client() as client:
        await until_taken(client)
        with busy.stopped_database():
            waiting = [asyncio.create_task(post(client)) for _ in range(20)]
            await asyncio.sleep(STUCK_SECONDS + 0.5)
            refused = [await post(client) for _ in range(20)]
        recovered = await until_taken(client)
        waited = await asyncio.gather(*waiting)

    for answer, seconds in refused:
        assert_error(answer, 503, "overloaded")
        assert int(answer.headers["Retry-After"]) > 0
        assert seconds < 1
    assert recovered < 5
    assert {answer.status_code for answer, _ in waited} <= {200, 503}


async def test_five_hundred_idle_connections_and_slow_clients_are_in_nobodys_way(busy: Busy) -> None:
    async with busy.client() as client, AsyncExitStack() as stack:
        await until_taken(client)
        before = busy.resident_bytes()
        for number in range(500):
            half = HEAD + b"Content-Length: 5000000\r\n\r\n{" if number % 2 else b""
            await busy.connected(stack, half)
        answers = [await post(client) for _ in range(20)]
        grown = busy.resident_bytes() - before

    assert all(answer.is_success and seconds < 1 for answer, seconds in answers)
    assert grown < 32 * MIB


async def test_what_is_under_way_at_a_term_signal_is_finished_and_kept(settings: Settings) -> None:
    with serving(settings.data_dir, INGEST_API_KEY=KEY) as (process, url):
        busy = Busy(url, process.pid, settings.data_dir)
        async with busy.client() as client, Database(Server(settings.data_dir).url) as database:
            async with database.transaction() as connection:
                await connection.execute("LOCK TABLE projects IN EXCLUSIVE MODE")
                bodies = [{"projectId": f"ending-{number}", "runs": [make_run()] * 20} for number in range(20)]
                requests = [asyncio.create_task(client.post("/api/ingest", json=body)) for body in bodies]
                await until_all_wait(connection)
                process.terminate()
                await until_closed(busy.port)
            answers = await asyncio.gather(*requests)
        code = await asyncio.to_thread(process.wait, 20)

    assert [answer.status_code for answer in answers] == [200] * 20
    assert code == 0
    with database_url(settings) as url:
        count = "SELECT count(*) FROM runs WHERE project_id LIKE 'ending-%'"
        assert await asyncio.to_thread(answer_of, url, count) == 400


async def until_all_wait(connection: Connection) -> None:
    """The first flush is held up, and the other requests had their limits counted: they wait for the next one."""
    counted = "SELECT count(*) FROM rate_limits WHERE key LIKE '%:ending-%'"
    held = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    while await connection.fetchval(counted) < 20 or not await connection.fetchval(held):
        pass


async def until_closed(port: int) -> None:
    with suppress(ConnectionError):
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
