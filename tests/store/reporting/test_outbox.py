"""The queue: who gets what, and what is left of it afterwards."""

from datetime import timedelta
from typing import Any

import pytest

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.pricing.book import PriceBook
from runtally.pricing.repricing.recost import price_unpriced
from runtally.reporting import outbox_queries as queries
from runtally.reporting.outbox_queries import COUNTED, Claim, Failure, RelayStatus, get_relay_status
from tests.documents import NOW, make_stored_run
from tests.unit.pricing.candidates import make_candidate

MINUTE = timedelta(minutes=1)
BOOK = PriceBook([make_candidate("acme", "acme-large", number=5)])


async def claim(connection: Connection, at: int = 0, limit: int = 100) -> list[Claim]:
    """What a relay gets `at` so many minutes from now, for a minute."""
    now = NOW + at * MINUTE
    return sorted(await queries.claim(connection, now, now + MINUTE, limit))


async def row_of(connection: Connection, run_id: str) -> dict[str, Any]:
    row = await connection.fetchrow("SELECT * FROM outbox WHERE run_id = $1", run_id)
    assert row
    return dict(row)


async def test_a_run_is_queued_with_its_storing(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a"), make_stored_run("p", "b")])

    assert await claim(own_connection) == [Claim("p", "a", 1, 0), Claim("p", "b", 1, 0)]


async def test_a_duplicate_is_not_queued_again(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")])
    await queries.delete_delivered(own_connection, await claim(own_connection))

    await insert_runs(own_connection, [make_stored_run("p", "a"), make_stored_run("p", "a")])

    assert await claim(own_connection) == []


async def test_storing_that_is_rolled_back_queues_nothing(own: Database) -> None:
    async with own.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await insert_runs(connection, [make_stored_run("p", "a")])
        await transaction.rollback()

        assert await claim(connection) == []


async def test_without_a_relay_nothing_is_queued(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")], queued=False)
    await price_unpriced(own_connection, BOOK, NOW, queued=False)

    assert await own_connection.fetchval("SELECT count(*) FROM runs") == 1
    assert await claim(own_connection) == []


async def test_a_run_that_changed_is_queued_with_its_new_version(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")])
    await queries.delete_delivered(own_connection, await claim(own_connection))

    await price_unpriced(own_connection, BOOK, NOW)

    assert await claim(own_connection) == [Claim("p", "a", 2, 0)]


async def test_a_run_that_changes_while_it_is_pushed_is_pushed_again(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")])
    pushed = await claim(own_connection)
    await price_unpriced(own_connection, BOOK, NOW)

    await queries.delete_delivered(own_connection, pushed)

    assert await claim(own_connection) == [Claim("p", "a", 2, 0)]


async def test_a_failure_of_an_older_version_does_not_affect_the_newer_one(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")])
    [pushed] = await claim(own_connection)
    await price_unpriced(own_connection, BOOK, NOW)

    await queries.update_failed(own_connection, [Failure(pushed, NOW + 9 * MINUTE, NOW, "HTTP 422")])

    assert await claim(own_connection) == [Claim("p", "a", 2, 0)]


async def test_runs_claimed_by_one_relay_are_not_claimed_by_another_until_the_lease_ends(
    own_connection: Connection,
) -> None:
    await insert_runs(own_connection, [make_stored_run("p", name) for name in "abcde"])

    first, second, third = [await claim(own_connection, limit=2) for _ in range(3)]

    assert sorted(claimed.run_id for claimed in [*first, *second, *third]) == list("abcde")
    assert await claim(own_connection) == []
    assert len(await claim(own_connection, at=2)) == 5


async def test_rows_that_are_locked_are_passed_over(own: Database) -> None:
    async with own.transaction() as slow, own.connection() as quick:
        await insert_runs(quick, [make_stored_run("p", name) for name in "abc"])
        await queries.update_released(quick, await claim(quick), NOW)
        held = await claim(slow, limit=2)

        taken = await claim(quick)

    assert sorted(claimed.run_id for claimed in [*held, *taken]) == ["a", "b", "c"]


async def test_the_run_that_has_been_due_longest_is_first(own_connection: Connection) -> None:
    for minutes, name in ((2, "a"), (0, "b"), (1, "c")):
        await insert_runs(own_connection, [make_stored_run("p", name, created_at=NOW + minutes * MINUTE)])

    order = [(await claim(own_connection, at=3, limit=1))[0].run_id for _ in range(3)]

    assert order == ["b", "c", "a"]


async def test_a_run_that_failed_waits_until_it_is_due(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")])
    [claimed] = await claim(own_connection)

    await queries.update_failed(own_connection, [Failure(claimed, NOW + 5 * MINUTE, None, "HTTP 500")])

    assert await claim(own_connection, at=4) == []
    assert await claim(own_connection, at=5) == [Claim("p", "a", 1, 1)]
    assert (await row_of(own_connection, "a"))["last_error"] == "HTTP 500"


async def test_released_runs_are_due_again_and_have_not_failed(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")])

    await queries.update_released(own_connection, await claim(own_connection), NOW)

    assert await claim(own_connection) == [Claim("p", "a", 1, 0)]


async def test_a_parked_run_is_never_due_until_it_is_retried(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a"), make_stored_run("q", "b")])
    parked = [Failure(claimed, NOW, NOW, "HTTP 422") for claimed in await claim(own_connection)]
    await queries.update_failed(own_connection, parked)

    assert await claim(own_connection, at=10_000) == []
    assert await queries.retry_parked(own_connection, NOW, "q") == 1
    assert await claim(own_connection) == [Claim("q", "b", 1, 0)]
    assert await queries.retry_parked(own_connection, NOW, "p", "a") == 1
    assert await queries.retry_parked(own_connection, NOW) == 0


async def test_parked_runs_are_listed_with_their_last_error(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a"), make_stored_run("q", "b")])
    parked = [
        Failure(claimed, NOW, NOW, f"HTTP {number}") for number, claimed in enumerate(await claim(own_connection))
    ]
    await queries.update_failed(own_connection, parked)

    listed = await queries.select_parked(own_connection, 10)
    assert [(run.run_id, run.last_error) for run in listed] == [("a", "HTTP 0"), ("b", "HTTP 1")]
    assert await queries.select_parked(own_connection, 1) == listed[:1]


async def test_a_change_unparks_a_run(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run("p", "a")])
    [claimed] = await claim(own_connection)
    await queries.update_failed(own_connection, [Failure(claimed, NOW, NOW, "HTTP 422")])

    await price_unpriced(own_connection, BOOK, NOW)

    assert await claim(own_connection) == [Claim("p", "a", 2, 0)]
    assert (await row_of(own_connection, "a"))["last_error"] is None


async def test_the_status_counts_waiting_and_parked_runs(own_connection: Connection) -> None:
    assert await get_relay_status(own_connection) == RelayStatus(waiting=0, parked=0, oldest_at=None)
    await insert_runs(own_connection, [make_stored_run("p", "a")])
    [claimed] = await claim(own_connection)
    await queries.update_failed(own_connection, [Failure(claimed, NOW, NOW, "HTTP 422")])
    for minutes, name in ((3, "b"), (2, "c")):
        await insert_runs(own_connection, [make_stored_run("p", name, created_at=NOW + minutes * MINUTE)])

    assert await get_relay_status(own_connection) == RelayStatus(waiting=2, parked=1, oldest_at=NOW + 2 * MINUTE)


async def test_the_status_is_cut_at_the_largest_counted_number_and_includes_retries(own_connection: Connection) -> None:
    await own_connection.execute(
        "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at) "
        "SELECT 'p', number::text, 1, $1, $1 FROM generate_series(1, $2::int) AS number",
        NOW,
        COUNTED + 5,
    )
    await own_connection.execute(
        "UPDATE outbox SET queued_at = $1, due_at = $2, attempts = 3, last_error = 'HTTP 500' WHERE run_id = '7'",
        NOW - MINUTE,
        NOW + MINUTE,
    )

    status = await get_relay_status(own_connection)

    assert status == RelayStatus(COUNTED + 1, 0, NOW - MINUTE, failing=1, last_error="HTTP 500")
    assert (status.is_more, status.waiting_words) == (True, "more than 10,000")


async def test_as_many_as_are_counted_are_a_number(own_connection: Connection) -> None:
    await own_connection.execute(
        "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at) "
        "SELECT 'p', number::text, 1, $1, $1 FROM generate_series(1, $2::int) AS number",
        NOW,
        COUNTED,
    )

    assert (await get_relay_status(own_connection)).waiting_words == "10,000"


@pytest.mark.parametrize("name", ["a run", "Ünïcode", "x" * 256])
async def test_claimed_runs_are_read_whole(own_connection: Connection, name: str) -> None:
    run = make_stored_run("p", name)
    await insert_runs(own_connection, [run])

    found = await queries.select_claimed(own_connection, [*await claim(own_connection), Claim("p", "gone", 1, 0)])

    assert found == {("p", name): (run, None)}
