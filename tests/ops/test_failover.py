"""A database of two servers whose first one goes away while clients post: nothing that was acknowledged is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from runtally.clock import system_clock
from runtally.db.connecting import NO_WRITES
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.factories import make_run
from tests.pairs import Pair, running_pair
from tests.serving import INGEST_KEY, client_of, running_server

CLIENTS = 4
NODES = 2
BATCH = 5
PAUSE_SECONDS = 0.02
SECONDS = 90
STORED = "SELECT id FROM runs WHERE project_id = 'failover'"

GOES_AWAY: dict[str, Callable[[Pair], None]] = {"is killed": Pair.kill_first, "hangs": Pair.hang_first}


@pytest.fixture
def pair(run_folder: Path) -> Iterator[Pair]:
    with running_pair(run_folder) as pair:
        yield pair


class Nodes:
    """Several services over one database, as a proxy before them knows them."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._running: dict[str, ExitStack] = {}

    @property
    def urls(self) -> list[str]:
        return list(self._running)

    async def start(self) -> None:
        running = ExitStack()
        server = await asyncio.to_thread(running.enter_context, running_server(self._database_url, LOG_LEVEL="ERROR"))
        self._running[server.url] = running

    async def stop(self, url: str) -> None:
        """No request is sent there any more; those under way are finished."""
        await asyncio.to_thread(self._running.pop(url).close)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            await asyncio.gather(*(self.start() for _ in range(NODES)))
            yield
        finally:
            await asyncio.gather(*map(self.stop, self.urls))


class Client:
    """Posts one batch after the other, each again at the next node until it is acknowledged."""

    def __init__(self, number: int, nodes: Nodes) -> None:
        self._number = number
        self._nodes = nodes
        self.acknowledged: list[str] = []
        self.refused: Counter[int] = Counter()

    async def post_until(self, done: asyncio.Event) -> None:
        batch = tries = 0
        while not done.is_set():
            runs = [make_run(runId=f"{self._number}-{batch}-{each}") for each in range(BATCH)]
            urls = self._nodes.urls
            tries += 1
            try:
                async with client_of(urls[tries % len(urls)], {"Authorization": f"Bearer {INGEST_KEY}"}) as client:
                    answer = await client.post("/api/ingest", json={"projectId": "failover", "runs": runs})
            except httpx.TransportError:
                continue
            if answer.is_success:
                self.acknowledged += answer.json()["ids"]
                batch += 1
            else:
                self.refused[answer.status_code] += 1
            await asyncio.sleep(PAUSE_SECONDS)


async def until_each_has(clients: list[Client], more: int) -> None:
    wanted = [len(client.acknowledged) + more for client in clients]
    async with asyncio.timeout(SECONDS):
        # Only the clients know when they are answered.
        while any(len(client.acknowledged) < least for client, least in zip(clients, wanted, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECONDS)


@pytest.mark.parametrize("how", GOES_AWAY)
async def test_a_synchronous_standby_that_is_promoted_has_all_that_was_acknowledged(pair: Pair, how: str) -> None:
    async with Database(pair.url_of(pair.second)) as standby, Database(pair.url) as both:
        with pytest.raises(StoreUnavailable) as caught:
            async with standby.connection():
                pytest.fail("a standby takes no writes")
        assert caught.value.reason == NO_WRITES
        async with both.session() as session:
            assert not await session.scalar(text("SELECT pg_is_in_recovery()"))
    nodes, done = Nodes(pair.url), asyncio.Event()
    clients = [Client(number, nodes) for number in range(CLIENTS)]
    async with nodes.running():
        posting = [asyncio.create_task(client.post_until(done)) for client in clients]
        await until_each_has(clients, 10 * BATCH)

        GOES_AWAY[how](pair)
        await asyncio.to_thread(pair.promote)
        await until_each_has(clients, BATCH)

        for url in nodes.urls:
            await nodes.stop(url)
            await until_each_has(clients, BATCH)
            await nodes.start()
        await until_each_has(clients, BATCH)
        done.set()
        await asyncio.gather(*posting)

    async with Database(pair.url) as database:
        async with database.connection() as connection:
            stored = Counter(row["id"] for row in await connection.fetch(STORED))
        different = [str(scope) async for scope, found in verify_sums(database, system_clock()) if found]
    acknowledged = {run for client in clients for run in client.acknowledged}
    assert acknowledged - stored.keys() == set()
    assert max(stored.values()) == 1
    assert different == []
    assert set().union(*(client.refused for client in clients)) <= {503}
