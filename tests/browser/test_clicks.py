"""Each choice of every kind of page, clicked: it leads where its link says, to one page, and back."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import EXPERIMENT, PROJECT, SESSION
from tests.serving import Server

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
