"""Using the run explorer: the list follows the fields, one row leads to its run, Back comes back."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PROJECT
from tests.serving import Server


def test_the_list_follows_what_is_typed_and_the_field_keeps_its_focus(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/runs?project={PROJECT}&range=30d")
    page.evaluate("() => { window.stillHere = true; }")
    field = page.get_by_label("Run or trace id")

    field.press_sequentially("trace-17", delay=20)

    expect(page).to_have_url(re.compile(rf"/runs\?project={PROJECT}&q=trace-17&range=30d$"))
    expect(page.locator("#runs-sum")).to_contain_text("4 runs")
    expect(page.locator("#runs-list tbody tr")).to_have_count(4)
    expect(field).to_be_focused()
    expect(field).to_have_value("trace-17")
    assert page.evaluate("() => window.stillHere === true")


def test_choices_and_chips_change_the_filter_and_back_undoes_it(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/runs?project={PROJECT}")
    page.locator("#filter-status").select_option("failed")
    expect(page).to_have_url(re.compile(r"status=failed"))
    expect(page.locator("#runs-list tbody .run-status").first).to_contain_text("error")

    page.get_by_role("link", name="Remove Status failed").click()
    expect(page).not_to_have_url(re.compile(r"status="))
    expect(page.locator("#filter-status")).to_have_value("")
    # The chip is gone, and with it the focus that it had.
    expect(page.locator("#main")).to_be_focused()

    page.go_back()
    expect(page).to_have_url(re.compile(r"status=failed"))
    expect(page.locator("#filter-status")).to_have_value("failed")
    page.go_back()
    expect(page).not_to_have_url(re.compile(r"status="))
    expect(page.locator("#filter-status")).to_have_value("")
    page.go_forward()
    expect(page).to_have_url(re.compile(r"status=failed"))
    expect(page.locator("#filter-status")).to_have_value("failed")


def test_a_page_leads_to_the_next_and_a_row_to_its_run_and_trace(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/runs?project={PROJECT}")
    page.get_by_role("link", name="Older runs").click()
    expect(page).to_have_url(re.compile(r"before="))
    expect(page.get_by_role("link", name="Newer runs")).to_be_visible()

    page.locator("#runs-list tbody th a").first.click()

    expect(page.get_by_role("heading", name="Details")).to_be_visible()
    page.get_by_role("link", name="View trace").click()
    expect(page.locator(".waterfall tbody tr")).to_have_count(4)


def test_a_file_says_how_far_it_is_and_can_be_cancelled(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/runs?project={PROJECT}&range=30d")
    export, link = page.get_by_role("region", name="Export"), page.get_by_role("link", name="Parquet", exact=True)
    page.get_by_text("Export", exact=True).click()

    with page.expect_download() as saved:
        link.click()
    assert saved.value.suggested_filename == "runs.parquet"
    assert saved.value.path().read_bytes().startswith(b"PAR1")
    expect(export.get_by_role("status")).to_have_text(re.compile(r"runs\.parquet is saved: \d+ runs, \d+ kB\."))
    export.get_by_role("button", name="Dismiss").click()
    expect(export).to_have_count(0)

    page.route("**/runs/export.parquet*", lambda _route: None)
    page.get_by_text("Export", exact=True).click()
    link.click()
    expect(export).to_contain_text(re.compile(r"0 of about \d+ runs"))
    export.get_by_role("button", name="Cancel").click()
    expect(export.get_by_role("status")).to_have_text("The export of runs.parquet is cancelled; nothing was saved.")


def test_the_filter_is_a_form_without_javascript(browser: Browser, story: Server) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{story.url}/runs?project={PROJECT}")

    page.locator("#filter-status").select_option("failed")
    page.get_by_role("button", name="Search").click()

    expect(page).to_have_url(re.compile(rf"/runs\?project={PROJECT}&status=failed$"))
    expect(page.locator("#runs-list tbody .run-status").first).to_contain_text("error")
