"""Chosen runs are erased from the archive too, and from sums: those of a person, or of an import."""

from pathlib import Path

import duckdb
import pytest

from runtally.access.erasure import ChosenBy, ChosenRuns, Places, erase_chosen, look_up
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import ArchiveMissing
from runtally.ingest.queries import insert_runs
from runtally.models.run import StoredRun
from runtally.usage.upkeep.dimensions import merge_dimensions
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.archives import DAYS, NOW, OLD_RUNS, archive_at, everywhere, made, retain

ANN, BO = "Ann Example", "Bo"


def of_person(name: str, day: int) -> StoredRun:
    run = made("one", day, 5)
    run.user_id, run.metadata, run.latency_ms = name, {"import": "imp-1", "team": 1.50, "user": name}, 40 + day
    return run


async def placed(own: Database, archive_url: str) -> Places:
    """Runs of Ann and Bo among those of others, old ones archived, all of them reported."""
    people = [of_person(name, day) for day in range(0, DAYS, 10) for name in (ANN,)]
    people += [of_person(BO, day) for day in range(3, DAYS, 10)]
    async with own.connection() as connection:
        await insert_runs(connection, people)
        names = ", ".join(StoredRun.__struct_fields__)
        await connection.execute(f"INSERT INTO reporting_runs ({names}, synced_at) SELECT {names}, now() FROM runs")
    await merge(own)
    archive = archive_at(own, archive_url)
    async with own.connection() as connection:
        await connection.execute("DELETE FROM outbox_arrivals; DELETE FROM outbox")
    await retain(own, archive)
    return Places(own, own, own, archive)


async def merge(own: Database) -> None:
    """Add to sums and sketches what waits for that."""
    while await merge_waiting(own, NOW) + await merge_dimensions(own, NOW, everything=True):
        pass


async def sums_of(own: Database) -> list[tuple[object, ...]]:
    async with own.connection() as connection:
        rows = await connection.fetch(
            """SELECT model, bucket, runs, cost_usd FROM rollups WHERE project_id = 'one' AND grain = 1440 AND runs <> 0"""
        )
    return sorted(map(tuple, rows), key=repr)


async def test_a_person_leaves_database_archive_reporting_table_and_sums_and_nobody_else_does(
    own: Database, archive_url: str, tmp_path: Path
) -> None:
    before = await sums_of(own)
    places = await placed(own, archive_url)
    assert places.archive is not None
    chosen = ChosenRuns("one", ChosenBy.USER, (ANN, "user 0000000000000000"))
    old = {one.path for one in await places.archive.list_files("one")}

    looked = await look_up(places, chosen)
    found = await erase_chosen(places, OPERATOR, chosen, lambda: NOW, "person.erased", "erasure 1")

    assert (looked.live, looked.archived, looked.reported) == (5, 6, 11)
    assert (found.live, found.archived, found.reported) == (5, 6, 11)
    assert (await look_up(places, chosen)).runs == 0
    left = [row for row in await everywhere(own, places.archive) if row[1].endswith("-5")]
    assert len(left) == 11
    await places.archive.check()
    assert await places.archive.strays() == []
    # No byte of an old file is kept.
    assert old.isdisjoint(await places.archive.store.list_files("runs"))
    async with own.connection() as connection:
        tables = [
            row[0]
            for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            if await connection.fetchval(
                f'SELECT EXISTS (SELECT FROM "{row[0]}" AS t WHERE t::text LIKE $1)', f"%{ANN}%"
            )
        ]
        [entry] = await connection.fetch("SELECT target, before FROM audit_entries WHERE action = 'person.erased'")
    assert tables == []
    assert tuple(entry) == ("erasure 1", {"runs": 5, "archived": 6, "reported": 11})
    await merge(own)
    assert {str(scope): str(one) async for scope, one in verify_sums(own, NOW) if one} == {}

    await erase_chosen(places, OPERATOR, ChosenRuns("one", ChosenBy.USER, (BO,)), lambda: NOW, "person.erased", "2")
    assert await sums_of(own) == before


async def test_an_import_whose_runs_are_archived_is_undone(own: Database, folder: Path) -> None:
    places = await placed(own, str(folder))
    chosen = ChosenRuns("one", ChosenBy.IMPORT, ("imp-1",))

    looked = await look_up(places, chosen)
    found = await erase_chosen(places, OPERATOR, chosen, lambda: NOW, "import.undone", "imp-1")

    assert (found.live, found.archived) == (looked.live, looked.archived) == (10, 12)
    assert places.archive is not None
    files = await places.archive.list_files("one")
    assert sum(one.sums.runs for one in files) == OLD_RUNS
    with duckdb.connect() as asked:
        names = asked.execute(f"SELECT count(*) FROM read_parquet('{folder}/runs/project=one/**/*.parquet')").fetchall()
    assert names == [(OLD_RUNS,)]


async def test_a_file_of_which_nothing_is_left_is_deleted(own: Database, folder: Path) -> None:
    places = await placed(own, str(folder))
    async with own.connection() as connection:
        await connection.execute("UPDATE runs SET user_id = 'Ann' WHERE project_id = 'two'")
    assert places.archive is not None
    everyone = "ü \U0001f600\n", ANN, BO

    found = await erase_chosen(
        places, OPERATOR, ChosenRuns("one", ChosenBy.USER, everyone), lambda: NOW, "person.erased", "3"
    )

    # Those of odd days have no user.
    assert found.archived == 12 + 3 * 31
    assert len(await places.archive.list_files("one")) == 2


async def test_sums_of_days_whose_runs_were_dropped_stay_without_the_name(own: Database) -> None:
    async with own.connection() as connection:
        await insert_runs(connection, [of_person(ANN, 0), of_person(ANN, DAYS - 1)], queued=False)
    await merge(own)
    await retain(own, None)
    before = await sums_of(own)
    places = Places(own, own, own, None)

    found = await erase_chosen(
        places, OPERATOR, ChosenRuns("one", ChosenBy.USER, (ANN,)), lambda: NOW, "person.erased", "4"
    )

    assert (found.live, found.archived) == (1, 0)
    assert len(await sums_of(own)) == len(before)
    async with own.connection() as connection:
        for table in ("dimension_sums", "dimension_latencies"):
            assert not await connection.fetchval(f"SELECT count(*) FROM {table} WHERE $1 = ANY (dimension_values)", ANN)
        [kept] = await connection.fetch(
            """SELECT sum(n) FROM dimension_sums, unnest(dimension_values, runs) AS each (value, n)
                WHERE detail = 'day' AND value IS NULL AND project_id = 'one'
                  AND key_id IN (SELECT id FROM tracked_keys WHERE key = 'user')"""
        )
    assert kept[0] == 1


async def test_nothing_is_erased_while_the_archive_is_away(own: Database, folder: Path) -> None:
    await placed(own, str(folder))
    places = Places(own, own, own, None)

    with pytest.raises(ArchiveMissing, match="nothing was deleted"):
        await erase_chosen(
            places, OPERATOR, ChosenRuns("one", ChosenBy.USER, (ANN,)), lambda: NOW, "person.erased", "5"
        )

    async with own.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE user_id = $1", ANN) == 5
