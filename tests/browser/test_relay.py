"""The relay's page on a phone."""

import pytest
from playwright.sync_api import Page

from tests.serving import Server


@pytest.mark.parametrize("width", [320, 390, 480, 1440])
def test_a_figure_is_one_line_however_long_the_queue(page: Page, story: Server, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{story.url}/admin/health")
    figures = page.get_by_role("region", name="Reporting pipeline").locator("dd")
    # A queue as long as this would be in the way of other tests.
    for figure, text in zip(figures.all(), ["more than 10,000", "at least 26 h 14 min", "12,345"], strict=True):
        figure.evaluate("(figure, text) => figure.textContent = text", text)

    heights = [box["height"] for figure in figures.all() if (box := figure.bounding_box())]

    assert heights == [32, 32, 32]
    assert page.evaluate("document.documentElement.scrollWidth") == width
