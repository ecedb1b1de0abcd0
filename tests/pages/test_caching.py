"""What a browser has already is not sent again, and what has changed is."""

from dataclasses import replace
from datetime import timedelta

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.clock import system_clock
from tests.factories import make_run
from tests.pages.conftest import Post


@pytest.fixture
def stopped_clock(app: Quart, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages say until when they count, to the minute."""
    now = system_clock() + timedelta(minutes=1)
    monkeypatch.setitem(app.extensions, EXTENSION, replace(app.extensions[EXTENSION], clock=lambda: now))


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("pattern", ["/projects/{}", "/charts/cost.json?project={}", "/runs?project={}"])
async def test_an_unchanged_answer_is_304_until_a_run_comes(
    reader: Browser, post: Post, project_id: str, pattern: str
) -> None:
    url = pattern.format(project_id)
    await post(make_run(costUSD=1))
    first = await reader.get(url)
    known = {"If-None-Match": first.headers["ETag"]}

    same = await reader.get(url, headers=known)
    await post(make_run(costUSD=2))
    changed = await reader.get(url, headers=known)

    assert (same.status_code, await same.get_data(as_text=False)) == (304, b"")
    assert same.headers["Cache-Control"] == "private, no-cache"
    assert changed.status_code == 200
    assert await changed.get_data(as_text=False) != await first.get_data(as_text=False)


async def test_a_page_that_says_something_once_has_no_tag(reader: Browser) -> None:
    reader.set_cookie("localhost", "said", "Saved.")

    assert "ETag" not in (await reader.get("/sign-in")).headers
