"""A key that becomes tracked when runs have left the database answers for the days that its sums have, and for no others."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from runtally import tracking
from runtally.archive.archive import Archive
from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.audit import ANYONE
from runtally.clock import start_of_day
from runtally.db.combined import CombinedReads
from runtally.db.database import Connection, Database
from runtally.db.migrate import config
from runtally.db.schema import CELL
from runtally.errors import DimensionNotTracked
from runtally.ingest.queries import insert_runs
from runtally.models.dimension import KeyState
from runtally.models.run import Status, StoredRun
from runtally.retention import Dropper
from runtally.usage.dimensions import Dimension, dimension_of_key
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.mark_queries import select_first_seen
from runtally.usage.memo import DayMemo
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan
from runtally.usage.upkeep import dimension_queries as upkeep_queries
from runtally.usage.upkeep import dimensions
from runtally.usage.upkeep.chunk_queries import ScanChunk
from runtally.usage.upkeep.dimensions import change_key, merge_dimensions
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.upkeep.repair_queries import rebuild_sums
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.archives import KEPT_DAYS, NOW, archive_at

DAY = timedelta(days=1)
TODAY = start_of_day(NOW)
DAYS = 75
SQUADS = ("s0", "s1", "s2")
KEYS = ("squad", "feature")
OF_PROJECT = RunFilter(project_id="trk")


@pytest.fixture
async def trk(own: Database) -> Database:
    """A project with a run of each squad a day."""
    async with own.connection() as connection:
        await connection.execute("TRUNCATE runs, rollups, rollup_totals, latency_sketches, projects CASCADE")
        await connection.execute("TRUNCATE sum_deltas, latency_deltas, dimension_sums, dimension_latencies")
        await connection.execute("TRUNCATE dimension_deltas, outbox, outbox_arrivals")
        await insert_runs(connection, [made(age, squad) for age in range(DAYS) for squad in SQUADS], queued=False)
    await merge_waiting(own, NOW)
    await merge_dimensions(own, NOW, everything=True)
    return own


def made(age: int, squad: str, run_id: str = "", project_id: str = "trk") -> StoredRun:
    return StoredRun(
        project_id=project_id,
        id=run_id or f"{age}-{squad}",
        occurred_at=TODAY - age * DAY + timedelta(hours=7),
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        latency_ms=100,
        metadata={"squad": squad, "feature": squad},
        created_at=NOW,
        version=1,
    )


async def retain(database: Database, days: int = KEPT_DAYS, archive: Archive | None = None) -> None:
    async def no_wait(_seconds: float, _stop: asyncio.Event) -> None:
        return

    async for _ in Dropper(database, days, lambda: NOW, archive, wait=no_wait).run_pass(asyncio.Event()):
        pass


async def lose(database: Database, how: str, folder: Path) -> ArchivedGroupReader | None:
    """Have runs leave the database: those of more than 31 days are deleted, or those before May archived, or both."""
    if how != "archived":
        await retain(database, KEPT_DAYS if how == "dropped" else 60)
    if how == "dropped":
        return None
    archive = archive_at(database, str(folder))
    await retain(database, archive=archive)
    return ArchivedGroupReader(ArchivedRuns(archive))


async def track(database: Database, key: str) -> None:
    async with database.session() as session:
        await tracking.untrack(session, ANYONE, "trk", key, NOW)
    await finish(database)
    async with database.session() as session:
        await tracking.track(session, ANYONE, "trk", key, NOW)


async def finish(database: Database) -> None:
    for _ in range(500):
        if not await change_key(database, NOW) and not await changing(database):
            return
        await asyncio.sleep(0)
    raise AssertionError("the job never ends")


async def changing(database: Database) -> bool:
    async with database.connection() as connection:
        return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM tracked_keys WHERE state ~ 'ing$')"))


def question(key: str, days: int, width: BucketWidth | None = None, of: RunFilter = OF_PROJECT) -> Question:
    span = TimeSpan(TODAY - (days - 1) * DAY, TODAY + DAY)
    timeline = Timeline.in_buckets(span, width, NOW) if width else Timeline.whole(span, NOW)
    by: Sequence[Dimension] = () if of.metadata else (dimension_of_key(key),)
    return Question(timeline, of, tuple(by), latencies=LatencyDetail.BUCKETS)


async def ask(
    database: Database,
    asked: Question,
    groups: ArchivedGroupReader | None = None,
    memo: DayMemo | None = None,
) -> dict[str | None, int]:
    async with database.snapshot() as connection:
        answer = await read_groups([GroupRowReader(CombinedReads.over(connection), groups, memo)], asked)
    return {(group or ("all",))[0]: one.totals.runs for group, one in answer.groups.items()}


async def answers(
    database: Database, key: str, days: int, groups: ArchivedGroupReader | None = None
) -> tuple[dict[str | None, int], dict[str | None, int]]:
    """Ask by value, and for one of them."""
    of_one = question(key, days, of=OF_PROJECT.replace(metadata=((key, "s1"),)))
    return await ask(database, question(key, days, BucketWidth.DAY), groups), await ask(database, of_one, groups)


def expected(days: int) -> tuple[dict[str, int], dict[str, int]]:
    return dict.fromkeys(SQUADS, days), {"all": days}


@pytest.fixture(params=[20, 50_000], ids=["in pieces", "at once"])
def _filled_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dimensions, "FILLED_AT_ONCE", request.param)


@pytest.mark.usefixtures("_filled_at_once")
@pytest.mark.parametrize("how", ["dropped", "archived", "both"])
@pytest.mark.parametrize("key", KEYS)
async def test_days_whose_runs_are_there_are_counted_and_earlier_ones_are_read_or_refused(
    trk: Database, folder: Path, key: str, how: str
) -> None:
    groups = await lose(trk, how, folder)
    await track(trk, key)
    await finish(trk)

    since = date(2026, 5, 15) if how == "dropped" else date(2026, 5, 1)
    kept = (TODAY.date() - since).days + 1
    assert await answers(trk, key, 30, groups) == expected(30)
    assert await answers(trk, key, kept, groups) == expected(kept)
    of_all = question(key, kept, of=RunFilter())
    assert await ask(trk, of_all, groups) == expected(kept)[0]
    if how == "archived":
        assert await answers(trk, key, DAYS, groups) == expected(DAYS)
        assert await ask(trk, question(key, DAYS, BucketWidth.DAY), groups, DayMemo(2**24)) == expected(DAYS)[0]
    else:
        for earlier in (question(key, DAYS), question(key, DAYS, of=OF_PROJECT.replace(metadata=((key, "s1"),)))):
            with pytest.raises(DimensionNotTracked, match=f"The sums of metadata.{key} begin on {since}"):
                await ask(trk, earlier, groups)
    async with trk.connection() as connection:
        # A value of a day that the sums lack would look new.
        assert await select_first_seen(connection, "trk", key, TimeSpan(TODAY - 10 * DAY, NOW)) == []
    assert {str(scope): found async for scope, found in verify_sums(trk, NOW) if found} == {}
    assert sum([changed async for _, changed in rebuild_sums(trk, NOW)]) == 0
    assert await answers(trk, key, 30) == expected(30)


async def test_a_key_that_was_tracked_before_runs_were_dropped_answers_for_their_days(
    trk: Database, folder: Path
) -> None:
    await track(trk, "squad")
    await finish(trk)

    await lose(trk, "dropped", folder)

    assert await answers(trk, "squad", DAYS) == expected(DAYS)


async def test_runs_that_arrive_late_count_where_the_sums_are_complete(trk: Database, folder: Path) -> None:
    await lose(trk, "dropped", folder)
    await track(trk, "squad")
    await change_key(trk, NOW)
    async with trk.connection() as connection:
        late = [made(age, "s1", f"late-{age}") for age in (0, 29, 40)]
        await insert_runs(connection, late, queued=False)
    await finish(trk)

    assert (await ask(trk, question("squad", 30)))["s1"] == 32
    with pytest.raises(DimensionNotTracked, match="begin on 2026-05-15"):
        await ask(trk, question("squad", 41))


async def test_runs_dropped_while_a_key_is_filled_are_not_missed_from_later_days(
    trk: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dimensions, "FILLED_AT_ONCE", 20)
    await track(trk, "squad")
    for _ in range(4):
        assert await change_key(trk, NOW)
    await lose(trk, "dropped", folder)
    await finish(trk)

    assert await answers(trk, "squad", 32) == expected(32)
    with pytest.raises(DimensionNotTracked, match="begin on 2026-05-15"):
        await ask(trk, question("squad", DAYS))


async def test_days_announced_as_gone_at_the_moment_they_are_filled_are_filled_without_what_is_gone(
    trk: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, is_done = upkeep_queries.add_differences, False

    async def announced_first(
        connection: Connection, chunk: ScanChunk, now: datetime, key_ids: Sequence[int]
    ) -> Counter[str]:
        nonlocal is_done
        if not is_done:
            is_done = True
            await lose(trk, "dropped", folder)
        return await add(connection, chunk, now, key_ids)

    monkeypatch.setattr(upkeep_queries, "add_differences", announced_first)
    await track(trk, "squad")
    await finish(trk)

    assert is_done
    assert await answers(trk, "squad", 32) == expected(32)
    with pytest.raises(DimensionNotTracked, match="begin on 2026-05-15"):
        await ask(trk, question("squad", DAYS))


async def test_a_key_that_is_tracked_anew_before_runs_go_answers_for_all_days_again(
    trk: Database, folder: Path
) -> None:
    async with trk.session() as session:
        await tracking.track(session, ANYONE, "trk", "squad", NOW)
    await finish(trk)
    async with trk.connection() as connection:
        await connection.execute("UPDATE tracked_keys SET complete_since = '2026-05-20' WHERE key = 'squad'")

    await track(trk, "squad")
    await finish(trk)

    assert await answers(trk, "squad", DAYS) == expected(DAYS)
    async with trk.session() as session:
        assert {one.key: one.state for one in await tracking.list_keys(session, "trk", NOW)}[
            "squad"
        ] == KeyState.TRACKED


async def test_a_value_whose_earlier_runs_are_gone_is_not_new(trk: Database, folder: Path) -> None:
    async with trk.connection() as connection:
        await insert_runs(connection, [made(33, "old"), made(2, "old")], queued=False)
    await lose(trk, "dropped", folder)
    await track(trk, "squad")
    await finish(trk)

    async with trk.connection() as connection:
        assert await select_first_seen(connection, "trk", "squad", TimeSpan(TODAY - 10 * DAY, NOW)) == []
        since_then = TimeSpan(TODAY - DAY, NOW + 5 * DAY)
        await insert_runs(connection, [made(0, "new")], queued=False)
        assert [one.value for one in await select_first_seen(connection, "trk", "squad", since_then)] == ["new"]


async def test_an_update_notes_which_keys_lack_days_and_counts_what_was_left_out(trk: Database, folder: Path) -> None:
    script = ScriptDirectory.from_config(config("postgresql://nowhere", CELL)).get_revision("0006")
    assert script is not None
    await track(trk, "squad")
    await finish(trk)
    await lose(trk, "dropped", folder)
    await track(trk, "feature")
    await finish(trk)
    async with trk.connection() as connection:
        # As the version before had it.
        await connection.execute("UPDATE tracked_keys SET complete_since = NULL")
        of_feature = "(SELECT id FROM tracked_keys WHERE key = 'feature' AND project_id = 'trk')"
        for table in ("dimension_sums", "dimension_latencies"):
            await connection.execute(f"DELETE FROM {table} WHERE day < '2026-05-25' AND key_id = {of_feature}")
        assert (await ask(trk, question("feature", 30)))["s1"] < 30

        await connection.execute(script.module.FIND_INCOMPLETE)

    await finish(trk)
    assert await answers(trk, "squad", DAYS) == expected(DAYS)
    assert await answers(trk, "feature", 32) == expected(32)
    with pytest.raises(DimensionNotTracked, match="begin on 2026-05-15"):
        await ask(trk, question("feature", DAYS))
