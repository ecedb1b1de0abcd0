"""Runs that were stored a moment ago: one row of the queue for many, until a relay takes them in."""

from datetime import timedelta

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.pricing.repricing.recost import price_unpriced
from runtally.reporting import outbox_queries as queries
from runtally.reporting.outbox_queries import COUNTED, Claim, Failure, RelayStatus, get_relay_status
from tests.documents import NOW, make_stored_run
from tests.store.reporting.test_outbox import BOOK, MINUTE, claim


async def insert(connection: Connection, names: str, project_id: str = "p", at: int = 0) -> None:
    runs = [make_stored_run(project_id, name, created_at=NOW + at * MINUTE) for name in names]
    await insert_runs(connection, runs)


async def arrived(connection: Connection) -> list[tuple[str, str]]:
    """Project and runs of each row that no relay has taken in."""
    rows = await connection.fetch("SELECT project_id, run_ids FROM outbox_arrivals ORDER BY queued_at, project_id")
    return [(row["project_id"], "".join(sorted(row["run_ids"]))) for row in rows]


async def test_a_statement_makes_one_row_of_each_project(own_connection: Connection) -> None:
    await insert_runs(own_connection, [make_stored_run(project, name) for project in "pq" for name in "abc"])
    await insert(own_connection, "cd")

    assert await arrived(own_connection) == [("p", "abc"), ("p", "d"), ("q", "abc")]
    assert await own_connection.fetchval("SELECT count(*) FROM outbox") == 0


async def test_they_wait_since_the_first_of_them_was_stored(own_connection: Connection) -> None:
    runs = [make_stored_run("p", name, created_at=NOW + at * MINUTE) for name, at in (("a", 1), ("b", 0), ("c", 2))]
    await insert_runs(own_connection, runs)

    assert await own_connection.fetchval("SELECT queued_at FROM outbox_arrivals") == NOW
    assert (await get_relay_status(own_connection)).oldest_at == NOW


async def test_duplicates_make_none(own_connection: Connection) -> None:
    await insert(own_connection, "ab")
    await insert(own_connection, "ab")

    assert await arrived(own_connection) == [("p", "ab")]


async def test_rows_are_taken_in_whole_and_no_more_than_are_needed(own_connection: Connection) -> None:
    for minutes, names in enumerate(("abc", "def", "ghi")):
        await insert(own_connection, names, at=minutes)

    assert len(await claim(own_connection, at=3, limit=4)) == 4
    assert await arrived(own_connection) == [("p", "ghi")]
    assert len(await claim(own_connection, at=3, limit=2)) == 2
    assert await arrived(own_connection) == [("p", "ghi")]
    assert [each.run_id for each in await claim(own_connection, at=3, limit=4)] == ["g", "h", "i"]
    assert await arrived(own_connection) == []


async def test_queued_runs_are_claimed_before_arrivals_are_expanded(own_connection: Connection) -> None:
    await insert(own_connection, "a")
    await queries.update_released(own_connection, await claim(own_connection), NOW)
    await insert(own_connection, "b")

    assert [each.run_id for each in await claim(own_connection, limit=1)] == ["a"]
    assert await arrived(own_connection) == [("p", "b")]


async def test_two_relays_take_in_different_rows(own: Database) -> None:
    async with own.transaction() as slow, own.connection() as quick:
        await insert(quick, "ab", at=0)
        await insert(quick, "cd", at=1)

        held = await claim(slow, at=2, limit=1)
        taken = await claim(quick, at=2, limit=1)

        assert [each.run_id for each in [*held, *taken]] == ["a", "c"]
    async with own.connection() as connection:
        assert [each.run_id for each in await claim(connection, at=2)] == ["b", "d"]


async def test_a_relay_that_fails_while_it_takes_in_loses_nothing(own: Database) -> None:
    async with own.connection() as connection:
        await insert(connection, "ab")
        transaction = connection.transaction()
        await transaction.start()
        await claim(connection)
        await transaction.rollback()

        assert await arrived(connection) == [("p", "ab")]
        assert len(await claim(connection)) == 2


async def test_a_run_that_changed_before_it_is_taken_in_is_queued_once(own_connection: Connection) -> None:
    await insert(own_connection, "a")
    await price_unpriced(own_connection, BOOK, NOW)

    assert await claim(own_connection) == [Claim("p", "a", 2, 0)]
    assert await arrived(own_connection) == []
    assert await own_connection.fetchval("SELECT count(*) FROM outbox") == 1


async def test_due_runs_are_found_behind_any_number_that_are_queued_already(own_connection: Connection) -> None:
    for number in range(5):
        await insert(own_connection, str(number), at=-1)
    await price_unpriced(own_connection, BOOK, NOW)
    changed = await claim(own_connection, limit=5)
    await queries.update_failed(own_connection, [Failure(each, NOW, NOW, "HTTP 422") for each in changed])
    await insert(own_connection, "z")

    assert [each.run_id for each in await claim(own_connection, limit=2)] == ["z"]


async def test_arrivals_during_a_pass_are_left_for_the_next_one(own_connection: Connection) -> None:
    await insert(own_connection, "a", at=1)

    assert await claim(own_connection) == []
    assert await arrived(own_connection) == [("p", "a")]
    assert len(await claim(own_connection, at=1)) == 1


async def test_a_run_that_changed_and_is_parked_stays_so_when_it_is_taken_in(own_connection: Connection) -> None:
    await insert(own_connection, "a")
    await price_unpriced(own_connection, BOOK, NOW)
    [changed] = await claim(own_connection, limit=1)
    await queries.update_failed(own_connection, [Failure(changed, NOW, NOW, "HTTP 422")])

    assert await claim(own_connection) == []
    assert await arrived(own_connection) == []
    assert (await get_relay_status(own_connection)).parked == 1


async def test_the_status_counts_arrivals_and_queued_runs(own_connection: Connection) -> None:
    await insert(own_connection, "ab", at=1)
    await insert(own_connection, "cd", "q", at=2)

    assert await get_relay_status(own_connection) == RelayStatus(waiting=4, parked=0, oldest_at=NOW + MINUTE)
    await claim(own_connection, at=3, limit=1)
    assert await get_relay_status(own_connection) == RelayStatus(waiting=4, parked=0, oldest_at=NOW + MINUTE)


async def test_the_status_is_cut_at_the_largest_counted_number_of_arrivals(own_connection: Connection) -> None:
    await own_connection.execute(
        "INSERT INTO outbox_arrivals (project_id, queued_at, runs, run_ids) "
        "SELECT 'p', $1::timestamptz, count(*), array_agg(number::text) FROM generate_series(1, $2::int) AS number",
        NOW - timedelta(hours=1),
        COUNTED + 5,
    )

    assert await get_relay_status(own_connection) == RelayStatus(COUNTED + 1, 0, NOW - timedelta(hours=1))
