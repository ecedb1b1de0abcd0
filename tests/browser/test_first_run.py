"""From an empty install to the first chart."""

import subprocess

from playwright.sync_api import Page, expect

from tests.browser.conftest import drawn
from tests.serving import Server


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
    assert page.locator("[hx-trigger]").count() == 0
