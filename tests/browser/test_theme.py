"""Light, dark, or as the device has it."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import PROJECT, drawn
from tests.serving import Server

LIGHT, DARK = "rgb(246, 246, 244)", "rgb(15, 16, 19)"


def test_the_button_changes_the_theme_at_once_and_for_good(page: Page, story: Server) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{story.url}/projects/{PROJECT}")
    drawn(page)
    page.evaluate("() => { window.stillHere = true; }")
    button = page.locator("#theme-button")

    button.click()
    expect(button).to_have_accessible_name("Theme: light. Change to dark")
    button.click()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("body")).to_have_css("background-color", DARK)
    expect(button).to_be_focused()
    assert page.evaluate("() => window.stillHere")
    page.reload()
    expect(page.locator("body")).to_have_css("background-color", DARK)


def test_charts_change_with_the_theme_without_being_drawn_anew(page: Page, story: Server) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{story.url}/projects/{PROJECT}")
    drawn(page)
    bar = page.locator("#main-chart .chart-plot svg path[fill='var(--c1)']").first
    expect(bar).to_have_css("fill", "rgb(47, 85, 224)")

    page.emulate_media(color_scheme="dark")

    expect(bar).to_have_css("fill", "rgb(111, 141, 242)")
    expect(page.locator("body")).to_have_css("background-color", DARK)
