"""An engineer copies a badge, and it renders where it is put."""

import re
from collections import Counter

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import EXPERIMENT, PROJECT
from tests.serving import Server

IMAGE = re.compile(r"^!\[(?P<alt>.*)\]\((?P<url>\S+)\)$")


def test_a_badge_is_chosen_copied_and_renders_elsewhere(page: Page, browser: Browser, story: Server) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{story.url}/experiments")
    page.get_by_role("link", name=f"{EXPERIMENT} {PROJECT}").click()
    panel = page.get_by_role("region", name="Badge", exact=True)

    panel.get_by_label("Label").fill("New prompt")
    panel.get_by_label("Style").select_option("for-the-badge")
    expect(page).to_have_url(re.compile(r"style=for-the-badge&label=New(\+|%20)prompt"))
    expect(panel.get_by_label("Label")).to_have_value("New prompt")
    for preview in panel.get_by_role("img").all():
        expect(preview).to_have_js_property("naturalHeight", 28)
    panel.get_by_role("button", name="Copy badge").click()
    panel.get_by_role("button", name="Copied").click()

    copied = IMAGE.match(page.evaluate("() => navigator.clipboard.readText()"))
    assert copied
    assert copied["alt"] == "New prompt"
    expect(panel.get_by_role("button", name="Copied")).to_have_count(0)
    expect(panel.get_by_role("button", name="Copy badge")).to_be_visible()
    # A README somewhere else, whose reader is nobody here.
    readme = browser.new_context().new_page()
    readme.set_content(f'<img src="{copied["url"]}" alt="{copied["alt"]}">')
    expect(readme.get_by_role("img")).to_have_js_property("naturalHeight", 28)
    readme.goto(copied["url"])
    expect(readme.locator("svg title")).to_have_text(re.compile(r"New prompt: (pass|fail)"))


def test_a_markup_is_chosen_without_leaving_the_panel(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/experiments/{PROJECT}/{EXPERIMENT}")

    page.get_by_role("link", name="AsciiDoc").click()

    expect(page.locator("#badge-snippet")).to_have_text(re.compile(r"^image:http://"))
    expect(page.get_by_role("link", name="AsciiDoc")).to_be_focused()
    page.reload()
    expect(page.locator("#badge-snippet")).to_have_text(re.compile(r"^image:http://"))
    # What the page shows is copied, also after the panel was redrawn.
    expect(page.get_by_role("button", name="Copy badge")).to_be_visible()


@pytest.mark.parametrize(("width", "lines"), [(320, [2, 2, 2]), (390, [3, 3]), (600, [3, 3]), (601, [6]), (1440, [6])])
def test_tabs_fill_their_lines(page: Page, story: Server, width: int, lines: list[int]) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{story.url}/experiments/{PROJECT}/{EXPERIMENT}")

    tops = [box["y"] for tab in page.locator(".tabs a").all() if (box := tab.bounding_box())]

    assert list(Counter(tops).values()) == lines
