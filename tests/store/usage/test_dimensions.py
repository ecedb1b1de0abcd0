"""Sums by dimension are those of the runs, whatever was merged, priced, erased, tracked or happens at the same time."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally import tracking
from runtally.access import erasure_queries
from runtally.access.projects import erase
from runtally.audit import ANYONE
from runtally.db.database import Database
from runtally.errors import InvalidTrackedKey
from runtally.models.dimension import DIMENSION_MEASURES, MAX_TRACKED_KEYS, KeyState
from runtally.models.run import Status, StoredRun
from runtally.usage.upkeep import dimension_queries as upkeep_queries
from runtally.usage.upkeep import dimensions
from runtally.usage.upkeep.dimensions import change_key, merge_dimensions
from runtally.usage.upkeep.queries import expire_buckets
from runtally.usage.upkeep.repair_queries import rebuild_if_missing, rebuild_sums
from tests.factories import examples
from tests.store.usage import dimension_sums as reading
from tests.store.usage.made import NOW, clear, differences, insert, made
from tests.store.usage.test_sums import price

CAP = 3
FEW = examples(10)
values = st.none() | st.sampled_from(["a", "b", "c", "d", "e", "", "ü" * 300, 1, 1.5, True, ["x"], {"y": 1}])
runs = st.builds(
    StoredRun,
    version=st.just(1),
    project_id=st.sampled_from(["one", "two"]),
    id=st.sampled_from([f"run-{number}" for number in range(30)]),
    occurred_at=st.timedeltas(timedelta(days=-40), timedelta(hours=23)).map(lambda offset: NOW + offset),
    provider=st.sampled_from(["acme", "bolt"]),
    model=st.sampled_from(["large", "small"]),
    status=st.sampled_from(Status),
    input_tokens=st.none() | st.integers(0, 2**63 - 1),
    cached_input_tokens=st.none() | st.integers(0, 9),
    latency_ms=st.none() | st.integers(0, 10**6),
    cost_usd=st.none() | st.decimals(0, 10, places=12),
    cache_savings_usd=st.none() | st.decimals(-1, 10, places=12),
    user_id=st.none() | st.sampled_from(["ann", "bob"]),
    tags=st.none() | st.lists(st.sampled_from(["t", "u", "v"]), unique=True),
    metadata=st.none()
    | st.fixed_dictionaries({}, optional={"feature": values, "environment": values, "env": values, "else": values}),
    created_at=st.just(NOW),
)
batches = st.lists(st.lists(runs, min_size=1, max_size=12), min_size=1, max_size=4)


def values_of(run: StoredRun, key: str) -> list[str]:
    """What a run counts as, recounted here."""
    if key == "tags":
        # Under a blank value, all runs that have any.
        return [*run.tags, ""] if run.tags else []
    if key == "user":
        return [run.user_id] if run.user_id else []
    sent = (run.metadata or {}).get(key)
    if sent is None and key == "environment":
        sent = (run.metadata or {}).get("env")
    if sent is None:
        return []
    text = sent if isinstance(sent, str) else {1: "1", 1.5: "1.5"}.get(sent) if isinstance(sent, int | float) else None
    if sent is True:
        text = "true"
    if isinstance(sent, list):
        text = '["x"]'
    if isinstance(sent, dict):
        text = '{"y": 1}'
    assert text is not None
    return [text[:256]] if text else []


def sums_of(found: Iterable[StoredRun]) -> tuple[int | Decimal, ...]:
    found = list(found)
    return (
        len(found),
        sum(run.status == "error" for run in found),
        sum(run.status == "timeout" for run in found),
        sum(run.cost_usd is None for run in found),
        sum(bool(run.without_usage) for run in found),
        sum((run.cost_usd or Decimal(0) for run in found), Decimal(0)),
        *(
            sum(getattr(run, name) or 0 for run in found)
            for name in (
                "input_tokens",
                "output_tokens",
                "cached_input_tokens",
                "cache_write_tokens",
                "reasoning_tokens",
            )
        ),
        sum((run.cache_savings_usd or Decimal(0) for run in found), Decimal(0)),
    )


def recount(stored: Iterable[StoredRun], project_id: str, key: str) -> Mapping[tuple[date, str], tuple[Any, ...]]:
    groups = defaultdict(list)
    for run in stored:
        if run.project_id == project_id:
            for value in values_of(run, key):
                groups[run.occurred_at.astimezone(UTC).date(), value].append(run)
    return {group: sums_of(found) for group, found in groups.items()}


async def stored_runs(database: Database) -> list[StoredRun]:
    names = ", ".join(StoredRun.__struct_fields__)
    async with database.connection() as connection:
        return [StoredRun(**dict(row)) for row in await connection.fetch(f"SELECT {names} FROM runs")]


async def days(
    database: Database, project_id: str, key: str, provider: str | None = None, model: str | None = None
) -> dict[tuple[date | datetime, str | None], tuple[Any, ...]]:
    since, until = NOW.date() - timedelta(days=60), NOW.date() + timedelta(days=3)
    async with database.connection() as connection:
        key_id = await reading.select_key_id(connection, project_id, key)
        assert key_id is not None
        found = await reading.select_days(connection, project_id, key_id, since, until, provider, model)
    return {(one.bucket, one.value): one.sums for one in found}


@pytest.fixture
def capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many values have sums of their own."""
    for module in (upkeep_queries, reading, erasure_queries):
        for name, sql in list(vars(module).items()):
            if isinstance(sql, str) and "<= 5000" in sql:
                monkeypatch.setattr(module, name, sql.replace("<= 5000", f"<= {CAP}"))


@given(sent=batches, merges=st.sets(st.integers(0, 9)), prices=st.booleans())
@FEW
async def test_each_value_has_the_sums_of_its_runs(
    own: Database, sent: list[list[StoredRun]], merges: set[int], prices: bool
) -> None:
    await clear(own)
    for number, batch in enumerate(deepcopy(sent)):
        await insert(own, batch)
        if number in merges:
            await merge_dimensions(own, NOW, everything=True)
    if prices:
        await price(own, "one", [run.id for batch in sent for run in batch])

    stored = await stored_runs(own)
    assert await differences(own) == {}
    for project_id in {run.project_id for run in stored}:
        for key in ("feature", "environment", "user", "tags"):
            assert await days(own, project_id, key) == recount(stored, project_id, key)
            of_large = [run for run in stored if (run.provider, run.model) == ("acme", "large")]
            assert await days(own, project_id, key, "acme", "large") == recount(of_large, project_id, key)
    await merge_dimensions(own, NOW, everything=True)
    assert await differences(own) == {}
    for project_id in {run.project_id for run in stored}:
        assert await days(own, project_id, "feature") == recount(stored, project_id, "feature")


@pytest.mark.usefixtures("capped")
@given(
    sent=batches,
    merges=st.sets(st.integers(0, 9)),
    prices=st.booleans(),
    erased=st.sampled_from(["one", "two"]),
    taken=st.sets(st.integers(0, 29)),
)
@FEW
async def test_past_the_cap_sums_stay_exact_whatever_is_merged_priced_and_deleted(  # noqa: PLR0913, PLR0917  # One story.
    own: Database, sent: list[list[StoredRun]], merges: set[int], prices: bool, erased: str, taken: set[int]
) -> None:
    await clear(own)
    sent = [[msgspec.structs.replace(run, occurred_at=NOW) for run in batch] for batch in sent]
    for number, batch in enumerate(deepcopy(sent)):
        await insert(own, batch)
        if number in merges:
            await merge_dimensions(own, NOW, everything=True)
            assert await differences(own) == {}
    if prices:
        await price(own, "one", [f"run-{number}" for number in taken])
        await price(own, "two", [f"run-{number}" for number in taken])
    assert await differences(own) == {}
    await merge_dimensions(own, NOW, everything=True)
    assert await differences(own) == {}
    stored = await stored_runs(own)
    for project_id in {run.project_id for run in stored}:
        found = await days(own, project_id, "feature")
        exact = recount(stored, project_id, "feature")
        assert sum(sums[0] for sums in found.values()) == sum(sums[0] for sums in exact.values())
        assert sum(sums[4] for sums in found.values()) == sum(sums[4] for sums in exact.values())
        assert len([value for _, value in found if value is not None]) == min(len(exact), CAP)
        assert all(sums == exact[day, value] for (day, value), sums in found.items() if value is not None)
    if any(run.project_id == erased for run in stored):
        async with own.session() as session:
            await erase(session, ANYONE, erased)
        assert await differences(own) == {}
        async with own.connection() as connection:
            for table in ("dimension_sums", "dimension_latencies", "dimension_deltas"):
                assert not await connection.fetchval(f"SELECT count(*) FROM {table} WHERE project_id = $1", erased)


@pytest.mark.usefixtures("capped")
async def test_flushes_merges_and_new_prices_at_the_cap_at_once_leave_exact_sums(own: Database) -> None:
    await clear(own)

    async def ingest(worker: int) -> None:
        for number in range(8):
            sent = [made("one", f"{worker}-{number}-{each}") for each in range(20)]
            for each, run in enumerate(sent):
                run.metadata = {"feature": f"f{(worker * 7 + number * 3 + each) % 11}", "env": "prod"}
            await insert(own, sent)

    async def merge() -> None:
        for _ in range(10):
            await merge_dimensions(own, NOW, everything=True)

    async def reprice() -> None:
        for number in range(4):
            ids = [f"{worker}-{number}-{each}" for worker in range(4) for each in range(20)]
            await price(own, "one", ids)

    await asyncio.gather(*(ingest(worker) for worker in range(4)), merge(), merge(), reprice())

    assert await differences(own) == {}
    await merge_dimensions(own, NOW, everything=True)
    assert await differences(own) == {}
    found = await days(own, "one", "feature")
    assert len(found) == CAP + 1
    assert sum(sums[0] for sums in found.values()) == 4 * 8 * 20
    [(_, of_env)] = (await days(own, "one", "environment")).items()
    assert of_env == sums_of(await stored_runs(own))


async def test_merging_takes_the_oldest_first_and_no_more_than_fits(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await clear(own)
    monkeypatch.setattr(dimensions, "MERGED_AT_ONCE", 20)
    monkeypatch.setattr(dimensions, "MUCH", 40)

    async def ingest(project_id: str, numbers: range) -> None:
        for number in numbers:
            ids = [f"{project_id}-{number}-{each}" for each in range(10)]
            await insert(own, [replace_metadata(made(project_id, id_), {"feature": "f"}) for id_ in ids])

    await ingest("one", range(5))
    await ingest("two", range(3))

    # Of the first project there is much; the other one waits for more, or for its time.
    assert [await merge_dimensions(own, NOW) for _ in range(2)] == [20, 0]
    await ingest("one", range(5, 7))
    assert await merge_dimensions(own, NOW) == 20
    async with own.connection() as connection:
        await connection.execute("UPDATE dimension_deltas SET queued_at = $1", NOW)
    later = NOW + dimensions.LONGEST_WAIT + timedelta(seconds=1)
    assert [await merge_dimensions(own, later) for _ in range(4)] == [20, 20, 20, 0]
    assert await differences(own) == {}


async def test_what_waits_of_all_projects_is_bounded_and_merged_once_nothing_more_arrives(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await clear(own)
    monkeypatch.setattr(dimensions, "MUCH", 20)
    monkeypatch.setattr(dimensions, "SOME", 10)
    for project_id, size in (("one", 8), ("two", 12), ("three", 16), ("four", 18)):
        await insert(
            own, [replace_metadata(made(project_id, f"{project_id}-{each}"), {"feature": "f"}) for each in range(size)]
        )

    # None has 20, but together they have more than 40: only those of which least waits go on waiting.
    assert await waiting(own) == {"one": 8, "two": 12, "three": 16, "four": 18}
    assert [await merge_dimensions(own, NOW) for _ in range(2)] == [18, 0]
    assert await waiting(own) == {"one": 8, "two": 12, "three": 16}

    async with own.connection() as connection:
        await connection.execute("UPDATE dimension_deltas SET queued_at = $1", NOW)
    assert await merge_dimensions(own, NOW + dimensions.QUIET) == 0
    assert await merge_dimensions(own, NOW + dimensions.QUIET + timedelta(seconds=1)) == 28
    assert await waiting(own) == {"one": 8}
    assert await differences(own) == {}


async def waiting(database: Database) -> dict[str, int]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT project_id, sum(size) AS size FROM dimension_deltas GROUP BY project_id")
    return {row["project_id"]: row["size"] for row in rows}


async def finish_changes(database: Database) -> None:
    for _ in range(200):
        if not await change_key(database, NOW) and not await changing(database):
            return
        await asyncio.sleep(0)
    raise AssertionError("the job never ends")


async def changing(database: Database) -> bool:
    async with database.connection() as connection:
        return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM tracked_keys WHERE state ~ 'ing$')"))


async def track(database: Database, key: str) -> None:
    async with database.session() as session:
        await tracking.track(session, ANYONE, "one", key, NOW)


async def states(database: Database) -> dict[str, KeyState]:
    async with database.session() as session:
        return {one.key: one.state for one in await tracking.list_keys(session, "one", NOW)}


async def test_a_key_tracked_while_runs_are_stored_has_all_of_them(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await clear(own)
    # In several pieces.
    monkeypatch.setattr(dimensions, "FILLED_AT_ONCE", 20)

    async def ingest(worker: int, batches: int) -> None:
        for number in range(batches):
            sent = [made("one", f"{worker}-{number}-{each}", timedelta(days=each % 7)) for each in range(10)]
            for each, run in enumerate(sent):
                run.metadata = {"customer": f"c{each % 4}"}
            await insert(own, sent)
            await merge_dimensions(own, NOW, everything=True)

    await ingest(0, 5)

    async def follow() -> None:
        await track(own, "customer")
        async with own.connection() as connection:
            assert await reading.select_key_id(connection, "one", "customer") is None
        await finish_changes(own)

    await asyncio.gather(ingest(1, 10), ingest(2, 10), follow())

    assert (await states(own))["customer"] == KeyState.TRACKED
    assert await differences(own) == {}
    assert await days(own, "one", "customer") == recount(await stored_runs(own), "one", "customer")


async def test_filling_waits_for_statements_that_began_before_it(own: Database) -> None:
    await clear(own)
    await insert(own, [replace_metadata(made("one", "before"), {"customer": "c"})])
    async with own.transaction() as connection:
        await track(own, "customer")
        assert await change_key(own, NOW)
        # Its snapshot is held while a query of it runs, so the job sees that it is older.
        cursor = await connection.cursor("SELECT * FROM runs, generate_series(1, 1000)")
        await cursor.fetch(1)
        assert not await change_key(own, NOW)
        assert (await states(own))["customer"] == KeyState.FILLING
    await finish_changes(own)
    assert (await states(own))["customer"] == KeyState.TRACKED
    assert await days(own, "one", "customer") == recount(await stored_runs(own), "one", "customer")


def replace_metadata(run: StoredRun, metadata: dict[str, Any]) -> StoredRun:
    run.metadata = metadata
    return run


async def test_a_key_tracked_no_more_loses_its_sums_and_may_be_tracked_anew(own: Database) -> None:
    await clear(own)
    await insert(own, [replace_metadata(made("one", f"r{number}"), {"feature": "f"}) for number in range(3)])
    await insert(own, [replace_metadata(made("two", "r"), {"feature": "f"})])
    await merge_dimensions(own, NOW, everything=True)
    async with own.session() as session:
        await tracking.untrack(session, ANYONE, "one", "feature", NOW)
    # What was stored before the job saw it, and after.
    await insert(own, [replace_metadata(made("one", "later"), {"feature": "f"})])
    with pytest.raises(InvalidTrackedKey, match="being deleted"):
        await track(own, "feature")
    await finish_changes(own)
    await merge_dimensions(own, NOW, everything=True)

    assert "feature" not in await states(own)
    assert await differences(own) == {}
    async with own.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM dimension_sums WHERE project_id = 'one'") == 0
        assert await reading.select_key_id(connection, "one", "feature") is None
        assert await reading.select_key_id(connection, "two", "feature") is not None

    await track(own, "feature")
    await finish_changes(own)
    assert (await states(own))["feature"] == KeyState.TRACKED
    assert await days(own, "one", "feature") == recount(await stored_runs(own), "one", "feature")
    assert await differences(own) == {}


async def test_a_project_tracks_so_many_keys_and_knows_them_by_one_name(own: Database) -> None:
    await clear(own)
    await insert(own, [made("one", "r")])
    await track(own, " userId ")
    await track(own, "env")
    known = len(await states(own))
    for number in range(MAX_TRACKED_KEYS - known):
        await track(own, f"key {number}")
    with pytest.raises(InvalidTrackedKey, match="at most 12"):
        await track(own, "one more")
    for wrong in ("", " ", "k" * 129):
        with pytest.raises(InvalidTrackedKey, match="1 to 128"):
            await track(own, wrong)
    assert len(await states(own)) == MAX_TRACKED_KEYS


async def test_hours_are_summed_apart_and_forgotten_while_days_stay(own: Database) -> None:
    await clear(own)
    moment = NOW.replace(minute=30)
    sent = [made("one", f"r{number}") for number in range(6)]
    for number, run in enumerate(sent):
        run.occurred_at = moment - timedelta(hours=number // 2)
        run.metadata = {"feature": "f" if number else "g"}
    await insert(own, sent)
    await merge_dimensions(own, NOW, everything=True)
    hour = moment.replace(minute=0, second=0, microsecond=0)

    async def hours() -> list[tuple[Any, ...]]:
        async with own.connection() as connection:
            key_id = await reading.select_key_id(connection, "one", "feature")
            assert key_id is not None
            found = await reading.select_hours(
                connection, "one", key_id, hour - timedelta(hours=1), hour + timedelta(hours=1)
            )
        return sorted((one.bucket, one.value, one.sums[0]) for one in found)

    assert await hours() == [(hour - timedelta(hours=1), "f", 2), (hour, "f", 1), (hour, "g", 1)]
    later = NOW + timedelta(days=40)
    before = await days(own, "one", "feature")
    assert await expire_buckets(own, later) > 0
    assert await hours() == []
    assert await days(own, "one", "feature") == before


async def test_latencies_of_a_value_are_those_of_its_runs_within_a_bin(own: Database) -> None:
    await clear(own)
    sent = [made("one", f"r{number}") for number in range(50)]
    for number, run in enumerate(sent):
        run.latency_ms, run.metadata = 40 * number, {"feature": "even" if number % 2 == 0 else "odd"}
    for half in (sent[:25], sent[25:]):
        await insert(own, half)
        if half[0] is sent[0]:
            await merge_dimensions(own, NOW, everything=True)

    async with own.connection() as connection:
        key_id = await reading.select_key_id(connection, "one", "feature")
        assert key_id is not None
        day = NOW.date()
        found = await reading.select_latencies(connection, "one", key_id, day, day + timedelta(days=1))

    of_value = {one.value: one for one in found}
    for value, first in (("even", 0), ("odd", 40)):
        sketch = of_value[value]
        each = [
            latency / 2 for latency, count in zip(sketch.latencies, sketch.counts, strict=True) for _ in range(count)
        ]
        assert each == pytest.approx([first + 80 * number for number in range(25)], rel=0.01)


async def test_what_is_wrong_is_named_and_rebuilt(own: Database) -> None:
    await clear(own)
    sent = [replace_metadata(made("one", f"r{number}"), {"feature": f"f{number % 3}"}) for number in range(9)]
    await insert(own, sent)
    await merge_dimensions(own, NOW, everything=True)
    async with own.connection() as connection:
        await connection.execute("UPDATE dimension_sums SET runs[1] = runs[1] + 1, errors[2] = 7")
        await connection.execute("UPDATE dimension_latencies SET counts[1] = 5")
    assert "feature f" in (await differences(own))["one"]

    assert sum([changed async for _, changed in rebuild_sums(own, NOW)]) > 0

    assert await differences(own) == {}
    assert await days(own, "one", "feature") == recount(await stored_runs(own), "one", "feature")


async def test_after_an_update_runs_of_before_are_counted(own: Database) -> None:
    await clear(own)
    await insert(own, [replace_metadata(made("one", f"r{number}"), {"feature": "f"}) for number in range(9)])
    async with own.connection() as connection:
        await connection.execute("TRUNCATE dimension_deltas, dimension_sums, dimension_latencies")

    assert await rebuild_if_missing(own, NOW)
    assert not await rebuild_if_missing(own, NOW)

    assert await differences(own) == {}
    assert await days(own, "one", "feature") == recount(await stored_runs(own), "one", "feature")


def test_measures_of_dimensions_are_those_that_are_recounted_here() -> None:
    assert len(sums_of([])) == len(DIMENSION_MEASURES)
