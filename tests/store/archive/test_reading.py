"""What runs answer is the same before and after they went into the archive: lists, totals, files, groups."""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runtally.archive import archiver, engine, local, queries, reading
from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.db.combined import CombinedReads
from runtally.db.database import Connection, Database
from runtally.db.replica import Reader
from runtally.errors import (
    ArchiveBusy,
    ArchiveError,
    ArchiveNotRead,
    ArchiveTooLarge,
    DamagedArchive,
    DimensionNotTracked,
    NotFound,
)
from runtally.ingest.queries import insert_runs
from runtally.reporting import verify
from runtally.reporting.copy_queries import upsert_reported
from runtally.reporting.verify import DaySums, Verifier
from runtally.runs import archived, read
from runtally.runs.archived import RunSource
from runtally.runs.export import ExportSource, Format, Part, export
from runtally.runs.sorting import Order, SortKey, read_sorted
from runtally.runs.totals import read_missing_before, read_totals
from runtally.runs.values import Direction, ListedRun, Place, Position
from runtally.usage.dimensions import DIMENSIONS, STATUS, Dimension, dimension_of_key
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.groups.groups import GroupAnswer, read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import DayMemo
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan
from tests.archives import HORIZON, NOW, OLD_RUNS, START, archive_at, change_byte, made, retain, runs_of
from webapp.cli.reporting import lines_of

ALL = RunFilter(range=Period.ALL)
ONE = RunFilter(range=Period.ALL, project_id="one")
FILTERS = (
    ALL,
    ONE,
    ONE.replace(since=START + timedelta(days=40, hours=3), until=START + timedelta(days=70, hours=9)),
    ONE.replace(until=START + timedelta(days=3)),
    ALL.replace(until=START + timedelta(days=30, minutes=7)),
    ONE.replace(model="large", provider="acme"),
    ONE.replace(model="other"),
    ONE.replace(status=Outcome.FAILED),
    ONE.replace(status=Outcome.SUCCESS),
    ALL.replace(status=Outcome.ERROR),
    ONE.replace(error_code='a "quoted", \\ code'),
    ONE.replace(session_id="s", status=Outcome.ERROR),
    ALL.replace(user_id="ü \U0001f600\n"),
    ONE.replace(tag='c"d'),
    ONE.replace(metadata=(("feature", "a"),)),
    ONE.replace(metadata=(("text", "\\N \u2028"),)),
    ONE.replace(metadata_key="text"),
    ONE.replace(metadata_key="*", metadata_value="star"),
    ONE.replace(metadata_key="a/b~c", metadata_value="way"),
    ONE.replace(metadata=(("*", "star"),)),
    ONE.replace(metadata_key="no.such", metadata_value="x"),
    ONE.replace(min_cost_usd=Decimal("3.000000000031"), max_cost_usd=Decimal(9)),
    ONE.replace(min_latency_ms=100, max_latency_ms=250),
    ONE.replace(search="4-1"),
    ONE.replace(key_id=UUID(int=0)),
)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(reading, "SECONDS", 600.0)


@pytest.fixture
def runs(own: Database, folder: Path) -> ArchivedRuns:
    return ArchivedRuns(archive_at(own, str(folder)))


@pytest.fixture
def groups(runs: ArchivedRuns) -> ArchivedGroupReader:
    return ArchivedGroupReader(runs)


async def archive_all(own: Database, folder: Path) -> None:
    assert await retain(own, archive_at(own, str(folder))) == {"one": OLD_RUNS, "two": OLD_RUNS}


async def pages(own: Database, run_filter: RunFilter, runs: ArchivedRuns | None) -> list[ListedRun]:
    """All pages to the oldest run, and the way back, which must have the same runs."""
    found: list[ListedRun] = []
    position = Position()
    async with own.snapshot() as connection:
        while True:
            page = await read.read_page([RunSource(connection, runs)], run_filter, NOW, position)
            assert page.problem is None
            found += page.runs
            if page.older is None:
                break
            position = Position(Direction.OLDER, page.older)
        back = list(page.runs)
        while page.newer is not None:
            page = await read.read_page(
                [RunSource(connection, runs)], run_filter, NOW, Position(Direction.NEWER, page.newer)
            )
            back = [*page.runs, *back] if page.newer or len(back) + len(page.runs) <= len(found) else back
    assert len(back) <= len(found)
    return [replace(run, is_archived=False) for run in found]


async def files(own: Database, run_filter: RunFilter, runs: ArchivedRuns | None) -> list[bytes]:
    found = []
    for format_ in (Format.JSONL, Format.CSV):
        for part in (Part(), Part(first=20), Part(Order(SortKey.COST), 20)):
            parts = export([ExportSource(Reader(own), runs)], run_filter, NOW, format_, part=part)
            found.append(b"".join([data async for data in parts]))
    return found


async def sorts(own: Database, run_filter: RunFilter, runs: ArchivedRuns | None) -> list[list[str]]:
    found = []
    async with own.snapshot() as connection:
        for key in SortKey:
            for is_ascending in (True, False):
                for page in (1, 3):
                    order = Order(key, is_ascending=is_ascending)
                    answer = await read_sorted([RunSource(connection, runs)], run_filter, NOW, order, page)
                    assert answer.problem is None
                    found.append([f"{run.project_id} {run.id}" for run in answer.runs])
    return found


async def test_the_first_runs_of_more_files_than_runs_are_the_first_of_all(
    own: Database, folder: Path, runs: ArchivedRuns
) -> None:
    await archive_all(own, folder)

    looked_at = 0
    async with own.snapshot() as connection:
        for run_filter, direction in product(FILTERS, Direction):
            position = Position(direction)
            kept = await archived.files_for(runs, connection, run_filter, NOW, position)
            asked = runs, kept, run_filter, NOW, position
            every, few = [(await archived.walk(*asked, limit=limit)).runs for limit in (1_000, max(len(kept) - 1, 1))]
            assert few == every[: len(few)]
            assert len(few) == min(len(every), max(len(kept) - 1, 1))
            looked_at += len(few)
    assert looked_at > len(FILTERS)


async def test_lists_files_and_totals_are_as_before(own: Database, folder: Path, runs: ArchivedRuns) -> None:
    async def everything(archive: ArchivedRuns | None) -> Iterator[Any]:
        found: list[Any] = []
        for run_filter in FILTERS:
            async with own.snapshot() as connection:
                totals = await read_totals([RunSource(connection, archive)], run_filter, NOW)
                assert await read_missing_before([RunSource(connection, archive)], run_filter, NOW) is None
            of_pages = await pages(own, run_filter, archive)
            assert totals is None or totals.runs == len(of_pages)
            found.append((run_filter, totals, of_pages, await files(own, run_filter, archive)))
        found += [(run_filter, await sorts(own, run_filter, archive)) for run_filter in FILTERS[:3]]
        return iter(found)

    before = await everything(None)
    await archive_all(own, folder)

    for one, other in zip(await everything(runs), before, strict=True):
        assert one == other


BY: Sequence[tuple[Dimension, ...]] = (
    (),
    (DIMENSIONS["errorCode"],),
    (DIMENSIONS["status"],),
    (DIMENSIONS["tags"],),
    (DIMENSIONS["session"], DIMENSIONS["user"]),
    (DIMENSIONS["model"], dimension_of_key("text")),
    (dimension_of_key("text"), DIMENSIONS["tags"]),
    (DIMENSIONS["experiment"],),
    (dimension_of_key("*"), dimension_of_key("a/b~c")),
    (dimension_of_key("*"),),
    (DIMENSIONS["key"],),
    (DIMENSIONS["serviceTier"], DIMENSIONS["region"]),
)
SPAN = TimeSpan(START + timedelta(hours=5), START + timedelta(days=80, hours=7))


def questions() -> Iterator[Question]:
    for by in BY:
        for run_filter in (
            RunFilter(project_id="one"),
            RunFilter(),
            RunFilter(project_id="one", status=Outcome.SUCCESS),
            RunFilter(project_id="one", metadata=(("text", "\\N \u2028"),)),
            RunFilter(project_id="one", error_code='a "quoted", \\ code'),
            RunFilter(project_id="one", service_tier="flex", region="us"),
        ):
            is_whole = len(by) + len(run_filter.narrowed) == 1
            timeline = Timeline.whole(SPAN, NOW) if is_whole else Timeline.in_buckets(SPAN, BucketWidth.WEEK, NOW)
            yield Question(timeline, run_filter, by, latencies=LatencyDetail.BUCKETS, limit=3)


async def ask(
    connection: Connection, question: Question, groups: ArchivedGroupReader, memo: DayMemo | None = None
) -> GroupAnswer:
    return await read_groups([GroupRowReader(CombinedReads.over(connection), groups, memo)], question)


async def answers(
    own: Database, groups: ArchivedGroupReader, memo: DayMemo | None = None, step: int = 1
) -> list[GroupAnswer]:
    async with own.snapshot() as connection:
        return [await ask(connection, question, groups, memo) for question in list(questions())[::step]]


async def test_groups_are_as_before(own: Database, folder: Path, groups: ArchivedGroupReader) -> None:
    before = await answers(own, groups)
    await archive_all(own, folder)

    after = await answers(own, groups)

    for number, (one, other) in enumerate(zip(after, before, strict=True)):
        assert one == other, number
    assert await answers(own, groups, DayMemo(2**24), 6) == before[::6]


async def test_without_an_archive_in_reach_groups_of_old_days_are_refused(own: Database, folder: Path) -> None:
    await archive_all(own, folder)

    question = next(one for one in questions() if one.by)
    async with own.snapshot() as connection:
        with pytest.raises(DimensionNotTracked, match="only totals remain"):
            await read_groups([GroupRowReader.over(connection)], question)


async def test_buckets_of_any_width_are_as_before(own: Database, folder: Path, groups: ArchivedGroupReader) -> None:
    span = TimeSpan(START + timedelta(days=9, hours=3, minutes=7), START + timedelta(days=35, minutes=1))
    by_error = tuple(
        Question(Timeline.in_buckets(span, width, NOW), RunFilter(project_id="one"), (STATUS, DIMENSIONS["errorCode"]))
        for width in BucketWidth
    )

    async def slices() -> list[Any]:
        async with own.snapshot() as connection:
            return [(await ask(connection, question, groups)).slices for question in by_error]

    before = await slices()
    await archive_all(own, folder)
    assert [len(found) > 1 for found in before] == [True] * len(BucketWidth)
    assert await slices() == before


async def test_days_of_which_runs_were_dropped_before_there_was_an_archive_are_never_added_up_in_part(
    own: Database, folder: Path, runs: ArchivedRuns, groups: ArchivedGroupReader
) -> None:
    async with own.connection() as connection:
        await connection.execute("DELETE FROM runs WHERE project_id = 'one' AND id = '3-1'")
    await retain(own, archive_at(own, str(folder)))

    question = next(one for one in questions() if one.by)
    async with own.snapshot() as connection:
        with pytest.raises(DimensionNotTracked, match="only totals remain"):
            await ask(connection, question, groups)
        assert await read_missing_before([RunSource(connection, runs)], ONE, NOW) == HORIZON.replace(day=1)
        of_later = ONE.replace(since=START + timedelta(days=5))
        assert await read_missing_before([RunSource(connection, runs)], of_later, NOW) is None


@pytest.mark.parametrize("direction", Direction)
async def test_files_that_reach_over_the_beginning_of_a_page_are_read_together(
    own: Database, folder: Path, runs: ArchivedRuns, monkeypatch: pytest.MonkeyPatch, direction: Direction
) -> None:
    await archive_all(own, folder)
    asked: list[int] = []

    async def counted(paths: Sequence[str], sql: str, values: Sequence[object]) -> engine.Rows:
        asked.append(len(paths))
        return await ask_engine(paths, sql, values)

    ask_engine = engine.ask
    monkeypatch.setattr(engine, "ask", counted)
    # The middle of April for older runs, and of March for newer ones: both projects have a file of the month.
    at = START + timedelta(days=45 if direction is Direction.OLDER else 15)
    async with own.snapshot() as connection:
        page = await read.read_page([RunSource(connection, runs)], ALL, NOW, Position(direction, Place(at, "", "")))

    assert (len(page.runs), asked) == (read.PAGE_RUNS, [2])

    asked.clear()
    async with own.snapshot() as connection:
        of_none = ALL.replace(user_id="none")
        page = await read.read_page([RunSource(connection, runs)], of_none, NOW, Position(direction, Place(at, "", "")))
    # Each file once, however far a page looks; where nothing is newer, the newest page is read instead.
    newest = [] if direction is Direction.OLDER else [1, 1, 2]
    assert (page.runs, asked) == ((), [2, 1, 1, *newest])


async def test_no_file_is_read_to_see_that_no_run_is_missing(
    own: Database, folder: Path, runs: ArchivedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many files of other projects have only a part of the days that are asked about."""
    await archive_all(own, folder)
    shutil.rmtree(folder)
    of_days = ALL.replace(since=START + timedelta(days=10), until=START + timedelta(days=40))

    async with own.snapshot() as connection:
        assert await read_missing_before([RunSource(connection, runs)], of_days, NOW) is None
        with monkeypatch.context() as patched:
            # Nor are the days of all projects added up again.
            patched.delattr(queries, "select_left")
            assert await read_missing_before([RunSource(connection, runs)], of_days, NOW) is None
    async with own.connection() as connection:
        await connection.execute("UPDATE archive_files SET state = 'removing' WHERE project_id = 'one'")
    async with own.snapshot() as connection:
        assert await read_missing_before([RunSource(connection, runs)], of_days.replace(project_id="two"), NOW) is None
        # Where a month lacks some, its days are looked at.
        with pytest.raises(DamagedArchive, match="is missing"):
            await read_missing_before([RunSource(connection, runs)], of_days, NOW)


async def test_a_run_and_its_trace_are_found_by_their_ids(own: Database, folder: Path, runs: ArchivedRuns) -> None:
    run = made("one", 4)
    run.id, run.trace_id = "of a trace", "trace"
    async with own.connection() as connection:
        await insert_runs(connection, [run], queued=False)
    await retain(own, archive_at(own, str(folder)))

    async with own.snapshot() as connection:
        for near in (None, run.occurred_at):
            found = await read.read_run(connection, connection, "one", "of a trace", runs, near)
            assert (found.run, found.is_archived) == (run, True)
            trace = await read.read_trace(connection, "one", "trace", runs, near)
            assert [step.run for step in trace.steps] == [run]
        for near in (None, run.occurred_at):
            with pytest.raises(NotFound):
                await read.read_run(connection, connection, "two", "of a trace", runs, near)
            with pytest.raises(NotFound):
                await read.read_trace(connection, "two", "trace", runs, near)


@pytest.mark.parametrize("of", [ONE, ALL])
async def test_many_files_are_read_piece_by_piece(
    own: Database, folder: Path, runs: ArchivedRuns, monkeypatch: pytest.MonkeyPatch, of: RunFilter
) -> None:
    """Also where a walk gives up after some bytes, and goes on from there; files of two projects overlap."""
    monkeypatch.setattr(archiver, "RUNS_PER_FILE", 7)
    narrow = of.replace(error_code='a "quoted", \\ code')
    before = await pages(own, narrow, None), await files(own, narrow, None)
    await archive_all(own, folder)
    monkeypatch.setattr(archived, "WALKED_BYTES", 10_000)
    monkeypatch.setattr("runtally.runs.export.ARCHIVED_CHUNK_RUNS", 11)
    monkeypatch.setattr("runtally.runs.export.WRITTEN_RUNS", 4)

    assert (await pages(own, narrow, runs), await files(own, narrow, runs)) == before


@pytest.mark.parametrize("fault", ["missing", "changed"])
async def test_a_file_that_is_missing_or_was_changed_is_named(
    own: Database, folder: Path, runs: ArchivedRuns, groups: ArchivedGroupReader, fault: str
) -> None:
    await archive_all(own, folder)
    kept = (await archive_at(own, str(folder)).list_files("one"))[0]
    path = folder / kept.path
    if fault == "missing":
        path.unlink()
    else:
        change_byte(path)

    async with own.snapshot() as connection:
        page = await read.read_page(
            [RunSource(connection, runs)], ONE.replace(until=START + timedelta(days=9)), NOW, Position()
        )
        assert (page.runs, page.problem is not None and kept.path in page.problem) == ((), True)
        with pytest.raises(DamagedArchive, match=kept.path):
            await read_totals([RunSource(connection, runs)], ONE, NOW)
        with pytest.raises(ArchiveNotRead, match=kept.path):
            await ask(connection, next(one for one in questions() if one.by), groups)
        # What does not reach it is as ever.
        newest = await read.read_page([RunSource(connection, runs)], ONE, NOW, Position())
        assert (len(newest.runs), newest.problem) == (read.PAGE_RUNS, None)
    with pytest.raises(DamagedArchive, match=kept.path):
        await files(own, ONE, runs)


async def test_a_question_about_too_much_is_refused(
    own: Database, folder: Path, runs: ArchivedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    await archive_all(own, folder)
    monkeypatch.setattr(local, "MAX_BYTES", 1_000)

    async with own.snapshot() as connection:
        with pytest.raises(ArchiveTooLarge):
            await read_totals([RunSource(connection, runs)], ONE, NOW)


async def test_a_question_that_takes_too_long_is_broken_off(own: Database, folder: Path, runs: ArchivedRuns) -> None:
    await archive_all(own, folder)
    async with own.snapshot() as connection:
        kept = await runs.files_in(connection, "one", None, None)

    with pytest.raises(ArchiveTooLarge):
        await runs.ask(kept, "SELECT count(*) FROM range(1000000000000)", [], 0.05)
    assert await runs.ask(kept, "SELECT count(*) FROM runs", []) == [(OLD_RUNS,)]


async def test_what_does_not_fit_into_memory_is_refused_and_never_written_to_a_disk(
    own: Database, folder: Path, runs: ArchivedRuns
) -> None:
    await archive_all(own, folder)
    async with own.snapshot() as connection:
        kept = await runs.files_in(connection, "one", None, None)

    assert await runs.ask(kept, "SELECT current_setting('temp_directory')", []) == [("",)]
    with pytest.raises(ArchiveTooLarge):
        await runs.ask(kept, "SELECT count(*) FROM (SELECT DISTINCT repeat(range::text, 9) FROM range(9000000))", [])
    with pytest.raises(ArchiveError):
        await runs.ask(kept, "SELECT no_such_column FROM runs", [])


async def test_few_pages_wait_for_the_archive_and_none_for_long(
    own: Database, folder: Path, runs: ArchivedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    await archive_all(own, folder)
    async with own.snapshot() as connection:
        kept = await runs.files_in(connection, "one", None, None)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def answer(*_: object) -> list[tuple[int]]:
        asked.set()
        await answered.wait()
        return [(1,)]

    monkeypatch.setattr(engine, "ask", answer)
    monkeypatch.setattr(reading, "WAIT_SECONDS", 600.0)
    first = asyncio.create_task(runs.ask(kept, "", []))
    await asked.wait()
    waiting = [asyncio.create_task(runs.ask(kept, "", [])) for _ in range(reading.MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(ArchiveBusy):
        await runs.ask(kept, "", [])
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    monkeypatch.setattr(reading, "WAIT_SECONDS", 0.0)
    with pytest.raises(ArchiveBusy):
        await runs.ask(kept, "", [])
    answered.set()
    assert (await first, await waiting[1]) == ([(1,)], [(1,)])


async def test_the_questions_of_one_reader_wait_for_each_other(own: Database, folder: Path, runs: ArchivedRuns) -> None:
    await archive_all(own, folder)
    async with own.snapshot() as connection:
        kept = await runs.files_in(connection, "one", None, None)
    reader, another = runs.of_one_reader(), runs.of_one_reader()
    several = [one.ask(kept, "SELECT count(*) FROM runs", []) for one in (reader, another) for _ in range(4)]

    assert len(several) > 2 * (1 + reading.MAX_WAITING)
    assert await asyncio.gather(*several) == [[(OLD_RUNS,)]] * len(several)


async def test_that_the_archive_was_busy_is_not_remembered(
    own: Database, folder: Path, groups: ArchivedGroupReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await archive_all(own, folder)
    timeline = Timeline.whole(TimeSpan(START + timedelta(days=4), START + timedelta(days=10)), NOW)
    question = Question(timeline, ONE, (STATUS,), latencies=LatencyDetail.WHOLE)
    memo = DayMemo(50_000_000)

    async def have_latencies() -> set[bool]:
        async with own.snapshot() as connection:
            answer = await ask(connection, question, groups, memo)
        return {sums.latency is not None for sums in answer.groups.values()}

    async def busy(*_: object) -> None:
        raise ArchiveBusy

    with monkeypatch.context() as patch:
        patch.setattr(ArchivedGroupReader, "latencies", busy)
        assert await have_latencies() == {False}
    assert await have_latencies() == {True}


async def test_runs_of_a_bucket_are_copied_once_and_read(own: Database, bucket_url: str) -> None:
    archive = archive_at(own, bucket_url)
    before = await pages(own, ONE, None)
    await retain(own, archive)
    runs = ArchivedRuns(archive)

    assert await pages(own, ONE, runs) == before
    assert await pages(own, ONE, runs) == before


async def test_files_of_a_project_that_is_erased_meanwhile_are_no_damage(
    own: Database, folder: Path, runs: ArchivedRuns
) -> None:
    await archive_all(own, folder)
    async with own.snapshot() as connection:
        kept = await runs.files_in(connection, None, None, None)
    async with own.connection() as connection:
        await connection.execute("UPDATE archive_files SET state = 'removing' WHERE project_id = 'one'")
    for one in kept:
        if one.project_id == "one":
            (folder / one.path).unlink()

    assert await runs.ask(kept, "SELECT DISTINCT project_id FROM runs", []) == [("two",)]


async def test_reporting_verify_counts_archived_runs(own: Database, folder: Path, runs: ArchivedRuns) -> None:
    async with own.connection() as connection:
        for project in ("one", "two"):
            await upsert_reported(connection, runs_of(project), NOW)
    await archive_all(own, folder)

    found = await Verifier(own, own, runs).verify(NOW)
    assert (found.differing, found.archived, found.archived_missing, found.archived_days) == (0, 2 * OLD_RUNS, 0, [])

    async with own.connection() as connection:
        await connection.execute("DELETE FROM reporting_runs WHERE project_id = 'one' AND id = '4-1'")
        await connection.execute("UPDATE reporting_runs SET cost_usd = 1 WHERE project_id = 'two' AND id = '6-1'")

    found = await Verifier(own, own, runs).verify(NOW)
    days = [("one", date(2026, 3, 5)), ("two", date(2026, 3, 7))]
    assert (found.archived_missing, found.archived_days) == (1, days)
    assert [line for line in lines_of(found) if "archive" in line] == [
        "366 archived runs were counted, and their cost and tokens added up by day: 1 is missing from the reporting table.",
        "one 2026-03-05: the reporting table has fewer runs than the archive and the database, or other sums",
        "two 2026-03-07: the reporting table has fewer runs than the archive and the database, or other sums",
    ]


async def test_reporting_verify_takes_live_runs_that_wait_for_the_relay_for_no_archived_ones(
    own: Database, folder: Path, runs: ArchivedRuns
) -> None:
    async with own.connection() as connection:
        for project in ("one", "two"):
            await upsert_reported(connection, runs_of(project), NOW)
    await archive_all(own, folder)
    late = made("one", 4, 3)
    async with own.connection() as connection:
        await insert_runs(connection, [late], queued=True)

    found = await Verifier(own, own, runs).verify(NOW)

    assert (found.differing, found.archived_missing, found.archived_days) == (1, 0, [])


async def test_reporting_verify_counts_runs_once_that_are_archived_meanwhile(
    own: Database, folder: Path, runs: ArchivedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with own.connection() as connection:
        for project in ("one", "two"):
            await upsert_reported(connection, runs_of(project), NOW)
    read_days = verify.select_reported_days

    async def archived_meanwhile(connection: Connection, project_id: str) -> dict[date, DaySums]:
        await retain(own, archive_at(own, str(folder)))
        return await read_days(connection, project_id)

    monkeypatch.setattr(verify, "select_reported_days", archived_meanwhile)

    found = await Verifier(own, own, runs).verify(NOW)

    assert (found.differing, found.archived_missing, found.archived_days) == (0, 0, [])
