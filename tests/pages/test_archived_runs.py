"""Runs of the archive on pages, in files and in answers of the API; and what is said where they cannot be read."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.archive import reading
from runtally.db.database import Database
from runtally.extras import Extra
from runtally.ingest.queries import insert_runs
from tests.archives import NOW, OLD_RUNS, archive_at, made, retain, runs_of
from tests.pages.looking import html_of, text_of
from tests.serving import Postgres, settings_for
from webapp.app import create_app

QUERY = "project=one&range=all&since=2026-03-05T00:00&until=2026-03-07T00:00"


@pytest.fixture
async def archived(
    postgres: Postgres, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Quart]:
    """An application with an archive of March and April."""
    monkeypatch.setattr(reading, "SECONDS", 600.0)
    postgres.stop_clock(empty_database_url, NOW)
    traced = made("one", 4, 3)
    traced.trace_id = "trace-of-march"
    async with Database(empty_database_url) as database:
        async with database.connection() as connection:
            await insert_runs(connection, [*runs_of("one"), traced], queued=False)
        archive = archive_at(database, str(tmp_path / "archive"))
        assert await retain(database, archive) == {"one": OLD_RUNS + 1}
    settings = settings_for(empty_database_url, archive_url=str(tmp_path / "archive"), service_dev_mode=True)
    async with create_app(settings).test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture
def reader(archived: Quart) -> Browser:
    return archived.test_client()


async def test_archived_runs_are_in_the_list_with_their_total_and_each_has_its_page(reader: Browser) -> None:
    page = await html_of(reader, f"/runs?{QUERY}")

    assert "7 runs" in page
    assert "were deleted" not in page
    assert "/projects/one/runs/4-0?archived=2026-03-05T00:00:00.000004" in page
    run = await html_of(reader, "/projects/one/runs/4-3?archived=2026-03-05T21:00:00.000004")
    assert "the archive" in run
    assert "/projects/one/traces/trace-of-march?archived=2026-03-05T21:00:00.000004" in run
    trace = await html_of(reader, "/projects/one/traces/trace-of-march?archived=2026-03-05T21:00:00.000004")
    assert "/projects/one/runs/4-3?archived=" in trace
    assert (await reader.get("/projects/one/runs/4-0")).status_code == 200
    assert (await reader.get("/projects/one/runs/4-0?archived=mistaken")).status_code == 200


async def test_the_settings_say_that_old_runs_are_archived_and_not_deleted(reader: Browser) -> None:
    page = await html_of(reader, "/projects/one/settings/general")

    assert "Older runs are moved into the archive" in page
    assert "Runs before 1 May 2026 are no longer in the database." in page
    assert "Lists, exports and breakdowns still include them. Experiments do not." in page


async def test_pages_that_leave_archived_runs_out_say_where_they_are(reader: Browser) -> None:
    overview = text_of(await html_of(reader, "/projects/one?since=2026-03-05T00:00&until=2026-03-07T00:00"))
    sessions = text_of(
        await html_of(reader, "/projects/one/sessions?since=2026-03-05T00:00&until=2026-06-07T00:00&range=custom")
    )

    assert "Runs before 1 May 2026 are no longer in the database." in overview
    assert "Totals by model and provider, Runs and the breakdown still include them" in overview
    assert "Runs before 1 May 2026 are no longer in the database. This list leaves them out" in sessions
    assert "were deleted" not in overview + sessions


async def test_files_and_groups_have_archived_runs(reader: Browser) -> None:
    lines = await reader.get(f"/runs/export.jsonl?{QUERY}")
    answer = await reader.get(
        "/api/usage?projectId=one&start=2026-03-05T00:00:00Z&end=2026-03-07T00:00:00Z&groupBy=errorCode"
    )

    assert (await lines.get_data(as_text=True)).count("\n") == 7
    totals = (await answer.get_json())["totals"]
    assert [(one["group"]["errorCode"], one["runs"]) for one in totals] == [('a "quoted", \\ code', 4), (None, 3)]


async def test_a_damaged_file_is_named_in_place_of_a_total(reader: Browser, tmp_path: Path) -> None:
    for path in (tmp_path / "archive").rglob("*2026-03/*.parquet"):
        path.unlink()

    page = await html_of(reader, f"/runs?{QUERY}")
    assert "No total: archived runs can" in page
    assert "runs/project=one/month=2026-03/" in page
    for address in ("/projects/one/runs/4-0", f"/runs/export.csv?{QUERY}"):
        answer = await reader.get(address)
        assert answer.status_code == 503
        assert "month=2026-03/" in await answer.get_data(as_text=True)
    usage = await reader.get(
        "/api/usage?projectId=one&start=2026-03-05T00:00:00Z&end=2026-03-07T00:00:00Z&groupBy=errorCode"
    )
    assert (usage.status_code, (await usage.get_json())["error"]["code"]) == (503, "archive_not_read")
    breakdown = await html_of(
        reader, "/breakdown?project=one&by=errorCode&range=custom&since=2026-03-05T00:00&until=2026-03-07T00:00"
    )
    assert "runs/project=one/month=2026-03/" in breakdown
    assert "Open Settings, Tracked keys" not in breakdown


async def test_without_the_extra_pages_say_how_to_install_it(reader: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Extra, "is_installed", False)

    page = await html_of(reader, f"/runs?{QUERY}")

    assert "Reading archived runs needs the extra `archive`" in page
    assert "runs-problem" not in await html_of(reader, "/runs?project=one")


async def test_figures_that_only_runs_in_the_database_have_are_not_shown_for_archived_ones(reader: Browser) -> None:
    address = "/projects/one/agents?range=custom&until=2026-06-10T00:00&since="
    complete = text_of(await html_of(reader, f"{address}2026-05-20T00:00"))
    with_archived = text_of(await html_of(reader, f"{address}2026-04-20T00:00"))

    assert "Reported cost $" in complete
    assert "Failed 429 5xx" in complete
    assert "Runs 63 Sessions" in complete
    assert "Runs 153 Sessions" in with_archived
    assert "Reported cost" not in with_archived
    assert "429" not in with_archived
