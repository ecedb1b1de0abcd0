"""Takes screenshots of a running server that has the demo.

    runtally demo
    python scripts/shots.py --key "$(runtally keys create --scope admin --quiet)"
    python scripts/shots.py runs run --theme dark --width 390
    python scripts/shots.py --readme

Takes every page in both themes and both widths, or the pages that are named, and writes them to `shots`, which git ignores;
`--readme` takes those of the README. Complains about pages that have to be scrolled sideways, answer with an error or write
to the browser's console. Needs Chromium and the test dependencies. Without a key the server must be in dev mode.
"""

import argparse
import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, Response, ViewportSize, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
README_TARGET = ROOT / "docs" / "shots"
README_PAGES = {
    "overview.png": "/?range=30d",
    "project.png": "/projects/support-agent",
}
README_SIZE: ViewportSize = {"width": 1280, "height": 860}
PROJECT = "/projects/support-agent"
PAGES = {
    "overview": "/",
    "overview-30d": "/?range=30d",
    "overview-errors": "/?metric=errors",
    "project": PROJECT,
    "project-30d": f"{PROJECT}?range=30d",
    "project-latency": f"{PROJECT}?metric=latency",
    "project-failed": f"{PROJECT}?status=error",
    "project-by-feature": f"{PROJECT}?by=metadata.feature&range=30d",
    "project-p95-by-user": f"{PROJECT}?by=user&metric=latency&range=30d",
    "sessions": f"{PROJECT}/sessions",
    "traces": f"{PROJECT}/traces?sort=failed",
    "errors": f"{PROJECT}/errors?range=30d",
    "speed": f"{PROJECT}/speed",
    "cache": f"{PROJECT}/cache?range=30d",
    "cache-by-feature": f"{PROJECT}/cache?range=30d&by=feature&chart=tokens",
    "costs": f"{PROJECT}/costs",
    "what-if": f"{PROJECT}/costs?provider=google&model=gemini-3.5-flash",
    "settings": f"{PROJECT}/settings",
    "settings-tracked-keys": f"{PROJECT}/settings/tracked-keys",
    "settings-names": f"{PROJECT}/settings/names",
    "settings-notes": f"{PROJECT}/settings/notes",
    "settings-alerts": f"{PROJECT}/settings/alerts",
    "settings-sharing": f"{PROJECT}/settings/links",
    "settings-general": f"{PROJECT}/settings/general",
    "send": f"{PROJECT}/send",
    "breakdown": "/breakdown?project=support-agent",
    "breakdown-by-tag": "/breakdown?project=support-agent&by=tags",
    "agents": "/projects/coding-agents/agents",
    "views": f"{PROJECT}/views?here={PROJECT}",
    "runs": "/runs",
    "runs-of-project": "/runs?project=support-agent",
    "runs-failed": "/runs?status=failed&range=30d",
    "runs-none": "/runs?model=none-such",
    "experiments": "/experiments?project=support-agent",
    "users": "/admin/users",
    "erasures": "/admin/erasures",
    "audit": "/admin/audit",
    "clients": "/admin/clients",
    "health": "/admin/health",
    "prices": "/admin/prices",
    "price": "/admin/prices/1",
    "price-form": "/admin/prices/1/follow",
    "price-new": "/admin/prices/new",
    "price-bulk": "/admin/prices/bulk?q=claude&all=1",
    "unpriced": "/admin/prices/unpriced",
    "discounts": "/admin/prices/discounts",
    "tester": "/admin/prices/tester",
    "catalogue": "/admin/prices/catalogue",
    "file": "/admin/prices/file",
    "repricing": "/admin/prices/repricing",
    "reference": "/docs",
    "guides": "/guides",
    "guide": "/guides/pricing",
    "sign-in": "/sign-in",
    "not-found": "/none-such",
}
# Pages whose address only another page knows: where to begin, and which links to follow.
LINKED = {
    "run": ("/runs?project=support-agent", ("table tbody th a",)),
    "run-failed": ("/runs?project=support-agent&status=error&range=30d", ("table tbody th a",)),
    "session": (f"{PROJECT}/sessions?sort=failed", ("table tbody th a",)),
    "trace": ("/runs?project=code-review-bot&range=30d", ("table tbody th a", "a[href*='/traces/']")),
    "experiment": ("/experiments", ("main table tbody th a",)),
}
SIZES: dict[int, ViewportSize] = {1440: {"width": 1440, "height": 900}, 390: {"width": 390, "height": 844}}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
IS_TOO_WIDE = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
OK = 400


def main() -> int:
    options = _options()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox", "--disable-gpu"])
        try:
            return _take_readme(browser, options) if options.readme else _take_all(browser, options)
        finally:
            browser.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Take screenshots of a running server.")
    known = sorted({*PAGES, *LINKED})
    parser.add_argument("pages", nargs="*", metavar="page", help=f"one of {', '.join(known)}, or a path; default: all")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the running server")
    parser.add_argument("--key", help="an admin key to sign in with")
    parser.add_argument("--theme", choices=THEMES, action="append", help="default: both")
    parser.add_argument("--width", type=int, choices=tuple(SIZES), action="append", help="default: both")
    parser.add_argument("--fold", action="store_true", help="take the first screen instead of the whole page")
    parser.add_argument("--target", type=Path, default=ROOT / "shots", help="the folder to write to")
    parser.add_argument("--readme", action="store_true", help="take those of the README into docs/shots")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser's program")
    return parser.parse_args()


def _take_readme(browser: Browser, options: argparse.Namespace) -> int:
    theme = (options.theme or ["light"])[0]
    page = browser.new_page(viewport=README_SIZE, device_scale_factor=1.5, color_scheme=theme)
    if options.key:
        _sign_in(page, options.url, options.key)
    README_TARGET.mkdir(parents=True, exist_ok=True)
    for name, path in README_PAGES.items():
        page.goto(f"{options.url}{path}")
        _wait_for_charts(page)
        page.screenshot(path=README_TARGET / name)
        print(README_TARGET / name)
    return 0


def _take_all(browser: Browser, options: argparse.Namespace) -> int:
    options.target.mkdir(parents=True, exist_ok=True)
    names = options.pages or [*PAGES, *LINKED]
    complaints = 0
    for theme in options.theme or THEMES:
        for width in options.width or SIZES:
            page = browser.new_page(viewport=SIZES[width], color_scheme=theme)
            if options.key:
                _sign_in(page, options.url, options.key)
            for name in names:
                for complaint in _take(page, options, name, f"{theme}-{width}"):
                    print(f"{name} {theme} {width}: {complaint}", file=sys.stderr)
                    complaints += 1
            page.close()
    print(f"{options.target}: {len(names)} pages, {complaints} complaints")
    return int(complaints > 0)


def _take(page: Page, options: argparse.Namespace, name: str, suffix: str) -> list[str]:
    """Write one picture, and return what is wrong with its page."""
    written: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            written.append(f"console: {message.text}")

    page.on("console", on_console)
    start, links = LINKED.get(name, (PAGES.get(name, name), ()))
    response: Response | None = page.goto(f"{options.url}{start}")
    for link in links:
        if not page.locator(link).count():
            return [f"{page.url} has no {link}"]
        href = page.locator(link).first.get_attribute("href")
        response = page.goto(f"{options.url}{href}")
    _wait_for_charts(page)
    file = f"{name.strip('/').replace('/', '_').replace('?', '_') or 'overview'}-{suffix}.png"
    page.screenshot(path=options.target / file, full_page=not options.fold)
    if page.evaluate(IS_TOO_WIDE):
        written.append("has to be scrolled sideways")
    if response is not None and response.status >= OK and name != "not-found":
        written.append(f"answers {response.status}")
    page.remove_listener("console", on_console)
    return [] if name == "not-found" else written


def _wait_for_charts(page: Page) -> None:
    # Charts are drawn for somebody, and those far below when they come near.
    page.keyboard.press("Shift")
    for plot in page.locator(".chart-plot:visible").all():
        plot.scroll_into_view_if_needed()
        expect(plot).to_have_attribute("data-ready", "")
    page.evaluate("() => scrollTo(0, 0)")


def _sign_in(page: Page, url: str, key: str) -> None:
    page.goto(f"{url}/sign-in")
    if not page.get_by_label("Project or admin key").is_visible():
        # Where there are accounts, the form for keys is folded.
        page.get_by_text("Sign in with a key").click()
    page.get_by_label("Project or admin key").fill(key)
    page.get_by_role("button", name="Sign in with the key").click()
    expect(page.get_by_role("heading", name="All projects")).to_be_visible()


if __name__ == "__main__":
    sys.exit(main())
