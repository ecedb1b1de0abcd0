"""The shared store grants exactly what the rule allows, however many ask at the same time."""

import asyncio
import uuid
from datetime import timedelta

import pytest

from runtally.db.database import Database
from runtally.limits.limiter import LimitStore, delete_idle_keys
from runtally.limits.rate import Grant, Rate

SECOND = 1_000_000_000
TEN = Rate(10)


class Shared:
    """The store, and a way to let time pass for one of its keys."""

    def __init__(self, database: Database) -> None:
        self._store = LimitStore(database)
        self._database = database

    async def take(self, key: str, wanted: int = 1, rate: Rate = TEN) -> Grant:
        return (await self._store.take(rate, {key: wanted}))[key]

    async def take_all(self, rate: Rate, wanted: dict[str, int]) -> dict[str, int]:
        return {key: grant.granted for key, grant in (await self._store.take(rate, wanted)).items()}

    async def pass_time(self, key: str, seconds: int) -> None:
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE rate_limits SET tat_ns = tat_ns - $2 WHERE key = $1", key, seconds * SECOND
            )


@pytest.fixture
def shared(database: Database) -> Shared:
    return Shared(database)


@pytest.fixture
def key() -> str:
    return f"key-{uuid.uuid4().hex}"


async def test_as_many_as_the_limit_are_granted_and_not_one_more(shared: Shared, key: str) -> None:
    granted = [(await shared.take(key)).granted for _ in range(12)]

    assert granted == [1] * 10 + [0, 0]


async def test_a_clock_that_is_put_back_refuses_a_key_no_longer_than_its_limit_takes(shared: Shared, key: str) -> None:
    await shared.take(key, 5)
    # All of it is then an hour ahead.
    await shared.pass_time(key, -3600)

    refused = await shared.take(key)
    await shared.pass_time(key, 6)

    assert refused.granted == 0
    assert refused.busy_ns <= 60 * SECOND
    assert (await shared.take(key, 10)).granted == 1


@pytest.mark.parametrize("count", [1, 2, 7, 60, 1000, 9_999, 100_001, 1_000_000])
async def test_a_batch_gets_what_the_limit_allows_whatever_the_limit(shared: Shared, key: str, count: int) -> None:
    assert (await shared.take(key, count + 5, Rate(count))).granted == count


@pytest.mark.parametrize("count", [1, 2, 7, 60, 999])
async def test_a_second_batch_gets_the_rest_of_the_first_one(shared: Shared, key: str, count: int) -> None:
    # Long enough that none is free again meanwhile, however slow the machine.
    rate = Rate(count, timedelta(days=1))
    first = await shared.take(key, count // 2, rate)

    assert (await shared.take(key, count, rate)).granted == count - first.granted
    assert (await shared.take(key, count, rate)).granted == 0


async def test_an_answer_tells_when_the_whole_limit_is_free_again(shared: Shared, key: str) -> None:
    three = await shared.take(key, 3)
    full = await shared.take(key, 20)
    refused = await shared.take(key)

    assert three.busy_ns == pytest.approx(18 * SECOND, abs=SECOND)
    assert full.busy_ns == pytest.approx(60 * SECOND, abs=SECOND)
    assert refused.busy_ns <= full.busy_ns


async def test_time_frees_one_slot_an_interval_and_never_more_than_the_limit(shared: Shared, key: str) -> None:
    await shared.take(key, 10)

    await shared.pass_time(key, 12)
    after_two_intervals = (await shared.take(key, 10)).granted
    await shared.pass_time(key, 3600)

    assert after_two_intervals == 2
    assert (await shared.take(key, 20)).granted == 10


async def test_keys_are_counted_apart_also_within_one_question(shared: Shared, key: str) -> None:
    await shared.take(f"{key}-used-up", 10)

    granted = await shared.take_all(TEN, {f"{key}-used-up": 3, f"{key}-fresh": 3, f"{key}-large": 30})

    assert granted == {f"{key}-used-up": 0, f"{key}-fresh": 3, f"{key}-large": 10}


async def test_exactly_the_limit_is_granted_to_many_requests_at_once(shared: Shared, key: str) -> None:
    grants = await asyncio.gather(*(shared.take(key) for _ in range(60)))

    assert sum(grant.granted for grant in grants) == 10


async def test_batches_over_the_same_keys_do_not_lock_each_other(shared: Shared, key: str) -> None:
    keys = [f"{key}-{number}" for number in range(40)]

    results = await asyncio.gather(
        *(shared.take_all(TEN, dict.fromkeys(keys if turn % 2 else reversed(keys), 1)) for turn in range(24))
    )

    assert {key: sum(result[key] for result in results) for key in keys} == dict.fromkeys(keys, 10)


async def test_the_counts_are_not_written_to_the_log_of_the_database(database: Database) -> None:
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT relpersistence FROM pg_class WHERE relname = 'rate_limits'") == b"u"


async def test_idle_keys_are_forgotten_and_busy_ones_are_not(database: Database, key: str) -> None:
    shared = Shared(database)
    await shared.take(f"{key}-idle")
    await shared.take(f"{key}-busy")
    await shared.pass_time(f"{key}-idle", 7)

    async with database.connection() as connection:
        await delete_idle_keys(connection)
        left = await connection.fetch("SELECT key FROM rate_limits WHERE starts_with(key, $1)", key)

    assert [row["key"] for row in left] == [f"{key}-busy"]
