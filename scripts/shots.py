"""Takes the screenshots of the README from a running server that has the demo.

    runtally demo
    python scripts/shots.py --key "$(runtally keys create --scope admin --quiet)"

Needs Chromium and the test dependencies. Without a key the server must be in dev mode, which shows in the pictures.
"""

import argparse
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "shots"
PICTURES = {
    "overview.png": "/?range=30d",
    "project.png": "/projects/support-agent",
}
SIZE = {"width": 1280, "height": 860}


def main() -> None:
    options = _options()
    TARGET.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5, color_scheme=options.theme)
        if options.key:
            _sign_in(page, options.url, options.key)
        for name, path in PICTURES.items():
            page.goto(f"{options.url}{path}")
            expect(page.locator(".chart-plot[data-ready]").first).to_be_visible()
            # Those far below wait until somebody comes near.
            expect(page.locator(".chart-plot[data-loading]")).to_have_count(0)
            page.screenshot(path=TARGET / name)
            print(TARGET / name)
        browser.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Take the screenshots of the README.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the running server")
    parser.add_argument("--key", help="an admin key to sign in with")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser's program")
    return parser.parse_args()


def _sign_in(page: Page, url: str, key: str) -> None:
    page.goto(f"{url}/sign-in")
    page.get_by_label("Project or admin key").fill(key)
    page.get_by_role("button", name="Sign in with the key").click()
    expect(page.get_by_role("heading", name="All projects")).to_be_visible()


if __name__ == "__main__":
    main()
