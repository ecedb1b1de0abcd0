"""Each choice of every kind of page, clicked: it leads where its link says, to one page, and back."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import EXPERIMENT, PROJECT, SESSION, drawn
from tests.serving import Server

# Looked at whenever the page changed and before it is painted: whether the drawing of one key stands under another.
WATCH_THE_KEY = """() => {
  const state = () => [...document.querySelectorAll("#main-chart .key-name")].map(one => one.textContent).join();
  const [key, drawing] = [state(), document.querySelector("#main-chart-plot").firstElementChild];
  window.mixed = 0;
  window.seenKeys = new Set();
  const look = () => {
    window.seenKeys.add(state());
    if (drawing.isConnected && state() !== key) window.mixed += 1;
    requestAnimationFrame(look);
  };
  look();
}"""
CHOICES = "nav.segmented a[href]"
PLACES = {
    "overview": "/",
    "project": f"/projects/{PROJECT}",
    "breakdown": f"/breakdown?project={PROJECT}",
    "runs": "/runs",
    "sessions": f"/projects/{PROJECT}/sessions",
    "session": f"/projects/{PROJECT}/sessions/{SESSION}",
    "errors": f"/projects/{PROJECT}/errors",
    "speed": f"/projects/{PROJECT}/speed",
    "cache": f"/projects/{PROJECT}/cache",
    "coding agents": f"/projects/{PROJECT}/agents",
    "comparison": f"/experiments/compare?a={PROJECT}/{EXPERIMENT}&b={PROJECT}/{EXPERIMENT}",
    "settings": f"/projects/{PROJECT}/settings",
}
WITHOUT_CHOICES = {"session"}


@pytest.mark.parametrize("kind", PLACES)
def test_each_choice_leads_where_its_link_says_and_back(page: Page, story: Server, kind: str) -> None:
    address = f"{story.url}{PLACES[kind]}"
    page.goto(address)
    choices = page.locator(CHOICES).evaluate_all("links => links.map(link => [link.id, link.href])")

    assert bool(choices) is (kind not in WITHOUT_CHOICES)
    for name, href in choices:
        page.goto(address)
        page.locator(f'[id="{name}"]').click()
        expect(page).to_have_url(href)
        expect(page.locator(f'[id="{name}"]')).to_have_attribute("aria-current", "true")
        expect(page.locator("h1")).to_have_count(1)
        if href != address:
            page.go_back()
            expect(page).to_have_url(address)
            expect(page.locator("h1")).to_have_count(1)


@pytest.mark.parametrize("is_touched", [False, True], ids=["as-served", "as-drawn-by-the-script"])
def test_no_bars_of_one_grouping_stand_under_the_key_of_another(page: Page, story: Server, *, is_touched: bool) -> None:
    page.goto(f"{story.url}/projects/{PROJECT}")
    if is_touched:
        drawn(page)
    page.evaluate(WATCH_THE_KEY)

    page.locator("summary", has_text="Group by").click()
    page.get_by_role("link", name="Provider", exact=True).click()
    expect(page).to_have_url(re.compile(r"\bby=provider\b"))
    expect(page.locator("#main-chart-plot")).to_have_attribute("data-ready", "")

    assert page.evaluate("seenKeys.size") == 2
    assert page.evaluate("mixed") == 0
