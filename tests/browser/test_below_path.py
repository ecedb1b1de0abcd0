"""A browser below the path of `PUBLIC_URL`: scripts, styles, parts, cookies and forms are all there."""

import re

import httpx
from playwright.sync_api import Browser, expect

from tests.browser_fixtures import Complaints
from tests.factories import make_run
from tests.serving import Postgres, running_server

BASE = "/tools/runtally"


def test_a_reader_in_another_zone_uses_the_pages_below_a_path(
    browser: Browser, postgres: Postgres, complaints: Complaints
) -> None:
    database_url = postgres.create_seeded("below_path")
    serving = running_server(database_url, SERVICE_DEV_MODE="1", PUBLIC_URL=f"https://example.com{BASE}")
    with serving as server, browser.new_context(timezone_id="Asia/Tokyo") as context:
        headers = {"Authorization": f"Bearer {server.ingest_key}"}
        sent = httpx.post(f"{server.url}/api/ingest", json=make_run(projectId="shop"), headers=headers)
        assert sent.status_code == 200
        with complaints.of(context.new_page()) as page:
            page.goto(f"{server.url}{BASE}/projects/shop")
            expect(page.locator(".page-sub")).to_contain_text("Tokyo time")
            expect(page.locator("svg.chart, .chart-plot svg, .chart-plot canvas").first).to_be_visible()

            page.get_by_role("link", name="24 hours").or_(page.get_by_role("link", name="24h")).first.click()
            expect(page).to_have_url(re.compile(rf"{BASE}/projects/shop\?.*range=24h"))
            page.get_by_role("button", name=re.compile("Theme|theme")).first.click()
            page.get_by_role("link", name="Settings").first.click()
            expect(page).to_have_url(f"{server.url}{BASE}/projects/shop/settings")
            page.get_by_role("link", name="General").click()
            page.get_by_label("Name shown in pages").fill("The shop")
            page.get_by_role("button", name="Save name").click()
            expect(page.get_by_text("Name saved.")).to_be_visible()
            expect(page).to_have_url(f"{server.url}{BASE}/projects/shop/settings/general")
        paths = {cookie["name"]: cookie["path"] for cookie in context.cookies()}

    assert {"zone", "theme"} <= paths.keys()
    assert set(paths.values()) == {BASE}
