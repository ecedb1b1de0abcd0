"""A Chromium whose pages may not break the Content-Security-Policy or log an error: a test that sees either fails."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
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
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""


@dataclass
class Complaints:
    """What went wrong inside the browser; a test that provokes something says how it reads."""

    seen: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def expect(self, *parts: str) -> None:
        self.expected += parts

    def unexpected(self) -> list[str]:
        return [text for text in self.seen if not any(part in text for part in self.expected)]

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.seen.append(f"{message.type}: {message.text}")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The system's Chromium; where there is none, tests that need it are skipped, and say so."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"NO BROWSER TESTS: there is no {CHROMIUM}; apt-get install chromium, or set CHROMIUM")
    return {**browser_type_launch_args, "executable_path": CHROMIUM, "args": ARGUMENTS}


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Fails the test at its end, if there was one that it did not expect."""
    complaints = Complaints()
    yield complaints
    assert not complaints.unexpected()


@pytest.fixture
def page(context: BrowserContext, complaints: Complaints) -> Iterator[Page]:
    """A tab that tells of every error and every violation."""
    page = context.new_page()
    page.expose_function("reportViolation", lambda text: complaints.seen.append(f"violation: {text}"))
    page.add_init_script(REPORT_VIOLATIONS)
    page.on("console", complaints.hear)
    page.on("pageerror", lambda error: complaints.seen.append(f"uncaught: {error}"))
    page.set_default_timeout(PATIENCE_MS)
    yield page
    page.close()
