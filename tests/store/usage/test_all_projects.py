"""All projects together are what their runs are, at every moment: what waits to be added to their sums is read with them."""

import asyncio
from copy import deepcopy
from datetime import timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from runtally.access.projects import erase
from runtally.audit import ANYONE
from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import StoredRun
from runtally.runs import scan
from runtally.usage.days.version_queries import Days
from runtally.usage.dimensions import MODEL
from runtally.usage.filter import ALL_RUNS
from runtally.usage.groups.groups import read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import DayMemo
from runtally.usage.plan import Question
from runtally.usage.sums.tables import SLICES
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.window import Range, Window
from tests.factories import examples
from tests.store.usage.made import NOW, clear, differences, insert, made
from tests.store.usage.test_sums import batches, price
from tests.summaries import new_memo, read_summary

COUNTED = "SELECT count(*), coalesce(sum(cost_usd), 0) FROM runs WHERE occurred_at >= $1 AND occurred_at < $2"
NAMES = """SELECT DISTINCT CASE WHEN counted_as_other THEN '(other)' ELSE provider END,
                CASE WHEN counted_as_other THEN '(other)' ELSE model END
           FROM runs ORDER BY 1, 2"""
# 15 minutes; `date_bin` is not in Postgres 13.
LAST_BUCKET = (
    "SELECT to_timestamp(floor(extract(epoch FROM max(occurred_at)) / 900) * 900) FROM runs WHERE occurred_at >= $1"
)
# Older quarters of an hour are not kept.
RECENT = NOW - timedelta(days=3)


async def check(database: Database, memo: DayMemo) -> None:
    """What is read of all projects, remembered or not, is what all runs are."""
    async with database.snapshot() as connection:
        for range_ in Range:
            window = Window.of(range_, NOW)
            counted = await connection.fetchrow(COUNTED, window.start, window.until)
            for known in (memo, DayMemo(0)):
                total = (await read_summary(connection, window, None, memo=known)).total
                assert (total.runs, total.cost_usd) == tuple(counted or ())
        assert await scan.select_names(connection, None, 100) == tuple(map(tuple, await connection.fetch(NAMES)))
        presence = await scan.select_presence(connection, ALL_RUNS, NOW)
        assert presence.runs == await connection.fetchval("SELECT count(*) FROM runs")
        last = (await Days.read(connection, None, NOW - timedelta(days=2))).last_bucket
        assert last is None or last < RECENT or last == await connection.fetchval(LAST_BUCKET, RECENT)


@given(sent=batches, merges=st.sets(st.integers(0, 9)))
@examples(10)
async def test_they_are_exact_before_and_after_what_waits_is_added(
    own: Database, sent: list[list[StoredRun]], merges: set[int]
) -> None:
    await clear(own)
    memo, sent = new_memo(), deepcopy(sent)
    for number, batch in enumerate(sent):
        await insert(own, batch)
        await check(own, memo)
        if number in merges:
            await merge_waiting(own, NOW)
            await check(own, memo)
    await price(own, "one", [run.id for batch in sent for run in batch])
    await check(own, memo)
    if any(run.project_id == "two" for batch in sent for run in batch):
        async with own.session() as session:
            await erase(session, ANYONE, "two")
        await check(own, memo)
    await merge_waiting(own, NOW)
    await check(own, memo)
    assert await differences(own) == {}


async def test_models_of_an_erased_project_are_named_nowhere(own: Database) -> None:
    secret = made("two", "first")
    secret.model = "secret"
    await insert(own, [made("one", "first"), secret])
    window = Window.of(Range.DAY, NOW)

    async def models() -> tuple[set[str | None], set[str | None]]:
        async with own.snapshot() as connection:
            summary = await read_summary(connection, window, None)
            span = TimeSpan(window.start, window.until)
            question = Question(Timeline.in_buckets(span, BucketWidth.HOUR, NOW), ALL_RUNS, (MODEL,))
            answer = await read_groups([GroupRowReader.over(connection)], question)
        return {model for _, model in summary.groups}, {model for (model,) in answer.groups}

    assert await models() == ({"large", "secret"}, {"large", "secret"})
    async with own.session() as session:
        await erase(session, ANYONE, "two")
    waiting = await models()
    await merge_waiting(own, NOW)

    assert waiting == await models() == ({"large"}, {"large"})


async def test_no_flush_waits_for_another_one_that_is_not_committed(own: Database) -> None:
    await insert(own, [made("one", "first"), made("two", "first")])
    async with own.transaction() as open_:
        await insert_runs(open_, [made("one", "held")])
        await asyncio.wait_for(insert(own, [made("one", "free")]), timeout=60)

    async with own.connection() as connection:
        total = (await read_summary(connection, Window.of(Range.DAY, NOW), None)).total
    assert (total.runs, total.cost_usd) == (4, Decimal(1))


async def test_readers_never_see_a_run_twice_or_not_at_all_while_it_is_added(own: Database) -> None:
    window = Window.of(Range.DAY, NOW)
    stored = 0
    seen: list[tuple[int, int, int, int]] = []
    is_over = asyncio.Event()

    async def write() -> None:
        nonlocal stored
        for number in range(60):
            await insert(own, [made("one", f"r{number}"), made("two", f"r{number}")])
            stored += 2
        is_over.set()

    async def read() -> None:
        while not is_over.is_set():
            least = stored
            async with own.snapshot() as connection:
                runs, of_one = [(await read_summary(connection, window, scope)).total.runs for scope in (None, "one")]
            seen.append((least, runs, of_one * 2, stored + 2))

    async def merge() -> None:
        while not is_over.is_set():
            await merge_waiting(own, NOW)

    await asyncio.gather(write(), read(), read(), merge(), merge())

    assert seen
    assert [each for each in seen if not each[0] <= each[1] == each[2] <= each[3]] == []


async def test_a_worker_of_the_version_before_adds_and_merges_beside_this_one(own: Database) -> None:
    """It adds to the sums of the project at once, and merges only what waits for those of all, under another name."""
    columns = ", ".join(("bucket", *SLICES.names, *SLICES.sums))
    await insert(own, [made("one", "old")])
    await merge_waiting(own, NOW)
    async with own.connection() as connection:
        await connection.execute(
            "DELETE FROM rollups WHERE project_id = ''; DELETE FROM rollup_totals WHERE project_id = ''"
        )
        await connection.execute(
            f"INSERT INTO rollup_deltas ({columns}) SELECT {columns} FROM rollups WHERE project_id = 'one' AND grain = 15"
        )
    await insert(own, [made("one", "new")])
    window = Window.of(Range.DAY, NOW)

    async def runs() -> list[int]:
        async with own.snapshot() as connection:
            return [(await read_summary(connection, window, scope)).total.runs for scope in ("one", None)]

    before, found = await runs(), await differences(own)
    async with own.connection() as connection:
        taken = await connection.fetchrow("SELECT count(*), sum(runs) FROM rollup_deltas")
        merged = await connection.execute(
            f"""WITH taken AS (
                     DELETE FROM rollup_deltas
                           WHERE ctid = ANY (ARRAY(SELECT ctid FROM rollup_deltas LIMIT 5000))
                       RETURNING rollup_deltas.*
                )
                INSERT INTO sum_deltas ({columns}) SELECT {columns} FROM taken"""
        )
    await merge_waiting(own, NOW)

    assert before == await runs() == [2, 2]
    assert found == await differences(own) == {}
    assert (tuple(taken or ()), merged) == ((1, 1), "INSERT 0 1")
