"""Old runs go into the archive instead of being dropped: all of them, exactly, each in one place at each moment."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from runtally import retention
from runtally.archive import archiver
from runtally.archive.store import store_at
from runtally.db.database import Database
from runtally.files import CHECKOUT
from runtally.models.run import StoredRun
from runtally.usage.upkeep.repair_queries import rebuild_sums
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.archives import HORIZON, NOW, OLD_RUNS, archive_at, asked, everywhere, lake, names_in, retain
from tests.stored import stored_runs

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = ("occurred_at", "created_at")


async def test_runs_of_months_that_are_over_go_into_one_file_a_project_and_month(
    own: Database, archive_url: str
) -> None:
    archive = archive_at(own, archive_url)
    before = await everywhere(own, archive)

    assert await retain(own, archive) == {"one": OLD_RUNS, "two": OLD_RUNS}

    files = await archive.list_files()
    assert [(one.project_id, f"{one.first_at:%m}", one.sums.runs) for one in files] == [
        ("one", "03", 93),
        ("one", "04", 90),
        ("two", "03", 93),
        ("two", "04", 90),
    ]
    assert files[0].path == f"runs/project=one/month=2026-03/{files[0].id}.parquet"
    assert await archive.strays() == []
    assert await everywhere(own, archive) == before
    assert await retain(own, archive) == {}
    assert {str(scope): str(found) async for scope, found in verify_sums(own, NOW) if found} == {}
    assert sum([changed async for _, changed in rebuild_sums(own, NOW)]) == 0


async def test_the_runs_of_a_month_go_before_it_is_over_where_they_are_many(
    own: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FEWEST_RUNS", 3 * 14)
    archive = archive_at(own, str(folder))

    assert await retain(own, archive) == {"one": OLD_RUNS + 42, "two": OLD_RUNS + 42}

    files = await archive.list_files("one")
    assert files[-1].last_at < HORIZON
    assert f"{files[-1].first_at:%F}" == "2026-05-01"


async def test_many_runs_of_a_month_go_into_several_files(
    own: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "RUNS_PER_FILE", 50)
    archive = archive_at(own, str(folder))
    before = await everywhere(own, archive)

    assert await retain(own, archive) == {"one": OLD_RUNS, "two": OLD_RUNS}

    assert [one.sums.runs for one in await archive.list_files("one")] == [50, 43, 50, 40]
    assert await everywhere(own, archive) == before


async def test_a_file_has_no_more_bytes_than_fit_and_its_sums_are_those_of_its_runs(
    own: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "_CHUNK", 10)
    monkeypatch.setattr(archiver, "BYTES_PER_FILE", 3 * 1024)
    archive = archive_at(own, str(folder))
    async with own.connection() as connection:
        await connection.execute("""UPDATE runs SET metadata = jsonb_build_object('long', repeat('x', 1024))""")
    before = await everywhere(own, archive)

    assert await retain(own, archive) == {"one": OLD_RUNS, "two": OLD_RUNS}

    assert [one.sums.runs for one in await archive.list_files("one")] == [*[10] * 9, 3, *[10] * 9]
    assert await everywhere(own, archive) == before
    await archive.check()


async def test_days_whose_runs_stay_are_not_announced_as_dropped(
    own: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_at(own, str(folder))

    async def announced() -> list[datetime]:
        async with own.connection() as connection:
            rows = await connection.fetch("SELECT dropped_before FROM projects WHERE id IN ('one', 'two')")
        return [row[0] for row in rows]

    await retain(own, archive)
    assert await announced() == [HORIZON.replace(day=1)] * 2
    assert await retain(own, archive) == {}
    assert await announced() == [HORIZON.replace(day=1)] * 2

    monkeypatch.setattr(retention, "FEWEST_RUNS", 3 * 14)
    await retain(own, archive)
    assert await announced() == [HORIZON] * 2


async def test_a_month_that_was_begun_is_archived_up_to_its_announced_day_also_by_a_later_pass(
    own: Database, folder: Path
) -> None:
    archive = archive_at(own, str(folder))
    async with own.connection() as connection:
        await connection.execute(
            "UPDATE projects SET dropped_before = $1 WHERE id = 'one'", HORIZON - timedelta(days=4)
        )

    assert await retain(own, archive) == {"one": OLD_RUNS + 3 * 10, "two": OLD_RUNS}


async def test_another_engine_reads_every_value_as_postgres_had_it(own: Database, folder: Path) -> None:
    names = StoredRun.__struct_fields__
    async with own.connection() as connection:
        await connection.execute(
            """UPDATE runs SET metadata = '{"exact": 1.50, "long": 123456789012345678901234567890.5}' WHERE id = '4-1'"""
        )
    stored = [run for project in ("one", "two") for run in await stored_runs(own, project)]

    await retain(own, archive_at(own, str(folder)))

    # Times as microseconds: DuckDB has no zones without an extension that it would download.
    columns = ", ".join(f"epoch_us({name})" if name in TIMES else name for name in names)
    read = asked(f"SELECT {columns} FROM {lake(folder)} ORDER BY project_id, id")
    expected = [run for run in stored if run["occurred_at"] < HORIZON.replace(day=1)]
    assert len(read) == len(expected) == 2 * OLD_RUNS
    for row, run in zip(read, expected, strict=True):
        found = dict(zip(names, row, strict=True))
        for name in ("tags", "units", "metadata"):
            found[name] = None if found[name] is None else json.loads(found[name])
        run |= {name: (run[name] - EPOCH) // timedelta(microseconds=1) for name in TIMES}
        run["key_id"] = None if run["key_id"] is None else str(run["key_id"])
        assert found == run
    (exact,) = asked(f"SELECT metadata FROM {lake(folder)} WHERE id = '4-1' AND project_id = 'one'")
    assert exact == ('{"long": 123456789012345678901234567890.5, "exact": 1.50}',)


async def test_another_engine_gets_the_same_sums_to_the_last_digit(own: Database, folder: Path) -> None:
    sums = "SELECT project_id, count(*), sum(cost_usd), sum(reported_cost_usd), sum(input_tokens) FROM {} GROUP BY 1 ORDER BY 1"
    async with own.connection() as connection:
        of_postgres = [
            tuple(row) for row in await connection.fetch(sums.format("runs WHERE occurred_at < '2026-05-01Z'"))
        ]

    await retain(own, archive_at(own, str(folder)))

    of_duckdb = asked(sums.format(lake(folder)))
    assert of_duckdb == of_postgres
    assert of_duckdb[0][2] > Decimal(1)
    described = asked(f"DESCRIBE SELECT occurred_at, cost_usd, id, key_id FROM {lake(folder)}")
    types = {name: kind for name, kind, *_ in described}
    assert types == {
        "occurred_at": "TIMESTAMP WITH TIME ZONE",
        "cost_usd": "DECIMAL(38,12)",
        "id": "VARCHAR",
        "key_id": "VARCHAR",
    }


async def test_the_question_of_the_documentation_is_answered_by_month(own: Database, folder: Path) -> None:
    text = (CHECKOUT / "docs" / "archive.md").read_text()
    (sql,) = re.findall(r"^\| DuckDB \| `(.*)` \|$", text, re.MULTILINE)
    await retain(own, archive_at(own, str(folder)))

    answered = dict(asked(sql.replace("/backups/runtally", str(folder))))

    async with own.connection() as connection:
        listed = await connection.fetch(
            "SELECT to_char(first_at AT TIME ZONE 'UTC', 'YYYY-MM'), sum(cost_usd) FROM archive_files GROUP BY 1"
        )
    assert {str(month): cost for month, cost in answered.items()} == dict(map(tuple, listed))
    assert sorted(answered, key=str) == ["2026-03", "2026-04"]


async def test_a_run_that_waits_for_the_relay_stays_and_goes_into_a_file_of_its_own_later(
    own: Database, archive_url: str
) -> None:
    archive = archive_at(own, archive_url)
    before = await everywhere(own, archive)
    async with own.connection() as connection:
        await connection.execute(
            "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at, parked_at)"
            " VALUES ('one', '3-0', 1, $1, $1, $1), ('one', '40-1', 1, $1, $1, NULL)",
            NOW,
        )

    assert await retain(own, archive) == {"one": OLD_RUNS - 2, "two": OLD_RUNS}
    assert await everywhere(own, archive) == before
    async with own.connection() as connection:
        await connection.execute("DELETE FROM outbox")
    assert await retain(own, archive) == {"one": 2}

    assert [one.sums.runs for one in await archive.list_files("one")] == [92, 1, 89, 1]
    assert await everywhere(own, archive) == before


async def test_projects_with_any_name_have_folders_of_their_own(own: Database, archive_url: str) -> None:
    names = ["../up", "a/b", "a_b", "A_B", "Größe \U0001f600" * 10, "x" * 128, ".", "a%2Fb"]
    async with own.connection() as connection:
        await connection.execute("DELETE FROM runs WHERE project_id = 'two'")
        for name in names:
            await connection.execute("INSERT INTO projects (id, name, created_at) VALUES ($1, $1, $2)", name, NOW)
            columns = ", ".join(one for one in StoredRun.__struct_fields__ if one != "project_id")
            await connection.execute(
                f"INSERT INTO runs (project_id, {columns}) SELECT $1, {columns} FROM runs WHERE project_id = 'one'",
                name,
            )
    archive = archive_at(own, archive_url)
    before = await everywhere(own, archive)

    assert await retain(own, archive) == dict.fromkeys(["one", *names], OLD_RUNS)

    assert await everywhere(own, archive) == before
    paths = [one.path.split("/")[1] for one in await archive.list_files()]
    assert len(set(paths)) == len(names) + 1
    assert all(len(path) < 100 for path in paths)
    await archive.check()


async def test_nothing_is_read_or_written_elsewhere_than_below_the_url(own: Database, folder: Path) -> None:
    await retain(own, archive_at(own, f"file://{folder}"))

    assert names_in(folder) == ["runs", "runtally-archive.json"]
    assert names_in(folder.parent) == ["archive"]
    assert len(await store_at(str(folder)).list_files("runs")) == 4
