"""Keys that send runs are remembered, and refused within a second of their end."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from runtally.access.keys import MAX_REMEMBERED, REMEMBERED_SECONDS, KnownKeys, get_by_prefix_or_id, issue, revoke
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import InvalidKey
from tests.factories import make_key, make_run
from tests.serving import running_server

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


class Time:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now, self.seconds = NOW, 0.0

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.seconds += seconds


async def end(database: Database, secret: str) -> None:
    async with database.session() as session:
        revoke(session, NOW, OPERATOR, await get_by_prefix_or_id(session, secret[:11]))


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def keys(database: Database, time: Time) -> KnownKeys:
    return KnownKeys(database, lambda: time.now, lambda: time.seconds)


async def test_a_key_is_looked_up_once_a_second_and_refused_within_one_of_its_end(
    keys: KnownKeys, time: Time, database: Database, project_id: str
) -> None:
    secret = await make_key(database, project_id, Scope.RUNS_WRITE)
    holder = await keys.holder_of(secret)
    await end(database, secret)

    time.pass_by(REMEMBERED_SECONDS - 0.01)
    assert await keys.holder_of(secret) is holder
    time.pass_by(0.01)
    with pytest.raises(InvalidKey):
        await keys.holder_of(secret)
    time.pass_by(-0.01)
    with pytest.raises(InvalidKey):
        await keys.holder_of(secret)
    assert REMEMBERED_SECONDS < 1


async def test_a_key_is_refused_within_a_second_of_its_expiry(
    keys: KnownKeys, time: Time, database: Database, project_id: str
) -> None:
    scopes, lifetime = [Scope.RUNS_WRITE], timedelta(seconds=5)
    async with database.session() as session:
        secret = issue(session, NOW, OPERATOR, project_id=project_id, scopes=scopes, lifetime=lifetime).secret

    time.pass_by(4.9)
    assert (await keys.holder_of(secret)).project_id == project_id
    time.pass_by(1)
    with pytest.raises(InvalidKey):
        await keys.holder_of(secret)


async def test_a_key_that_was_wrong_is_good_as_soon_as_it_exists(keys: KnownKeys, database: Database) -> None:
    for _ in range(2):
        with pytest.raises(InvalidKey):
            await keys.holder_of("rt_wrong")
    assert not keys._holders  # noqa: SLF001  # Wrong ones take no memory, however many are tried.
    assert MAX_REMEMBERED <= 10_000


async def test_a_revoked_key_is_refused_by_every_worker(database_url: str, database: Database, project_id: str) -> None:
    secret = await make_key(database, project_id, Scope.RUNS_WRITE)
    headers, asked_from_both = {"Authorization": f"Bearer {secret}"}, 40

    async def answers(server_url: str) -> set[int]:
        """Of many connections, which both workers take."""

        async def post() -> int:
            async with httpx.AsyncClient() as client:
                sent = await client.post(f"{server_url}/api/ingest", json=make_run(), headers=headers, timeout=60)
            return sent.status_code

        return set(await asyncio.gather(*(post() for _ in range(asked_from_both))))

    with running_server(database_url, workers=2) as server:
        while await answers(server.url) != {200}:
            pass
        await end(database, secret)
        revoked_at = asyncio.get_running_loop().time()
        while await answers(server.url) != {401}:
            assert asyncio.get_running_loop().time() - revoked_at < 60
        assert [await answers(server.url) for _ in range(3)] == [{401}] * 3
