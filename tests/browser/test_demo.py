"""The demo, loaded as a new user would, ends in a chart."""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import drawn
from tests.serving import Server


def test_the_demo_is_loaded_and_drawn(page: Page, dev_server: Server) -> None:
    program = str(Path(sys.executable).with_name("runtally"))
    command = [program, "demo", "--url", dev_server.url, "--key", dev_server.ingest_key]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # Our own command.

    page.goto(dev_server.url)
    drawn(page)
    page.get_by_role("link", name="support-agent").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("support-agent")
    drawn(page)
    expect(page.locator("#main-chart .key li")).not_to_have_count(0)
