"""From an empty install to the first chart."""

import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import drawn
from tests.serving import Server

CLIENT = Path(__file__).parents[2] / "clients" / "python" / "src"


def test_the_command_works_as_pasted_and_the_page_sees_the_run(page: Page, empty_server: Server) -> None:
    page.goto(empty_server.url)
    expect(page.get_by_role("heading", name="No runs yet.")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy command").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    command = page.evaluate("() => navigator.clipboard.readText()")

    subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True)  # noqa: S603  # As a reader would.

    expect(page.get_by_role("heading", name="All projects")).to_be_visible()
    expect(page.get_by_role("link", name="my-project")).to_be_visible()
    expect(page.locator("#kpi-runs .kpi-value")).to_have_text("1")
    drawn(page)
    assert page.locator("[hx-trigger^=every]").count() == 0


def test_a_key_that_is_made_on_the_way_is_in_the_program_that_was_open(page: Page, empty_server: Server) -> None:
    page.goto(empty_server.url)
    page.get_by_role("link", name="Create a key").click()
    ways = page.get_by_role("navigation", name="Ways to send runs")
    ways.get_by_role("link", name="Python").click()
    # The script that stays with a program loads after the page.
    expect(ways.get_by_role("link", name="Python")).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#new-key")).to_be_focused()
    expect(ways.get_by_role("link", name="Python")).to_have_attribute("aria-current", "true")
    expect(page.get_by_text("Waiting for the first run.")).to_be_visible()
    program = page.locator("#snippet-python").inner_text()

    with_client = os.environ | {"PYTHONPATH": str(CLIENT)}
    subprocess.run([sys.executable, "-c", program], env=with_client, check=True, capture_output=True)  # noqa: S603  # As a reader would.

    expect(page.get_by_text("First run received")).to_be_visible()
    assert page.locator("[hx-trigger^=every]").count() == 0


def test_without_javascript_the_page_asks_to_be_looked_at_again(browser: Browser, never_used_server: Server) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    for path in ("/", "/projects/my-project/send"):
        page.goto(f"{never_used_server.url}{path}")
        expect(page.get_by_text("This page updates")).to_be_hidden()
        page.get_by_role("link", name="Look again").click()
        expect(page).to_have_url(f"{never_used_server.url}{path}")
