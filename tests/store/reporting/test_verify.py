"""Live runs against the reporting table: equal, missing, older, different; and repaired."""

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Database
from runtally.db.schema import REPORTING
from runtally.ingest.queries import insert_runs
from runtally.models.run import StoredRun
from runtally.reporting import outbox_queries as queries
from runtally.reporting import verify
from runtally.reporting.copy_queries import upsert_reported
from runtally.reporting.outbox_queries import Failure
from runtally.reporting.verify import Kind, Queue, Verification, Verifier
from tests.documents import NOW, make_stored_run
from tests.serving import Postgres

DAY = timedelta(days=1)


@pytest.fixture(scope="session")
def reporting_template(postgres: Postgres) -> str:
    """The name of a database with the reporting table alone, to be copied."""
    postgres.create_migrated("reporting_template", REPORTING)
    return "reporting_template"


@pytest.fixture(params=["one database", "two databases"])
async def reporting(
    request: pytest.FixtureRequest, own: Database, postgres: Postgres, reporting_template: str
) -> AsyncIterator[Database]:
    """Where the reporting table is."""
    if request.param == "one database":
        yield own
        return
    async with Database(postgres.create(f"reporting_{uuid.uuid4().hex}", reporting_template)) as database:
        yield database


@pytest.fixture
def verifier(own: Database, reporting: Database) -> Verifier:
    return Verifier(own, reporting)


async def store(verifier: Verifier, *runs: StoredRun, queued: bool = False) -> None:
    async with verifier.live.connection() as connection:
        await insert_runs(connection, runs, queued=queued)


async def report(verifier: Verifier, *runs: StoredRun) -> None:
    async with verifier.reporting.connection() as connection:
        for run in runs:
            await upsert_reported(connection, [run], NOW)


async def relay(verifier: Verifier) -> None:
    """What a relay does with the queue, without the calls in between."""
    async with verifier.live.connection() as live, verifier.reporting.connection() as reporting:
        claims = await queries.claim(live, NOW, NOW + DAY, 1000)
        for run, _ in (await queries.select_claimed(live, claims)).values():
            await upsert_reported(reporting, [run], NOW)
        await queries.delete_delivered(live, claims)


def found_in(verification: Verification) -> dict[str, tuple[Kind, Queue]]:
    return {run.run_id: (run.kind, run.queue) for day in verification.first for run in day.first}


async def test_equal_tables_are_equal(verifier: Verifier) -> None:
    runs = [
        make_stored_run(project_id, f"run-{number}", occurred_at=NOW + number * DAY, cost_usd=Decimal("0.1"))
        for project_id in ("p", "q")
        for number in range(3)
    ]
    await store(verifier, *runs)
    await report(verifier, *runs)

    found = await verifier.verify(NOW)

    assert (found.projects, found.days, found.runs, found.differing, found.kept) == (2, 6, 6, 0, 0)
    assert found.first == []


async def test_nothing_at_all_is_equal(verifier: Verifier) -> None:
    assert (await verifier.verify(NOW)).differing == 0


async def test_a_run_that_is_not_there_is_missing(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "a"), make_stored_run("p", "b"))
    await report(verifier, make_stored_run("p", "a"))

    found = await verifier.verify(NOW)

    assert found_in(found) == {"b": (Kind.MISSING, Queue.LOST)}
    [day] = found.first
    assert (day.project_id, day.day, day.live.runs, day.reported.runs) == ("p", NOW.date(), 2, 1)


async def test_an_older_version_differs(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "a", version=2))
    await report(verifier, make_stored_run("p", "a", version=1))

    assert found_in(await verifier.verify(NOW)) == {"a": (Kind.OLDER, Queue.LOST)}


@pytest.mark.parametrize(
    "changed",
    [
        {"cost_usd": Decimal("0.000000000001")},
        {"model": "other"},
        {"error_code": "E"},
        {"trace_id": "t"},
        {"version": 2},
        {"occurred_at": NOW + timedelta(microseconds=1)},
    ],
)
async def test_any_other_content_differs(verifier: Verifier, changed: dict[str, object]) -> None:
    await store(verifier, make_stored_run("p", "a"))
    await report(verifier, make_stored_run("p", "a", **changed))

    assert found_in(await verifier.verify(NOW)) == {"a": (Kind.DIFFERENT, Queue.LOST)}


async def test_sums_that_agree_by_chance_do_not_hide_a_difference(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "a", input_tokens=1), make_stored_run("p", "b", input_tokens=2))
    await report(verifier, make_stored_run("p", "a", input_tokens=2), make_stored_run("p", "b", input_tokens=1))

    assert (await verifier.verify(NOW)).kinds == {Kind.DIFFERENT: 2}


async def test_content_that_the_receiver_drops_is_no_difference(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "a", metadata={"n": 1}, prompt_preview="Once"))
    await report(verifier, make_stored_run("p", "a", metadata={}))

    assert (await verifier.verify(NOW)).differing == 0


async def test_runs_that_are_no_longer_live_are_no_difference(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "a"))
    await report(verifier, *(make_stored_run("p", name) for name in ("a", "gone", "gone too")))
    await report(verifier, make_stored_run("deleted", "a"))

    found = await verifier.verify(NOW)

    assert (found.differing, found.kept) == (0, 2)


async def test_a_difference_tells_whether_its_run_is_queued(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "parked"), queued=True)
    async with verifier.live.connection() as connection:
        [claim] = await queries.claim(connection, NOW, NOW, 1)
        await queries.update_failed(connection, [Failure(claim, NOW, NOW, "HTTP 422")])
    await store(verifier, make_stored_run("p", "waiting"), queued=True)
    await store(verifier, make_stored_run("p", "lost"))

    found = await verifier.verify(NOW)

    assert found_in(found) == {
        "parked": (Kind.MISSING, Queue.PARKED),
        "waiting": (Kind.MISSING, Queue.WAITING),
        "lost": (Kind.MISSING, Queue.LOST),
    }


async def test_earlier_arrivals_are_expanded_and_later_ones_are_seen(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "before"), queued=True)
    await store(verifier, make_stored_run("p", "after", created_at=NOW + DAY), queued=True)

    found = await verifier.verify(NOW)

    waiting = (Kind.MISSING, Queue.WAITING)
    assert found_in(found) == {"before": waiting, "after": waiting}
    async with verifier.live.connection() as connection:
        assert await connection.fetchval("SELECT array_agg(run_id) FROM outbox") == ["before"]
        assert await connection.fetchval("SELECT array_agg(run_ids) FROM outbox_arrivals") == [["after"]]


async def test_repair_queues_all_that_does_not_wait_already(verifier: Verifier) -> None:
    await store(verifier, make_stored_run("p", "waiting"), queued=True)
    await store(
        verifier,
        *(make_stored_run("p", name) for name in ("missing", "different", "restored from a backup")),
        make_stored_run("p", "older", version=2),
    )
    await report(
        verifier,
        make_stored_run("p", "older"),
        make_stored_run("p", "different", model="other"),
        make_stored_run("p", "restored from a backup", model="other", version=5),
    )

    repaired = await verifier.verify(NOW, repair=True)
    await relay(verifier)

    assert (repaired.differing, repaired.repaired) == (5, 4)
    assert (await verifier.verify(NOW)).differing == 0


async def test_many_runs_are_compared_chunk_by_chunk(verifier: Verifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "CHUNK", 7)
    runs = [make_stored_run("p", f"run-{number:02}") for number in range(50)]
    await store(verifier, *runs)
    await report(verifier, *runs[:-20])

    found = await verifier.verify(NOW, repair=True)
    await relay(verifier)

    assert found.kinds == {Kind.MISSING: 20}
    assert len(found.first[0].first) == verify.SHOWN_RUNS
    assert (await verifier.verify(NOW)).differing == 0
