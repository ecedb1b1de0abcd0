"""Times in the reader's own zone."""

from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.conftest import PROJECT, post
from tests.factories import make_run
from tests.serving import Postgres, Server, running_server


def test_pages_are_in_the_zone_of_the_browser_from_the_first_visit_on(browser: Browser, story: Server) -> None:
    with browser.new_context(timezone_id="Asia/Tokyo") as context:
        page = context.new_page()
        asked = documents_of(page)

        page.goto(f"{story.url}/projects/{PROJECT}")
        expect(page.locator(".page-sub")).to_contain_text("Tokyo time")
        page.goto(f"{story.url}/runs")

        expect(page.locator(".page-sub")).to_contain_text("Tokyo time")
        # The first page twice, and no other.
        assert len(asked) == 3


def test_what_is_shown_only_once_stays_when_the_zone_is_another_than_before(
    browser: Browser, dev_server: Server, project_id: str
) -> None:
    # The form for a key is open in a project that has none yet.
    post(dev_server, project_id, make_run())
    with browser.new_context(timezone_id="Asia/Tokyo") as context:
        page = context.new_page()
        # A first visit, to a part of a page.
        page.goto(f"{dev_server.url}/projects/{project_id}#embed")
        expect(page.locator(".page-sub")).to_contain_text("Tokyo time")
        page.goto(f"{dev_server.url}/projects/{project_id}/settings")
        context.clear_cookies(name="zone")
        asked = documents_of(page)

        page.get_by_role("button", name="Create key").click()
        page.wait_for_load_state("networkidle")

        expect(page.locator("#new-key-secret")).to_be_visible()
        assert [request.method for request in asked] == ["POST"]


def test_a_time_of_the_hour_that_comes_twice_stays_when_another_field_is_edited(
    browser: Browser, story: Server
) -> None:
    with browser.new_context(timezone_id="Europe/Berlin") as context:
        page = context.new_page()
        page.goto(f"{story.url}/runs?since=2026-10-25T01:15&project={PROJECT}")

        page.get_by_label("Run or trace id").fill("nowhere")
        page.wait_for_url("**/*q=nowhere*")
        page.get_by_label("Run or trace id").fill("")
        page.wait_for_url(lambda url: "q=" not in url)

        assert "since=2026-10-25T01:15" in page.url.replace("%3A", ":")


def test_a_browser_s_zone_is_before_the_server_s_also_where_it_is_utc(browser: Browser, postgres: Postgres) -> None:
    database = postgres.create_seeded("zones")
    with running_server(database, TIME_ZONE="Europe/Berlin", SERVICE_DEV_MODE="1") as server:
        for zone, shown, times in (("UTC", "UTC", 2), ("Europe/Berlin", "Berlin time", 1)):
            with browser.new_context(timezone_id=zone) as context:
                page = context.new_page()
                asked = documents_of(page)

                page.goto(f"{server.url}/runs")
                expect(page.locator(".page-sub")).to_contain_text(shown)
                page.wait_for_load_state("networkidle")

                assert len(asked) == times


def documents_of(page: Page) -> list[Request]:
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if request.resource_type == "document" else None)
    return asked
