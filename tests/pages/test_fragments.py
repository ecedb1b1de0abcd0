"""One URL, two forms: the page, and its main part for htmx."""

import re

import pytest
from quart.typing import TestClientProtocol as Browser

from tests.pages.conftest import Post
from tests.pages.looking import PARTIAL, Outline, html_of, part_of


@pytest.fixture(
    params=[
        "/",
        "/projects/{}",
        "/projects/{}/settings",
        "/projects/{}/send",
        "/admin/audit",
        "/sign-in",
        "/projects/{}?range=30d&metric=errors&by=provider",
    ]
)
async def url(request: pytest.FixtureRequest, post: Post, project_id: str) -> str:
    await post()
    pattern: str = request.param
    return pattern.format(project_id)


def lasting(html: str) -> str:
    """Without white space, without the time since runs, and without pictures for pages whose script is not there."""
    return re.sub(r'<divclass="paint".*?</svg></div>', "", re.sub(r"just now|\d+ (?:s|min|h) ago|\s", "", html))


async def test_htmx_gets_one_element_and_the_title(reader: Browser, url: str) -> None:
    part = await part_of(reader, url)

    roots = Outline(part).roots
    assert roots[0][0] == "title"
    assert len(roots) == 2
    assert roots[1][1]["id"]


async def test_the_page_holds_the_very_same_part(reader: Browser, url: str) -> None:
    # A minute may begin between two answers, and pages say when they were made.
    before, part, after = await html_of(reader, url), await part_of(reader, url), await html_of(reader, url)

    title, _, body = part.partition("\n")
    assert title in before
    assert lasting(body) in lasting(before) or lasting(body) in lasting(after)


async def test_a_request_that_restores_history_gets_the_whole_page(reader: Browser, url: str) -> None:
    restored = await html_of(reader, url, headers=PARTIAL | {"HX-History-Restore-Request": "true"})

    assert Outline(restored.removeprefix("<!DOCTYPE html>")).roots[0][0] == "html"


async def test_a_request_for_a_full_page_gets_the_whole_page(reader: Browser, url: str) -> None:
    full = await html_of(reader, url, headers={"HX-Request": "true", "HX-Request-Type": "full"})

    assert "<body" in full


async def test_caches_tell_page_and_fragment_apart_by_vary(reader: Browser, url: str) -> None:
    page = await reader.get(url)
    part = await reader.get(url, headers=PARTIAL)

    for response in (page, part):
        assert {"HX-Request", "HX-Request-Type", "Cookie", "Accept-Encoding"} <= set(response.vary)
        assert response.headers["Cache-Control"] == "private, no-cache"


async def test_no_page_has_script_or_style_of_its_own(reader: Browser, url: str) -> None:
    outline = Outline(await html_of(reader, url))

    # A block of data is no script: nothing of it is run.
    assert all(script.get("src") or script["type"] == "application/json" for script in outline.all("script"))
    assert not outline.all("style")
    for _, attributes in outline.elements:
        assert not [name for name in attributes if name == "style" or name.startswith(("on", "hx-on"))]


async def test_every_page_has_head_and_body_one_main_heading_and_ids_that_are_unique(reader: Browser, url: str) -> None:
    html = await html_of(reader, url)

    assert html.startswith("<!DOCTYPE html>\n<html lang=")
    outline = Outline(html)
    for tag in ("html", "head", "body", "main", "h1", "title"):
        assert len(outline.all(tag)) == 1, tag
    assert len(outline.ids()) == len(set(outline.ids()))
    assert outline.all("a")[0] == {"class": "skip", "href": "#main"}
