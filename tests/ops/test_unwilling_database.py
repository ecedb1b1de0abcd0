"""A database that takes no changes for a while, or ends statements early, costs no run that was acknowledged."""

import asyncio
from collections import Counter

import httpx
import pytest

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.factories import make_run
from tests.serving import INGEST_KEY, UNWILLING, Postgres, client_of, running_server
from tests.stored import until_merged

PROJECT, BATCH, ROUNDS = "unwilling", 20, 3
STORED = f"SELECT id FROM runs WHERE project_id = '{PROJECT}'"


async def send(client: httpx.AsyncClient, number: int) -> httpx.Response:
    runs = [make_run(runId=f"{number}-{i}", costUSD=1) for i in range(BATCH)]
    return await client.post("/api/ingest", json={"projectId": PROJECT, "runs": runs})


@pytest.mark.parametrize("setting", UNWILLING.values(), ids=list(UNWILLING))
async def test_what_was_acknowledged_is_there_once_and_sums_are_exact(
    postgres: Postgres, empty_database_url: str, setting: str
) -> None:
    answers = dict[int, int]()
    headers = {"Authorization": f"Bearer {INGEST_KEY}"}

    async def change(statement: str) -> None:
        await asyncio.to_thread(postgres.begin_anew, empty_database_url, statement)

    async def post(number: int) -> None:
        answers[number] = (await send(client, number)).status_code

    with running_server(empty_database_url, LOG_LEVEL="ERROR") as server:
        async with client_of(server.url, headers) as client:
            for first in range(0, 30 * ROUNDS, 30):
                # Some arrive before, some while it changes, and some after.
                await asyncio.gather(*(post(first + number) for number in range(10)))
                await asyncio.gather(change(f"SET {setting}"), *(post(first + number) for number in range(10, 20)))
                await asyncio.gather(*(post(first + number) for number in range(20, 30)))
                await change(f"RESET {setting.partition(' ')[0]}")
                while (await client.get("/api/health")).status_code != 200:  # noqa: ASYNC110  # The server tells.
                    await asyncio.sleep(0.05)
            again = {number: await send(client, number) for number in answers}
            assert {one.status_code for one in again.values()} == {200}
        async with Database(empty_database_url) as database:
            await until_merged(database)
            async with database.connection() as connection:
                stored = Counter(row["id"] for row in await connection.fetch(STORED))
            differences = [found async for _, found in verify_sums(database, system_clock()) if found]

    assert Counter(answers.values()).keys() == {200, 503}
    for number, status in answers.items():
        if status == 200:
            assert again[number].json()["duplicates"] == BATCH, number
    assert stored == Counter(f"{number}-{i}" for number in answers for i in range(BATCH))
    assert differences == []
