"""Everything that can be clicked on every kind of page, as somebody who signed in: it leads where it says, to one page, and back."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Response, expect
from werkzeug.exceptions import HTTPException

from runtally.clock import system_clock
from tests.browser.conftest import PROJECT, drawn, post
from tests.browser.test_people import join, link_for
from tests.browser_fixtures import Complaints
from tests.factories import make_run
from tests.routes import APP
from tests.serving import Postgres, Server, running_server

SHOP = "shop"
PLACES = {
    "overview": "/",
    "project": "/projects/shop",
    "breakdown": "/breakdown?project=shop",
    "lines": "/lines?project=shop",
    "runs": "/runs",
    "run": "/projects/shop/runs/run-1",
    "trace": "/projects/shop/traces/trace-1",
    "sessions": "/projects/shop/sessions",
    "traces": "/projects/shop/traces",
    "session": "/projects/shop/sessions/session-1",
    "errors": "/projects/shop/errors",
    "speed": "/projects/shop/speed",
    "cache": "/projects/shop/cache",
    "compare": "/projects/shop/compare",
    "coding agents": "/projects/shop/agents",
    "budgets": "/projects/shop/budgets",
    "what if": "/projects/shop/costs",
    "saved views": "/projects/shop/views",
    "send runs": "/projects/shop/send",
    "experiments": "/experiments",
    "experiment": "/experiments/shop/v2",
    "comparison": "/experiments/compare?a=shop/v1&b=shop/v2",
    "keys": "/projects/shop/settings",
    "general": "/projects/shop/settings/general",
    "sharing": "/projects/shop/settings/links",
    "alerts": "/projects/shop/settings/alerts",
    "people's names": "/projects/shop/settings/names",
    "tracked keys": "/projects/shop/settings/tracked-keys",
    "prices": "/admin/prices",
    "price": "/admin/prices/1",
    "correction": "/admin/prices/1/correct",
    "several prices": "/admin/prices/bulk",
    "price tester": "/admin/prices/tester",
    "discounts": "/admin/prices/discounts",
    "currency": "/admin/prices/currency",
    "repricing": "/admin/prices/repricing",
    "price file": "/admin/prices/file",
    "users": "/admin/users",
    "bills": "/admin/bills",
    "erasures": "/admin/erasures",
    "organisation budgets": "/admin/budgets",
    "teams": "/admin/teams",
    "team": "/admin/teams/search",
    "budgets of a team": "/admin/teams/search/budgets",
    "audit": "/admin/audit",
    "clients": "/admin/clients",
    "health": "/admin/health",
    "account": "/account",
    "guides": "/guides",
    "reference": "/docs",
    "search": "/find?q=shop",
}
# What ends the session that clicks, or leaves the service.
LEFT_ALONE = {"/sign-out", "/account/sign-out"}

# Looked at whenever the page changed and before it is painted: whether the drawing of one key stands under another.
WATCH_THE_KEY = """() => {
  const state = () => [...document.querySelectorAll("#main-chart .key-name")].map(one => one.textContent).join();
  const [key, drawing] = [state(), document.querySelector("#main-chart-plot").firstElementChild];
  window.mixed = 0;
  window.seenKeys = new Set();
  const look = () => {
    window.seenKeys.add(state());
    if (drawing.isConnected && state() !== key) window.mixed += 1;
    requestAnimationFrame(look);
  };
  look();
}"""
# What is folded away is opened first, since a click does not reach it.
MARK = """() => {
  for (const one of document.querySelectorAll("main details:not(.menu)")) one.open = true;
  const place = (one) => {
    const around = one.closest("[aria-label], [id]:not(a):not(button)");
    return around ? (around.getAttribute("aria-label") ?? around.id) : "";
  };
  return [...document.querySelectorAll("a[href], button")].map((one) => ({
    tag: one.localName,
    href: one.href ?? "",
    place: place(one),
    text: one.localName === "a" ? "" : one.textContent.trim().slice(0, 24),
    asks: one.hasAttribute("hx-get"),
    stays: one.hasAttribute("hx-get") && one.getAttribute("hx-get") !== one.getAttribute("href"),
    downloads: one.hasAttribute("download"),
    type: one.type ?? "",
    action: one.form?.action ?? "",
    method: one.form?.method ?? "",
    clickable: !one.disabled && (one.form?.checkValidity() ?? true),
  }));
}"""
IS_STILL = "() => !document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')"
SOON = 10_000
# Whatever is clicked is found anew, since the page may have been swapped or restored.
FOUND = """
  for (const one of document.querySelectorAll("main details:not(.menu)")) one.open = true;
  const same = (one) => one.localName === item.tag && (one.href ?? "") === item.href && (one.type ?? "") === item.type
    && (one.form?.action ?? "") === item.action && (item.tag === "a" || one.textContent.trim().startsWith(item.text));
  const found = [...document.querySelectorAll("a[href], button")].find(same);
"""
FIND = f"(item) => {{ {FOUND} return found !== undefined; }}"
CLICK = f"(item) => {{ {FOUND} found?.click(); return found !== undefined; }}"
# Each disclosure, twice; those that did not answer.
FOLD = """async () => {
  const stuck = [];
  for (const one of document.querySelectorAll("summary")) {
    for (const _ of [1, 2]) {
      const before = one.parentElement.open;
      one.click();
      await new Promise(requestAnimationFrame);
      if (one.isConnected && one.parentElement.open === before) stuck.push(one.textContent.trim());
    }
  }
  return stuck;
}"""


@dataclass
class Walk:
    """What was clicked already, so that what all pages have is clicked once, and what was answered wrongly."""

    page: Page
    url: str
    seen: set[tuple[object, ...]] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)

    def hear(self, response: Response) -> None:
        if response.status >= 400 and response.status != 422 and response.url.startswith(self.url):
            self.failed.append(f"{response.status} {response.request.method} {response.url}")

    def is_new(self, *what: object) -> bool:
        is_new = what not in self.seen
        self.seen.add(what)
        return is_new


@pytest.fixture(scope="module")
def installed(postgres: Postgres) -> Iterator[Server]:
    """An installation as it comes, with something of everything that pages show."""
    with running_server(postgres.create_seeded("clicks")) as server:
        now = system_clock()
        runs = [
            make_run(
                runId=f"run-{number}",
                traceId=f"trace-{number // 3}",
                sessionId=f"session-{number // 6}",
                userId=f"user-{number % 3}",
                provider=("anthropic", "openai")[number % 2],
                model=("claude-sonnet-4-5", "gpt-4o")[number % 2],
                metadata={"feature": ("search", "chat")[number % 2]},
                experimentId=("v1", "v2")[number % 2],
                status="error" if number % 9 == 0 else "success",
                timestamp=(now - timedelta(hours=3 * number)).isoformat(),
            )
            for number in range(60)
        ]
        post(server, SHOP, *runs)
        yield server


@pytest.fixture(scope="module")
def walk(browser: Browser, installed: Server) -> Iterator[Walk]:
    """Somebody who joined by a link, and has set up what can be removed again."""
    with browser.new_context(timezone_id="UTC", permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.set_default_timeout(20_000)
        join(page, link_for(installed, "ada@example.com"), "Ada")
        settings = f"{installed.url}/projects/{SHOP}/settings"
        forms: list[tuple[str, dict[str, str | float | bool]]] = [
            ("/links", {"name": "finance"}),
            ("/keys", {"name": "production", "scopes": "runs:write"}),
            ("/budgets", {"amount": "40", "alerts": "80"}),
            ("/budgets", {"dimension": "model", "value": "", "amount": "5", "period": "day", "alerts": "80"}),
            ("/names", {"key": "customer", "storage": "hashed"}),
            ("/alerts/new", {"address": "https://ops.example.invalid/hook", "untested": "1"}),
        ]
        for path, form in forms:
            assert page.request.post(f"{settings}{path}", form=form).ok, path
        views = f"{installed.url}/projects/{SHOP}/views"
        assert page.request.post(views, form={"name": "Week", "here": f"/projects/{SHOP}?range=7d"}).ok
        teams = f"{installed.url}/admin/teams"
        assert page.request.post(teams, form={"team": "search", "name": "Search & Ads"}).ok
        walk = Walk(page, installed.url)
        page.on("response", walk.hear)
        yield walk


@pytest.mark.parametrize("kind", PLACES)
def test_everything_on_a_page_leads_where_it_says_and_back(walk: Walk, complaints: Complaints, kind: str) -> None:
    complaints.expect("422")
    address, page = f"{walk.url}{PLACES[kind]}", walk.page
    walk.failed.clear()
    with complaints.of(page):
        page.goto(address)
        expect(page.locator("h1")).to_have_count(1, timeout=SOON)
        items = page.evaluate(MARK)
        for item in items:
            if item["tag"] == "a" and is_ours(item, walk.url):
                follow(walk, item, address)
        assert page.evaluate(FOLD) == []
        for item in items:
            if item["tag"] == "button" and item["clickable"]:
                press(walk, item, address)
        expect(page.locator("h1")).to_have_count(1, timeout=SOON)

    assert walk.failed == []


def is_ours(item: dict[str, str], url: str) -> bool:
    return item["href"].startswith(f"{url}/") and "#" not in item["href"] and not item["downloads"]


def follow(walk: Walk, item: dict[str, str], address: str) -> None:
    """A link that asks for a part of the page is clicked; that the browser follows others is known, so these are asked for."""
    page, href = walk.page, item["href"]
    parts = urlsplit(href)
    target = route_of(parts.path), tuple(sorted({name for name, _ in parse_qsl(parts.query)}))
    if not item["asks"]:
        if walk.is_new(target):
            answer = page.request.get(href)
            assert answer.status == 200, href
            assert "html" not in answer.headers["content-type"] or len(re.findall("<h1", answer.text())) == 1, href
        return
    if href == address or not walk.is_new("asks", item["place"], *target):
        return
    assert page.evaluate(CLICK, item), href
    if item["stays"]:
        # It edits in place what the page of its address would.
        page.wait_for_function(IS_STILL)
        expect(page.locator("h1")).to_have_count(1, timeout=SOON)
        expect(page).to_have_url(address, timeout=SOON)
        return
    expect(page).to_have_url(href, timeout=SOON)
    page.wait_for_function(IS_STILL)
    expect(page.locator("h1")).to_have_count(1, timeout=SOON)
    expect(page.locator("main")).to_have_count(1, timeout=SOON)
    # The address comes before the page: what is replaced is marked.
    page.evaluate("document.querySelector('h1').dataset.left = ''")
    page.go_back()
    expect(page).to_have_url(address, timeout=SOON)
    expect(page.locator("[data-left]")).to_have_count(0, timeout=SOON)
    expect(page.locator("h1")).to_have_count(1, timeout=SOON)
    page.wait_for_function(IS_STILL)


def press(walk: Walk, item: dict[str, str], address: str) -> None:
    page, path = walk.page, urlsplit(item["action"]).path
    if path in LEFT_ALONE or not walk.is_new(
        item["type"], route_of(path), item["text"], item["place"] if not path else ""
    ):
        return
    if page.url != address:
        page.goto(address)
    if item["type"] != "submit" or item["method"] == "dialog":
        page.evaluate(CLICK, item)
        page.keyboard.press("Escape")
        return
    if not page.evaluate(FIND, item):
        # It went with what another button removed.
        return
    with page.expect_response(lambda one: one.request.resource_type in {"document", "fetch", "xhr"}):
        page.evaluate(CLICK, item)
    page.wait_for_load_state()
    expect(page.locator("h1")).to_have_count(1, timeout=SOON)
    # What a form shows once, and what it changed, is on the page that it leads to.
    page.goto(address)


def route_of(path: str) -> str:
    """The pattern of the route at a path, of whatever method."""
    for method in ("GET", "POST"):
        try:
            rule, _ = APP.url_map.bind("").match(path, method, return_rule=True)
        except HTTPException:
            continue
        return str(rule.rule)
    return path


@pytest.mark.parametrize("is_touched", [False, True], ids=["as-served", "as-drawn-by-the-script"])
def test_no_bars_of_one_grouping_stand_under_the_key_of_another(page: Page, story: Server, *, is_touched: bool) -> None:
    page.goto(f"{story.url}/projects/{PROJECT}")
    if is_touched:
        drawn(page)
    page.evaluate(WATCH_THE_KEY)

    page.locator("summary", has_text="Group by").click()
    page.get_by_role("link", name="Provider", exact=True).click()
    expect(page).to_have_url(re.compile(r"\bby=provider\b"))
    expect(page.locator("summary", has_text="Group by")).to_be_focused()
    expect(page.locator("#main-chart-plot")).to_have_attribute("data-ready", "")

    assert page.evaluate("seenKeys.size") == 2
    assert page.evaluate("mixed") == 0
