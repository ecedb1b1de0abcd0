"""A Chromium whose pages may not break the Content-Security-Policy or log an error: a test that sees either fails."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Frame, Page, ViewportSize, expect

# The first is the same engine without the windows around it, and takes a fifth less CPU.
PROGRAMS = ("chromium-headless-shell", "chromium")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# What never comes is waited for that long; a busy machine is slow, not wrong.
PATIENCE_MS = 60_000
VIEWPORT: ViewportSize = {"width": 1440, "height": 900}
expect.set_options(timeout=PATIENCE_MS)
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`violation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""


@dataclass
class Complaints:
    """What went wrong inside the browser; a test that provokes something says how it reads."""

    seen: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    begun: bool = False

    def expect(self, *parts: str) -> None:
        self.expected += parts

    def unexpected(self) -> list[str]:
        return [text for text in self.seen if not any(part in text for part in self.expected)]

    @contextmanager
    def of(self, page: Page) -> Iterator[Page]:
        """Hears of every error and every violation in this tab, from the first page on that is opened in it."""
        page.once("framenavigated", self._begin)
        page.on("console", self._hear)
        page.on("pageerror", self._catch)
        yield page
        page.remove_listener("console", self._hear)
        page.remove_listener("pageerror", self._catch)

    def _begin(self, _frame: Frame) -> None:
        self.begun = True

    def _hear(self, message: ConsoleMessage) -> None:
        if self.begun and message.type in {"error", "warning"}:
            self.seen.append(f"{message.type}: {message.text}")

    def _catch(self, error: Error) -> None:
        if self.begun:
            self.seen.append(f"uncaught: {error}")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The system's Chromium; where there is none, tests that need it are skipped, and say so."""
    if CHROMIUM is None or not Path(CHROMIUM).exists():
        pytest.skip("NO BROWSER TESTS: apt-get install chromium-headless-shell, or set CHROMIUM to a Chromium's path")
    return {**browser_type_launch_args, "executable_path": CHROMIUM, "args": ARGUMENTS}


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Fails the test at its end, if there was one that it did not expect."""
    complaints = Complaints()
    yield complaints
    assert not complaints.unexpected()


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[Page]:
    """One for nearly all tests: what the pages share is fetched and compiled once."""
    with browser.new_context(viewport=VIEWPORT, timezone_id="UTC") as context:
        yield _open(context)


@pytest.fixture
def page(tab: Page, complaints: Complaints) -> Iterator[Page]:
    """The tab with nothing that the test before set. Its page stays: a blank one would cost a new process."""
    with complaints.of(tab):
        yield tab
        tab.emulate_media(color_scheme="null", reduced_motion="null")
    tab.unroute_all()
    tab.context.clear_cookies()
    tab.context.clear_permissions()
    if tab.viewport_size != VIEWPORT:
        tab.set_viewport_size(VIEWPORT)


@pytest.fixture
def first_visit(browser: Browser, complaints: Complaints) -> Iterator[Page]:
    """A tab of a browser that has never been here, and keeps nothing."""
    with browser.new_context(timezone_id="UTC") as context, complaints.of(_open(context)) as page:
        yield page


def _open(context: BrowserContext) -> Page:
    page = context.new_page()
    page.add_init_script(REPORT_VIOLATIONS)
    page.set_default_timeout(PATIENCE_MS)
    return page
