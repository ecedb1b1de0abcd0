"""The API reference: a short list, of which links unfold the parts."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PROJECT
from tests.browser_fixtures import Complaints
from tests.serving import Server


def test_links_of_the_reference_unfold_what_they_lead_to(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/docs")
    operation, type_ = page.locator("#post_ingest"), page.locator("#type-SingleRun")
    expect(page.get_by_role("heading", name="API reference")).to_be_visible()
    expect(operation).to_be_hidden()

    page.get_by_role("navigation", name="Reference").get_by_role("link", name="/api/ingest").click()
    expect(operation).to_be_visible()
    expect(type_).to_be_hidden()

    operation.get_by_role("link", name="SingleRun").click()
    expect(type_).to_be_visible()
    expect(type_.get_by_text("required").first).to_be_visible()


def test_a_request_of_the_reference_is_sent_from_the_page_and_its_answer_shown(
    page: Page, story: Server, complaints: Complaints
) -> None:
    complaints.expect("401")
    page.goto(f"{story.url}/docs?sent=1#post_ingest")
    ingest = page.locator("#post_ingest")
    ingest.locator(".docs-try").evaluate("one => { one.open = true; }")
    status = ingest.get_by_role("status")

    ingest.get_by_label("Key").fill("no-such-key")
    ingest.get_by_role("button", name="Send request").click()
    expect(status).to_have_text("401 Unauthorized")
    expect(ingest.locator("pre", has_text='"invalid_key"').last).to_be_visible()

    ingest.get_by_label("Key").fill(story.ingest_key)
    ingest.get_by_role("button", name="Send request").click()
    expect(status).to_have_text("200 OK")
    expect(ingest.locator(".docs-try-answer")).to_contain_text('"ok": true')
    assert story.ingest_key not in page.url


def test_a_key_that_the_page_makes_is_filled_in_where_requests_are_sent(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/docs")
    page.get_by_label("Try requests with a key for").select_option(PROJECT)
    page.get_by_role("button", name="Make a key for an hour").click()

    expect(page.locator("#trial-key")).to_contain_text("works until")
    ingest = page.locator("#post_ingest")
    expect(ingest.locator("[data-key]")).to_have_value(re.compile("rt_.{43}"))
    expect(page.get_by_label("Try requests with a key for")).to_have_value(PROJECT)
    expect(page.locator("[data-made]")).to_have_count(0)


def test_a_path_of_the_reference_with_a_placeholder_is_not_sent(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/docs#get_project_badge")
    badge = page.locator("[data-try=GET]", has=page.locator("[value*='{project_id}']")).first

    assert badge.evaluate("form => form.checkValidity()") is False


def test_the_reference_shows_the_keyboard_shortcuts(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/docs")

    page.get_by_role("button", name="Keyboard shortcuts").click()

    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
