"""Group commit: many requests in one flush, each with its own answer."""

import asyncio
import uuid
from collections import Counter
from datetime import UTC, datetime

import asyncpg
import pytest

from runtally.db import batcher
from runtally.db.database import Connection, Database
from runtally.errors import StoreBusy, StoreUnavailable
from runtally.ingest import writer as module
from runtally.ingest.queries import insert_runs
from runtally.ingest.writer import Writer
from runtally.models.run import Status, StoredRun
from tests.store.ingest.putting import put

NOW = datetime(2026, 3, 29, 1, 7, 5, 123456, tzinfo=UTC)


def made(project_id: str, run_id: str = "", *, latency_ms: int = 5) -> StoredRun:
    return StoredRun(
        project_id=project_id,
        id=run_id or uuid.uuid4().hex,
        occurred_at=NOW,
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        latency_ms=latency_ms,
        created_at=NOW,
        version=1,
    )


async def stored(database: Database, project_id: str) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id))


async def test_requests_of_one_flush_each_get_their_number_of_new_runs(database: Database, project_id: str) -> None:
    async with Writer.opened(database, queued=False) as writer:
        new = await asyncio.gather(
            *(put(writer, [made(project_id, f"r{number % 20}"), made(project_id, "shared")]) for number in range(60))
        )

    assert sum(new) == await stored(database, project_id) == 21


async def test_a_run_that_another_process_stores_at_the_moment_is_awaited_and_known(
    database: Database, project_id: str
) -> None:
    async with Writer.opened(database, queued=False) as writer, database.connection() as other:
        begun = other.transaction()
        await begun.start()
        await insert_runs(other, [made(project_id, "shared")], queued=False)
        sent = asyncio.create_task(put(writer, [made(project_id, "own"), made(project_id, "shared")]))
        async with database.connection() as watching:
            while not await watching.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                pass
        await begun.commit()

        assert await sent == 1
    async with database.connection() as connection:
        counted = await connection.fetchval("SELECT sum(runs) FROM sum_deltas WHERE project_id = $1", project_id)
    assert counted == await stored(database, project_id) == 2


async def test_a_flush_takes_all_runs_that_arrived_during_the_one_before(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes: list[int] = []
    begun = asyncio.Event()

    async def counted(
        connection: Connection, runs: list[StoredRun], queued: bool, **more: object
    ) -> Counter[tuple[str, str]]:
        flushes.append(len(runs))
        begun.set()
        return await insert_runs(connection, runs, queued=queued)

    monkeypatch.setattr(module, "insert_runs", counted)
    async with Writer.opened(database, queued=False) as writer:
        first = asyncio.create_task(put(writer, [made(project_id)]))
        await begun.wait()
        await asyncio.gather(first, *(put(writer, [made(project_id)]) for _ in range(40)))

    assert flushes == [1, 40]


async def test_a_row_that_cannot_be_stored_fails_its_own_request_alone(database: Database, project_id: str) -> None:
    poisoned = made(project_id, latency_ms=2**70)
    async with Writer.opened(database, queued=False) as writer:
        answers = await asyncio.gather(
            put(writer, [made(project_id)]),
            put(writer, [made(project_id), poisoned]),
            put(writer, [made(project_id)]),
            return_exceptions=True,
        )

    assert answers[0] == answers[2] == 1
    assert isinstance(answers[1], asyncpg.DataError)
    assert await stored(database, project_id) == 2


async def test_too_many_waiting_runs_are_refused_at_once(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_OF_PROJECT", 3)
    monkeypatch.setattr(module, "MAX_WAITING", 5)
    async with Writer.opened(database, queued=False) as writer:
        sent = [asyncio.create_task(put(writer, [made(project_id)])) for _ in range(5)]
        others = [asyncio.create_task(put(writer, [made(f"{project_id}-{number}")])) for number in range(4)]
        answers = await asyncio.gather(*sent, *others, return_exceptions=True)

    assert [type(answer) for answer in answers] == [int, int, int, StoreBusy, StoreBusy, int, int, StoreBusy, StoreBusy]
    assert await stored(database, project_id) == 3


async def test_a_request_of_more_runs_than_may_wait_is_taken_when_nothing_waits(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (module.MAX_WAITING, module.MAX_WAITING_OF_PROJECT) == (50_000, 25_000)
    monkeypatch.setattr(module, "MAX_WAITING_OF_PROJECT", 3)
    monkeypatch.setattr(module, "MAX_WAITING", 5)

    async with Writer.opened(database, queued=False) as writer:
        assert await put(writer, [made(project_id) for _ in range(6)]) == 6


async def test_projects_take_turns(database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that has sent much does not keep the others waiting."""
    monkeypatch.setattr(module, "FLUSHED_AT_ONCE", 2)
    done: list[str] = []

    async def store(writer: Writer, name: str) -> None:
        await put(writer, [made(name)])
        done.append(name)

    async with Writer.opened(database, queued=False) as writer:
        await asyncio.gather(*(store(writer, project_id) for _ in range(10)), store(writer, f"{project_id}-small"))

    assert f"{project_id}-small" in done[:2]


async def test_closing_stores_all_accepted_runs(database: Database, project_id: str) -> None:
    async with Writer.opened(database, queued=False) as writer:
        waiting = [asyncio.create_task(put(writer, [made(project_id)])) for _ in range(10)]
        await asyncio.sleep(0)

    assert await stored(database, project_id) == 10
    assert await asyncio.gather(*waiting) == [1] * 10


async def test_without_a_database_every_request_fails() -> None:
    async with (
        Database("postgresql://nobody@127.0.0.1:1/none") as away,
        Writer.opened(away, queued=False) as writer,
    ):
        answers = await asyncio.gather(*(put(writer, [made("p")]) for _ in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3


async def test_requests_are_refused_behind_a_stuck_flush_and_served_afterwards(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def stuck(
        connection: Connection, runs: list[StoredRun], queued: bool, **more: object
    ) -> Counter[tuple[str, str]]:
        begun.set()
        await go_on.wait()
        return await insert_runs(connection, runs, queued=queued)

    monkeypatch.setattr(module, "insert_runs", stuck)
    async with Writer.opened(database, queued=False) as writer:
        first = asyncio.create_task(put(writer, [made(project_id)]))
        await begun.wait()
        monkeypatch.setattr(batcher, "STUCK_SECONDS", -1.0)
        with pytest.raises(StoreBusy):
            await put(writer, [made(project_id)])
        go_on.set()
        assert await first == 1
        assert await put(writer, [made(project_id)]) == 1


async def test_who_waits_behind_a_flush_that_was_stuck_and_failed_is_refused_with_it(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def cut_off(*_: object, **__: object) -> Counter[tuple[str, str]]:
        begun.set()
        await go_on.wait()
        raise StoreUnavailable

    monkeypatch.setattr(module, "insert_runs", cut_off)
    async with Writer.opened(database, queued=False) as writer:
        first = asyncio.create_task(put(writer, [made(project_id)]))
        await begun.wait()
        second = asyncio.create_task(put(writer, [made(project_id)]))
        await asyncio.sleep(0)
        monkeypatch.setattr(batcher, "STUCK_SECONDS", -1.0)
        go_on.set()
        answers = await asyncio.gather(first, second, return_exceptions=True)

    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreBusy]
