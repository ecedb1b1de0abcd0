"""Every page for everybody: axe finds nothing, nothing has to be scrolled sideways, everything can be hit."""

from typing import Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import BASELINE, EXPERIMENT, LONG, PROJECT, SESSION, drawn, path_of
from tests.browser_fixtures import VIEWPORT, Complaints
from tests.serving import Server
from webapp.guides import NAMES
from webapp.pages.runs.views import COLUMNS

OPTIONS: dict[str, object] = {
    "resultTypes": ["violations"],
    # Pages have no media, and of styles only an experimental rule reads more than the browser applied.
    "preload": False,
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
PAGES = {
    "overview": "/",
    "project": path_of(LONG),
    "errors of a model": f"/projects/{PROJECT}?metric=errors&model=gpt-large&status=failed&range=30d",
    "time that cannot be shown": f"/projects/{PROJECT}?since=2026-11-02T00:00&until=2026-11-01T00:00",
    "costs": f"{path_of(LONG)}/costs",
    "what if at rest": f"/projects/{PROJECT}/costs",
    "what if": f"/projects/{PROJECT}/costs?provider=acme&model=acme-large",
    "overview narrowed": "/?model=gpt-large&sort=-name&q=browser",
    "groups as lines": f"/projects/{PROJECT}?by=provider&metric=errors",
    "breakdown": f"/breakdown?project={PROJECT}&sort=runs&names=grouped",
    "experiments": "/experiments",
    "experiment": f"/experiments/{PROJECT}/{EXPERIMENT}",
    "comparison": f"/experiments/compare?a={PROJECT}/{BASELINE}&b={PROJECT}/{EXPERIMENT}",
    "comparison to choose": "/experiments/compare",
    "runs": "/runs",
    "runs of a filter in all columns": (
        f"/runs?project={PROJECT}&status=failed&metadataKey=feature&metadataValue=triage&range=30d"
        + "".join(f"&column={column}" for column in COLUMNS)
    ),
    "runs that cannot be filtered": "/runs?minCost=much",
    "run": f"/projects/{PROJECT}/runs/run-0-3",
    "trace": f"{path_of(LONG)}/traces/trace-17",
    "sessions": f"{path_of(LONG)}/sessions",
    "session": f"{path_of(LONG)}/sessions/{SESSION}",
    "traces": f"{path_of(LONG)}/traces?sort=-duration",
    "errors of a project": f"/projects/{PROJECT}/errors?range=30d",
    "speed of a project": f"{path_of(LONG)}/speed?measure=rate",
    "cache of a project": f"{path_of(LONG)}/cache?by=feature&chart=tokens",
    "coding agents": f"/projects/{PROJECT}/agents",
    "budgets of a project": f"{path_of(LONG)}/budgets",
    "cost by line": f"/lines?project={PROJECT}&range=30d",
    "groups by user in a breakdown": f"/breakdown?project={PROJECT}&by=user",
    "runs compared": f"{path_of(LONG)}/compare?range=30d&a.model=gpt-large&b.since=2026-11-01T00:00&b.until=2026-11-08T00:00",
    "saved views": f"/projects/{PROJECT}/views?here=/projects/{PROJECT}",
    "sign in": "/sign-in",
    "invitation that does not work": "/join?token=none-such",
    "keys": f"{path_of(LONG)}/settings",
    "tracked keys": f"{path_of(LONG)}/settings/tracked-keys",
    "people's names": f"{path_of(LONG)}/settings/names",
    "alerts": f"{path_of(LONG)}/settings/alerts",
    "sharing": f"{path_of(LONG)}/settings/links",
    "general settings": f"{path_of(LONG)}/settings/general",
    "send runs": f"{path_of(LONG)}/send",
    "send runs of a project to choose": "/send",
    "send runs of a new project": "/projects/never-sent-to/send#agents",
    "prices": "/admin/prices?past=1&q=gpt-4o-mini",
    "price": "/admin/prices/1",
    "price form": "/admin/prices/1/follow",
    "price correction": "/admin/prices/1/correct",
    "new price": "/admin/prices/new",
    "prices to change together": "/admin/prices/bulk?q=gpt-4o&all=1",
    "unpriced models": "/admin/prices/unpriced",
    "discounts": "/admin/prices/discounts",
    "currency": "/admin/prices/currency",
    "price tester": "/admin/prices/tester?provider=acme&model=acme-large",
    "price catalogue": "/admin/prices/catalogue",
    "price catalogue once read": "/admin/prices/catalogue?read=1",
    "price file": "/admin/prices/file",
    "repricings": "/admin/prices/repricing",
    "bills": "/admin/bills",
    "erasures": "/admin/erasures",
    "teams": "/admin/teams",
    "budgets of all projects": "/admin/budgets",
    "users": "/admin/users",
    "audit log": "/admin/audit",
    "clients": "/admin/clients",
    "health": "/admin/health",
    "reference": "/docs#post_ingest",
    "guides": "/guides",
    **{f"guide {name}": f"/guides/{name}" for name in NAMES},
    "search": "/find?q=a",
    "not found": "/none-such",
}
NARROWEST: ViewportSize = {"width": 320, "height": 800}
# What another theme and another width can change; all else is the same document.
OF_LOOKS = OPTIONS | {
    "runOnly": {"type": "rule", "values": ["color-contrast", "scrollable-region-focusable", "target-size"]}
}
LOOKS: tuple[tuple[Literal["light", "dark"], ViewportSize, dict[str, object]], ...] = (
    ("light", VIEWPORT, OPTIONS),
    ("dark", NARROWEST, OF_LOOKS),
)
# Rows of a table come from one template: of hundreds the first ones are looked at.
REPEATED = ["tbody tr:nth-child(n + 13)"]
FIND = """([repeated, options]) => axe.run({ exclude: repeated.filter((one) => document.querySelector(one)) }, options)
  .then((found) => found.violations)"""
SMALLEST_TARGET = 32
TOO_SMALL_TO_HIT = """least => [...document.querySelectorAll("a:not(.skip), button, summary, input")]
  .filter((target) => target.checkVisibility({ checkVisibilityCSS: true }))
  .map((target) => ({
    text: target.outerHTML.slice(0, 200),
    height: (target.closest("label") ?? target).getBoundingClientRect().height,
  }))
  .filter((target) => target.height > 0 && target.height < least)
"""

OFF_THE_SCREEN = """() => [...document.querySelectorAll("details.menu")].map((menu) => {
  menu.open = true;
  const sheet = menu.querySelector(".menu-sheet").getBoundingClientRect();
  menu.open = false;
  return { menu: menu.id, left: sheet.left, right: sheet.right };
}).filter((sheet) => sheet.left < 0 || sheet.right > innerWidth)
"""


def _violations(page: Page) -> list[str]:
    """Light and wide, dark and narrow: colours do not depend on the width."""
    page.evaluate(AXE_SCRIPT)
    found = []
    for scheme, size, options in LOOKS:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size(size)
        for violation in page.evaluate(FIND, [REPEATED, options]):
            found += [f"{scheme} {size['width']} {violation['id']}: {node['html']}" for node in violation["nodes"]]
    return found


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_it(page: Page, story: Server, name: str, complaints: Complaints) -> None:
    complaints.expect("404", "422")
    page.goto(f"{story.url}{PAGES[name]}")
    if page.locator(".chart-plot").count():
        drawn(page)
    for summary in page.locator("#main-chart-table summary, #embed > summary").all():
        summary.click()

    assert _violations(page) == []
    assert page.evaluate(TOO_SMALL_TO_HIT, SMALLEST_TARGET) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") == NARROWEST["width"]
    assert page.evaluate(OFF_THE_SCREEN) == []


def test_axe_finds_nothing_in_an_empty_install(page: Page, never_used_server: Server) -> None:
    page.goto(never_used_server.url)
    expect(page.get_by_role("heading", name="No runs yet.")).to_be_visible()

    assert _violations(page) == []


def test_axe_finds_nothing_in_the_list_of_keys(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/sign-in")
    page.get_by_role("button", name="Keyboard shortcuts").click()

    assert _violations(page) == []
