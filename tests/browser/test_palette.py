"""The command palette: keys open it, what is typed finds, Enter goes there."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PROJECT
from tests.serving import Server


def test_a_project_is_reached_by_keys_alone(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/admin/health")
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Search")).to_be_visible()
    page.keyboard.type(PROJECT)
    expect(page.locator("#find a").first).to_contain_text(PROJECT)

    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(rf"/projects/{PROJECT}$"))


def test_it_closes_by_escape_and_the_page_is_as_before(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/runs")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-field")).to_be_focused()

    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog", name="Search")).to_be_hidden()
    expect(page).to_have_url(f"{story.url}/runs")


def test_an_action_is_done_where_one_is(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/runs")
    before = page.locator("#theme").get_attribute("data-theme-now")
    page.keyboard.press("/")
    page.keyboard.type("theme")
    expect(page.locator("#find a").first).to_contain_text("Change the theme")

    page.keyboard.press("Enter")

    expect(page.locator("#theme")).not_to_have_attribute("data-theme-now", before or "")
    expect(page).to_have_url(f"{story.url}/runs")


def test_j_and_k_go_through_the_runs(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/runs")
    rows = page.locator(".runs tbody th a")

    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(rows.nth(0)).to_be_focused()
