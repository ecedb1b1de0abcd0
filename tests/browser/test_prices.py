"""Prices where JavaScript saves a page: a row corrected in place, and what a pattern fits while it is typed."""

import re
from urllib.parse import urlencode

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.test_accessibility import OPTIONS
from tests.browser_fixtures import Complaints
from tests.serving import Server


def test_a_price_is_corrected_in_its_row(page: Page, story: Server, complaints: Complaints) -> None:
    complaints.expect("422")
    page.goto(f"{story.url}/admin/prices/new?provider=in-place&model=m1&input_per_million=3")
    page.get_by_role("button", name="Save price").click()
    page.goto(f"{story.url}/admin/prices?q=in-place")

    page.get_by_role("link", name="Edit in-place m1").click()
    amount = page.get_by_label("Input, US dollars", exact=True)
    expect(amount).to_be_focused()
    amount.fill("much")
    amount.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Give a number of US dollars")
    amount.fill("4")
    page.get_by_role("button", name="Save").click()

    expect(page.get_by_role("row", name="m1 in-place")).to_contain_text("$4.00")
    expect(amount).to_have_count(0)


def test_a_long_variant_stays_on_the_screen_of_a_phone(page: Page, story: Server) -> None:
    amounts = "tier batch: input 0.5, output 2.5, cacheRead 0.05, cacheWrite 0.625, cacheWrite1h 1"
    query = urlencode({"provider": "in-variants", "model": "m4", "input_per_million": "1", "variants": amounts})
    page.goto(f"{story.url}/admin/prices/new?{query}")
    page.get_by_role("button", name="Save price").click()

    page.set_viewport_size({"width": 390, "height": 844})

    expect(page.get_by_role("region", name="Price history")).to_contain_text("cacheWrite 0.625")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


def test_what_a_pattern_fits_is_told_while_it_is_typed(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/admin/prices/new?provider=openai&model=gpt&match=regex&pattern=g")
    expect(page.locator("#covered")).to_contain_text(re.compile("Matches 0 of the [0-9]+ models? of openai"))

    page.get_by_label("Prefix or pattern").fill("gpt-.*")

    expect(page.locator("#covered")).to_contain_text("gpt-large")
    expect(page.get_by_label("Prefix or pattern")).to_have_value("gpt-.*")


def test_the_catalogue_comes_into_the_page_once_it_was_read(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/admin/prices/catalogue")

    expect(page.get_by_text("Reading genai-prices")).to_have_count(0)
    expect(page.locator("#catalogue")).to_contain_text("genai-prices")
    expect(page).to_have_url(f"{story.url}/admin/prices/catalogue")


def test_several_prices_are_selected_previewed_and_scheduled_as_they_were_previewed(page: Page, story: Server) -> None:
    for model in ("m2", "m3"):
        page.goto(f"{story.url}/admin/prices/new?provider=in-bulk&model={model}&input_per_million=4")
        page.get_by_role("button", name="Save price").click()
    page.goto(f"{story.url}/admin/prices?q=in-bulk")
    page.get_by_role("link", name="Change several").click()
    page.get_by_label("m2").check()
    page.get_by_label("Percent or US dollars").fill("-25")
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("$3.00")
    assert [violation["id"] for violation in Axe().run(page, options=OPTIONS).response["violations"]] == []

    # What is typed after the preview is another change, which was not seen.
    page.get_by_label("Percent or US dollars").fill("-99")
    preview.get_by_role("button", name="Schedule 1 change").click()

    expect(page.get_by_role("status")).to_contain_text("Change scheduled for 1 price from")
    expect(page.get_by_role("group", name="Prices, scrolls sideways")).to_contain_text("$3.00")
