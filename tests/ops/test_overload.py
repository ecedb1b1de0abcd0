"""Past what it can do the service refuses quickly, stays small, serves everybody else, and recovers by itself."""

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from runtally.db.database import Connection, Database
from runtally.embedded.server import Server, database_url
from runtally.settings import Settings
from tests.assertions import assert_error
from tests.factories import make_run
from tests.ops.processes import answer_of, go_on, hang, server_pid
from tests.ops.test_serve import serving
from tests.serving import PATIENCE_SECONDS, client_of

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
        family = hang(postgres)
        try:
            yield
        finally:
            go_on(family)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with client_of(self.url, headers) as client:
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
    # Nobody reads what it says, and a pipe that is full would stop it.
    with serving(made_once, INGEST_API_KEY=KEY, LOG_LEVEL="ERROR") as (process, url):
        yield Busy(url, process.pid, made_once)


async def post(client: httpx.AsyncClient) -> httpx.Response:
    """The answer to a run."""
    return await client.post("/api/ingest", json=make_run(projectId="busy"))


async def until_taken(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await post(client)).is_success:
            pass


async def test_a_database_that_hangs_keeps_nobody_waiting_and_is_forgotten_when_it_goes_on(
    busy: Busy,
) -> None:
    async with busy.client() as client:
        await until_taken(client)
        with busy.stopped_database():
            waiting = [asyncio.create_task(post(client)) for _ in range(20)]
            # Those that come before it is known that the database is stuck wait too.
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not any(one.done() for one in waiting):
                    waiting.append(asyncio.create_task(post(client)))
                    await asyncio.wait(waiting, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            # One after the other, while nothing answers that they could wait for.
            refused = [await post(client) for _ in range(20)]
        await until_taken(client)
        waited = await asyncio.gather(*waiting)

    for answer in refused:
        assert_error(answer, 503, "overloaded")
        assert int(answer.headers["Retry-After"]) > 0
    assert {answer.status_code for answer in waited} <= {200, 503}


async def test_two_thousand_idle_connections_and_slow_clients_do_not_block_others(busy: Busy) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with busy.client() as client, AsyncExitStack() as stack:
        await until_taken(client)
        before = busy.resident_bytes()
        for number in range(2_000):
            # Nothing, half a head, half a body.
            half = (b"", b"", HEAD, HEAD + b"Content-Length: 5000000\r\n\r\n{")[number % 4]
            await busy.connected(stack, half)
        answers = [await post(client) for _ in range(20)]
        grown = busy.resident_bytes() - before

    assert all(answer.is_success for answer in answers)
    assert grown < 96 * MIB


async def test_bodies_without_an_announced_end_take_no_more_than_there_is_room_for(busy: Busy) -> None:
    async with busy.client() as client:
        await until_taken(client)
        before = busy.resident_bytes()
        head, piece = HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n" % (MIB, b" " * MIB)

        statuses = [
            status
            for _ in range(3)
            for status in await asyncio.gather(*(status_of(busy, head, piece) for _ in range(25)))
        ]
        grown = busy.resident_bytes() - before
        last = await status_of(busy, head, piece)

    # Requests that there was no room for are asked to come again.
    assert set(statuses) <= {b"413", b"503"}
    assert last == b"413"
    assert grown < 180 * MIB


@pytest.mark.parametrize("piece", [b"x" * MIB, b"X-Another: header\r\n" * 50_000], ids=["one header", "many headers"])
async def test_a_head_without_end_is_hung_up_on(busy: Busy, piece: bytes) -> None:
    before = busy.resident_bytes()

    status = await status_of(busy, HEAD + b"X-Long: ", piece)

    assert status in {b"431", b""}
    assert busy.resident_bytes() - before < 8 * MIB


async def status_of(busy: Busy, head: bytes, piece: bytes) -> bytes:
    """Of the answer to a request that goes on for 8 MiB; nothing if it was hung up on before the answer could be read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", busy.port)
    with closing(writer), suppress(ConnectionError):
        writer.write(head)
        for _ in range(8):
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await reader.readline())[9:12]
    return b""


async def test_requests_under_way_at_a_term_signal_are_finished_and_stored(settings: Settings) -> None:
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
