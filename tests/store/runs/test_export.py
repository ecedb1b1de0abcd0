"""Files of runs: whole, in order, without a connection between their chunks."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from arro3.io import read_parquet

from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.models.run import RunColumns, StoredRun
from runtally.runs import read
from runtally.runs.export import ExportSource, Format, export
from runtally.usage.filter import Outcome, Period, RunFilter
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

RUNS = 60
NOW = datetime(2026, 6, 15, 12, 34, 56, 789012, tzinfo=UTC)
# Those of others that keep Postgres from forgetting old rows.
HOLDERS = """
SELECT count(*)
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND pid <> pg_backend_pid()
   AND backend_type = 'client backend'
   AND (backend_xmin IS NOT NULL OR state LIKE 'idle in transaction%')
"""
Post = Callable[..., Awaitable[None]]


def sent() -> list[dict[str, Any]]:
    """Runs of two weeks, four at each moment."""
    rng = Random(7)  # noqa: S311  # Made-up runs are no secret.
    return [
        make_run(
            runId=f"run-{number:03}",
            model=rng.choice(["acme-large", "other"]),
            status=rng.choice(["success", "error"]),
            metadata=rng.choice([None, {"user": "ann"}]),
            timestamp=(NOW - timedelta(hours=number // 4 * 20)).isoformat(),
        )
        for number in range(RUNS)
    ]


@pytest.fixture
async def post(empty_database_url: str) -> AsyncIterator[Post]:
    """Sends runs to a project of a service of the test's own."""
    app = create_app(settings_for(empty_database_url))
    async with app.test_app() as running:
        client = running.test_client()

        async def posted(project_id: str, *runs: dict[str, Any]) -> None:
            body = {"projectId": project_id, "runs": list(runs)}
            answer = await client.post("/api/ingest", json=body, headers={"Authorization": f"Bearer {INGEST_KEY}"})
            assert answer.status_code == 200, await answer.get_data(as_text=True)

        yield posted


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks end within runs of the same moment, and walks before their chunk is full."""
    monkeypatch.setattr(read, "CHUNK_RUNS", 7)
    monkeypatch.setattr(read, "CHUNK_STEPS", 11)


async def lines_of(database: Database, run_filter: RunFilter) -> list[dict[str, Any]]:
    file = b"".join([part async for part in export([ExportSource(Reader(database))], run_filter, NOW, Format.JSONL)])
    return [json.loads(line) for line in file.splitlines()]


FILTERS = {
    "everything": RunFilter(range=Period.ALL),
    "a week": RunFilter(range=Period.WEEK),
    "a model": RunFilter(range=Period.ALL, model="other"),
    "failed": RunFilter(range=Period.ALL, status=Outcome.FAILED),
    "metadata": RunFilter(range=Period.ALL, metadata_key="user"),
    "what no run has": RunFilter(range=Period.ALL, metadata_key="nothing"),
    "a time": RunFilter(since=NOW - timedelta(days=9), until=NOW - timedelta(days=2)),
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("project_id", ["p", None])
@pytest.mark.parametrize("name", FILTERS)
async def test_a_file_has_each_run_that_matches_once_and_the_newest_first(
    own: Database, post: Post, name: str, project_id: str | None
) -> None:
    for each in ("p", "q"):
        await post(each, *sent())
    run_filter = FILTERS[name].replace(project_id=project_id)

    found = await lines_of(own, run_filter)

    since, until = run_filter.starts_at(NOW), run_filter.until
    matching = [
        (run["timestamp"], run["runId"], project)
        for project in ([project_id] if project_id else ["p", "q"])
        for run in sent()
        if run_filter.model in {None, run["model"]}
        and (run_filter.status is None or run["status"] == "error")
        and (run_filter.metadata_key is None or run_filter.metadata_key in (run.get("metadata") or {}))
        and (since is None or run["timestamp"] >= since.isoformat())
        and (until is None or run["timestamp"] < until.isoformat())
    ]
    assert [(run["id"], run["project_id"]) for run in found] == [
        (id_, project) for _, id_, project in sorted(matching, reverse=True)
    ]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", FILTERS)
async def test_files_of_all_formats_have_the_same_runs(own: Database, post: Post, name: str) -> None:
    await post("p", *sent())
    run_filter = FILTERS[name]

    ids = [run["id"] for run in await lines_of(own, run_filter)]
    table = b"".join([part async for part in export([ExportSource(Reader(own))], run_filter, NOW, Format.CSV)]).decode()
    packed = b"".join([part async for part in export([ExportSource(Reader(own))], run_filter, NOW, Format.PARQUET)])

    assert [row["id"] for row in csv.DictReader(io.StringIO(table))] == ids
    assert read_parquet(io.BytesIO(packed)).read_all()["id"].to_pylist() == ids


async def test_a_file_has_every_column(own: Database, post: Post) -> None:
    await post("p", *sent())
    run_filter = RunFilter(project_id="p", range=Period.ALL)

    table = b"".join([part async for part in export([ExportSource(Reader(own))], run_filter, NOW, Format.CSV)])

    rows = list(csv.reader(io.StringIO(table.decode())))
    assert tuple(rows[0]) == StoredRun.__struct_fields__
    assert len(rows[0]) == len(RunColumns.model_fields)
    assert len(rows) == RUNS + 1


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("format_", Format)
async def test_who_reads_slowly_holds_nothing_in_the_database(
    own: Database, empty_database_url: str, post: Post, format_: Format
) -> None:
    await post("p", *sent())
    run_filter = RunFilter(project_id="p", range=Period.ALL)

    async with Database(empty_database_url, connections=1, sessions=0) as few:
        # More of them than there are connections, each in the middle of its file.
        files = [export([ExportSource(Reader(few))], run_filter, NOW, format_) for _ in range(3)]
        for file in files:
            await anext(file)
            await anext(file)
        # A connection that is just being given back may have a snapshot for a moment more.
        async with asyncio.timeout(60), own.connection() as connection:
            while await connection.fetchval(HOLDERS):  # noqa: ASYNC110  # Postgres sets no event.
                await asyncio.sleep(0.05)
        async with few.connection() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        for file in files:
            await file.aclose()


@pytest.mark.usefixtures("small_chunks")
async def test_a_run_that_changes_during_an_export_is_written_as_its_chunk_found_it(own: Database, post: Post) -> None:
    await post("p", *sent())
    run_filter = RunFilter(project_id="p", range=Period.ALL)

    file = export([ExportSource(Reader(own))], run_filter, NOW, Format.JSONL)
    begun = [await anext(file), await anext(file)]
    later = (NOW - timedelta(days=20)).isoformat()
    await post("p", make_run(runId="newer"), make_run(runId="older", timestamp=later))
    async with own.connection() as connection:
        await connection.execute("UPDATE runs SET error_code = 'changed'")
        await connection.execute("DELETE FROM runs WHERE id = 'run-020'")
    lines = [json.loads(line) for line in b"".join([*begun, *[part async for part in file]]).splitlines()]

    ids = [run["id"] for run in lines]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {f"run-{number:03}" for number in range(RUNS) if number != 20} | {"older"}
    assert [run.get("error_code") for run in (lines[0], lines[-2], lines[-1])] == [None, "changed", "changed"]
