"""What a browser has already is not sent again, and what has changed is."""

from dataclasses import replace
from datetime import timedelta

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.access.projects import rename
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.factories import make_run
from tests.pages.conftest import Post
from tests.stored import until_merged


@pytest.fixture
def stopped_clock(app: Quart, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages say until when they count, to the minute."""
    now = system_clock() + timedelta(minutes=1)
    monkeypatch.setitem(app.extensions, EXTENSION, replace(app.extensions[EXTENSION], clock=lambda: now))


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("pattern", ["/projects/{}", "/charts/cost.json?project={}", "/runs?project={}"])
async def test_an_unchanged_answer_is_304_until_a_run_comes(
    reader: Browser, post: Post, database: Database, project_id: str, pattern: str
) -> None:
    url = pattern.format(project_id)
    await post(make_run(costUSD=1))
    await until_merged(database)
    first = await reader.get(url)
    known = {"If-None-Match": first.headers["ETag"]}

    same = await reader.get(url, headers=known)
    await post(make_run(costUSD=2))
    changed = await reader.get(url, headers=known)

    assert (same.status_code, await same.get_data(as_text=False)) == (304, b"")
    assert same.headers["Cache-Control"] == "private, no-cache"
    assert changed.status_code == 200
    assert await changed.get_data(as_text=False) != await first.get_data(as_text=False)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("pattern", ["/projects/{}", "/charts/cost.json?project={}", "/"])
async def test_a_report_that_is_unchanged_is_not_made_again(  # noqa: PLR0913, PLR0917  # Fixtures.
    reader: Browser, post: Post, database: Database, project_id: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pattern.format(project_id)
    await post(make_run(costUSD=1))
    await until_merged(database)
    known = {"If-None-Match": (await reader.get(url)).headers["ETag"]}

    async def read(*_: object) -> None:
        raise AssertionError("what is known was read again")

    with monkeypatch.context() as patch:
        for name in ("project.report.project_report", "project.report.read_chart", "overview.overview._overview_page"):
            patch.setattr(f"webapp.pages.{name}", read)
        assert (await reader.get(url, headers=known)).status_code == 304
    reader.set_cookie("localhost", "theme", "dark")
    assert (await reader.get(url, headers=known)).status_code == 200


@pytest.mark.usefixtures("stopped_clock")
async def test_a_change_of_anything_else_is_seen_at_once(
    reader: Browser, post: Post, project_id: str, database: Database
) -> None:
    await post(make_run(costUSD=1))
    known = {"If-None-Match": (await reader.get(f"/projects/{project_id}")).headers["ETag"]}

    async with database.session() as session:
        await rename(session, OPERATOR, project_id, "Another name")
    renamed = await reader.get(f"/projects/{project_id}", headers=known)

    assert renamed.status_code == 200
    assert "Another name" in await renamed.get_data(as_text=True)


async def test_a_page_with_a_flash_has_no_tag(reader: Browser) -> None:
    reader.set_cookie("localhost", "flash", "Saved.")

    assert "ETag" not in (await reader.get("/sign-in")).headers
