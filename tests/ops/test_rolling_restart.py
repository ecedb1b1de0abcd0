"""New workers take the place of the old ones while clients post: nobody is refused, nothing is lost."""

import asyncio
import os
import signal

import httpx

from runtally.embedded.server import Server
from runtally.settings import Settings
from tests.factories import make_run
from tests.ops.processes import answer_of, workers_of
from tests.ops.test_serve import serving
from tests.serving import client_of
from webapp.cli.supervisor import WORKER_START_SECONDS

KEY = "k"
CLIENTS = 2
PAUSE_SECONDS = 0.05
COUNT = "SELECT count(*) FROM runs WHERE project_id = 'rolling'"


class Client:
    """Posts one run after the other, each again until it is answered, over connections that are kept."""

    def __init__(self, url: str, number: int) -> None:
        self._url = url
        self._number = number
        self.statuses: list[int] = []

    async def post_until(self, done: asyncio.Event) -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with client_of(self._url, headers) as client:
            while not done.is_set():
                run = make_run(projectId="rolling", runId=f"{self._number}-{len(self.statuses)}")
                try:
                    answer = await client.post("/api/ingest", json=run)
                except httpx.TransportError:
                    # A connection that was kept may be closed under the next request, as with any server.
                    continue
                self.statuses.append(answer.status_code)
                # Who never rests takes from the new workers what they start with.
                await asyncio.sleep(PAUSE_SECONDS)


async def test_no_request_is_refused_and_no_run_is_lost_while_workers_are_replaced(settings: Settings) -> None:
    unlimited = {"INGEST_API_KEY": KEY, "LOG_LEVEL": "ERROR", "SVC_RATE_LIMIT_PER_MINUTE": "1000000"}
    # One that comes before there are workers is not the service's end.
    with serving(settings.data_dir, "--workers", "2", port=None, early=signal.SIGHUP, **unlimited) as (process, url):
        before, done = set(workers_of(process.pid)), asyncio.Event()
        clients = [Client(url, number) for number in range(CLIENTS)]
        posting = [asyncio.create_task(client.post_until(done)) for client in clients]
        os.kill(process.pid, signal.SIGHUP)
        # On a machine with ten times as much to do a worker took half a minute.
        async with asyncio.timeout(WORKER_START_SECONDS):
            # Each successor serves before its predecessor ends.
            while before & set(workers_of(process.pid)):  # noqa: ASYNC110  # Processes of others set no event.
                await asyncio.sleep(0.05)
        done.set()
        await asyncio.gather(*posting)
        stored = await asyncio.to_thread(answer_of, Server(settings.data_dir).url, COUNT)

    statuses = [status for client in clients for status in client.statuses]
    assert set(statuses) == {200}
    assert stored == len(statuses)
    assert len(statuses) > 50
