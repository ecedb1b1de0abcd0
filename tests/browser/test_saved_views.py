"""The menu of saved views: it opens, saves the page as it is now, and leads back to it."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import PROJECT
from tests.browser.test_accessibility import OPTIONS
from tests.serving import Server


def test_the_page_is_saved_as_it_was_narrowed_and_opened_from_another_page(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/projects/{PROJECT}")
    page.get_by_role("navigation", name="Range").get_by_role("link", name="30d").click()
    page.wait_for_url("**range=30d**")

    views = page.locator("#views")
    views.locator("summary").click()
    views.get_by_label("Save this page as").fill("A month")
    assert [violation["id"] for violation in Axe().run(page, options=OPTIONS).response["violations"]] == []
    views.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("status")).to_contain_text("View saved: A month.")
    assert page.url.endswith("range=30d")

    page.goto(f"{story.url}/runs?project={PROJECT}")
    views.locator("summary").click()
    views.get_by_role("link", name="A month").click()

    page.wait_for_url(f"{story.url}/projects/{PROJECT}?range=30d")


def test_on_a_phone_the_menu_is_on_the_screen(page: Page, story: Server) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{story.url}/projects/{PROJECT}")

    page.locator("#views > summary").click()

    name = page.locator("#views").get_by_label("Save this page as")
    expect(name).to_be_in_viewport(ratio=1)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
