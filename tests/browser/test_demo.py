"""The demo, loaded as a new user would, ends in a chart."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import drawn
from tests.commands import run
from tests.serving import Server


def test_the_demo_is_loaded_and_drawn(page: Page, dev_server: Server) -> None:
    loaded = run("demo", "--url", dev_server.url, "--key", dev_server.ingest_key, "--days", "7", environment={})
    assert loaded.code == 0, loaded.err

    page.goto(dev_server.url)
    drawn(page)
    page.get_by_role("link", name="support-agent").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("support-agent")
    drawn(page)
    expect(page.locator("#main-chart .key li")).not_to_have_count(0)

    # Its names and amounts are as long as real ones.
    page.set_viewport_size({"width": 320, "height": 800})
    page.goto(f"{dev_server.url}/projects/code-review-bot/costs")
    expect(page.get_by_role("heading", name="If all runs had used one model")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 320
