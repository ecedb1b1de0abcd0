"""Using a report: ranges, figures, Back, keys."""

import re
from itertools import pairwise

import httpx
import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.conftest import LONG, PROJECT, drawn, path_of
from tests.browser_fixtures import Complaints
from tests.serving import PATIENCE_SECONDS, Server

PHONE: ViewportSize = {"width": 390, "height": 844}
POINT_AT = """name => {
  name.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  return name.title;
}"""


def _mark(page: Page) -> None:
    """Something that a full load of a page would take away."""
    page.evaluate("() => { window.stillHere = true; }")


def _is_same_document(page: Page) -> bool:
    return bool(page.evaluate("() => window.stillHere === true"))


def test_charts_are_drawn(project_page: Page) -> None:
    for chart in ("main-chart", "errors-chart", "latency-chart"):
        expect(project_page.locator(f"#{chart} .chart-plot svg")).to_be_visible()
    bars = project_page.locator("#main-chart .chart-plot svg path[fill^='var(--c']")
    assert bars.count() > 28


def test_the_range_changes_without_a_new_document_and_the_address_follows(project_page: Page) -> None:
    _mark(project_page)

    project_page.click("#range-30d")

    expect(project_page).to_have_url(re.compile(r"\?range=30d$"))
    expect(project_page).to_have_title(re.compile(rf"· Last 30 days · {PROJECT}$"))
    expect(project_page.locator("#range-30d")).to_have_attribute("aria-current", "true")
    expect(project_page.locator("#range-7d")).not_to_have_attribute("aria-current", "true")
    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per day")
    drawn(project_page)
    assert _is_same_document(project_page)


def test_the_keyboard_s_focus_stays_where_it_was(project_page: Page) -> None:
    project_page.focus("#range-24h")
    project_page.keyboard.press("Enter")

    expect(project_page).to_have_url(re.compile(r"range=24h"))
    drawn(project_page)

    expect(project_page.locator("#range-24h")).to_be_focused()


def test_back_brings_the_range_before_and_everything_still_works(project_page: Page) -> None:
    project_page.click("#range-30d")
    expect(project_page).to_have_url(re.compile(r"range=30d"))
    project_page.click("#kpi-runs")
    expect(project_page.locator("#main-chart h2")).to_have_text("Runs by model, per day")

    project_page.go_back()
    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per day")
    project_page.go_back()

    expect(project_page).to_have_url(re.compile(rf"/projects/{PROJECT}$"))
    expect(project_page.locator("#range-7d")).to_have_attribute("aria-current", "true")
    drawn(project_page)
    project_page.click("#range-24h")
    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per hour")
    drawn(project_page)


def test_a_figure_chooses_what_the_chart_shows(project_page: Page) -> None:
    _mark(project_page)

    project_page.click("#kpi-errors")

    expect(project_page).to_have_url(re.compile(r"metric=errors"))
    expect(project_page.locator("#main-chart h2")).to_have_text("Error rate by model, per 6 hours")
    drawn(project_page)
    assert _is_same_document(project_page)


def test_cost_can_be_split_by_provider(project_page: Page) -> None:
    project_page.click("#group-menu summary")
    project_page.get_by_role("link", name="Provider", exact=True).click()

    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by provider, per 6 hours")
    expect(project_page.locator("#main-chart .key")).to_contain_text("anthropic")
    drawn(project_page)


def test_what_was_opened_stays_open(project_page: Page) -> None:
    project_page.click("#main-chart-table summary")
    expect(project_page.locator("#main-chart table")).to_be_visible()

    project_page.click("#range-24h")
    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per hour")

    expect(project_page.locator("#main-chart table")).to_be_visible()


def test_a_bucket_says_what_it_holds(project_page: Page) -> None:
    project_page.hover("#main-chart .chart-plot", position={"x": 500, "y": 150})

    tooltip = project_page.locator("#chart-tooltip")
    expect(tooltip).to_be_visible()
    expect(tooltip).to_contain_text("UTC")
    expect(tooltip).to_contain_text("Total")


def test_keys_change_the_range_list_themselves_and_go_to_the_overview(project_page: Page, story: Server) -> None:
    project_page.keyboard.press("]")
    expect(project_page).to_have_url(re.compile(r"range=30d"))
    project_page.keyboard.press("[")
    expect(project_page).to_have_url(re.compile(rf"/projects/{PROJECT}$"))

    project_page.keyboard.press("?")
    expect(project_page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    project_page.keyboard.press("Escape")
    expect(project_page.get_by_role("dialog")).to_have_count(0)

    project_page.keyboard.press("g")
    project_page.keyboard.press("o")
    expect(project_page).to_have_url(f"{story.url}/")


def test_the_overview_leads_to_a_project_in_the_same_range(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/?range=24h")
    drawn(page)

    page.get_by_role("link", name=PROJECT).click()

    expect(page).to_have_url(f"{story.url}/projects/{PROJECT}?range=24h")
    expect(page.get_by_role("heading", level=1)).to_have_text(PROJECT)


def test_a_server_out_of_reach_leaves_the_page_and_offers_to_try_again(
    project_page: Page, complaints: Complaints
) -> None:
    complaints.expect("net::ERR_FAILED", "Failed to fetch")
    project_page.route("**/projects/**", lambda route: route.abort())
    project_page.click("#range-30d")
    toast = project_page.locator("#toast")
    expect(toast).to_contain_text(re.compile(r"Couldn't update\. Showing \d\d:\d\d figures\."))
    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per 6 hours")
    expect(project_page).to_have_url(re.compile(rf"/projects/{PROJECT}$"))

    project_page.unroute("**/projects/**")
    toast.get_by_role("button", name="Try again").click()

    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per day")
    expect(toast).to_be_empty()


def test_what_a_form_did_is_shown_for_some_seconds(first_visit: Page, story: Server) -> None:
    first_visit.context.add_cookies([{"name": "flash", "value": "Saved.", "url": story.url}])
    first_visit.clock.install()
    first_visit.goto(f"{story.url}/experiments")
    toast = first_visit.locator("#toast")
    expect(toast).to_contain_text("Saved.")

    first_visit.clock.fast_forward(7_000)

    expect(toast).to_be_empty()


def test_an_error_of_the_server_is_said_above_the_page_that_stays(project_page: Page, complaints: Complaints) -> None:
    complaints.expect("404")
    address = project_page.url

    project_page.evaluate("() => htmx.ajax('GET', '/projects/none-such', {target: '#report', push: 'true'})")

    expect(project_page.locator("#toast")).to_contain_text("A project appears with its first run")
    expect(project_page.locator("#report")).to_be_visible()
    expect(project_page).to_have_title(re.compile(PROJECT))
    assert project_page.url == address


def test_a_chart_that_does_not_load_says_so_and_can_be_tried_again(
    page: Page, complaints: Complaints, story: Server
) -> None:
    complaints.expect("net::ERR_FAILED", "A chart did not load")
    page.route("**/charts.min.js*", lambda route: route.abort())
    page.goto(f"{story.url}/projects/{PROJECT}")
    page.keyboard.press("Shift")
    failed = page.locator("#main-chart .chart-plot")
    expect(failed).to_contain_text("This chart didn't load.")

    page.unroute("**/charts.min.js*")
    failed.get_by_role("button", name="Try again").click()

    drawn(page)


def test_a_page_is_asked_for_once(project_page: Page, story: Server) -> None:
    """Its charts, and those of the range that is chosen next, come with it; why its cost changed is asked for after it."""
    asked: list[str] = []
    project_page.on("request", lambda request: asked.append(request.url.removeprefix(story.url)))

    project_page.reload()
    drawn(project_page)
    project_page.click("#range-30d")
    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per day")
    drawn(project_page)
    project_page.wait_for_load_state("networkidle")

    page = f"/projects/{PROJECT}"
    assert [url for url in asked if not url.startswith(("/static/", "/why?"))] == [page, f"{page}?range=30d"]
    # The 30 days before have no runs, so that there is no change.
    assert [url for url in asked if url.startswith("/why?")] == [f"/why?project={PROJECT}"]


def test_without_javascript_links_and_tables_do(browser: Browser, story: Server) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{story.url}/projects/{PROJECT}")

    for chart in ("main-chart", "errors-chart", "latency-chart"):
        expect(page.locator(f"#{chart} .paint-plot path").last).to_be_attached()
    page.click("#range-30d")
    page.click("#kpi-tokens")
    page.click("#main-chart-table summary")

    expect(page).to_have_url(re.compile(r"range=30d&metric=tokens"))
    expect(page.locator("#main-chart table")).to_be_visible()
    expect(page.locator("#main-chart .chart-save a:visible")).to_have_text(["SVG: download Tokens by model, per day"])
    expect(page.locator("[data-show-keys]")).to_be_hidden()
    page.click("#theme-button")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page).to_have_url(re.compile(r"range=30d&metric=tokens"))


def test_what_draws_charts_runs_when_somebody_is_there(first_visit: Page, story: Server) -> None:
    """It is fetched before, with nothing else to do, so that the first touch does not wait for it."""
    run: list[str] = []
    first_visit.on("request", lambda request: run.append(request.url) if request.resource_type == "script" else None)
    first_visit.goto(f"{story.url}/projects/{PROJECT}")
    expect(first_visit.locator("link[rel=prefetch][href*='/vega']")).to_have_count(3)
    expect(first_visit.locator("#main-chart-plot[data-pictured] .paint-plot path").first).to_be_visible()
    assert not [url for url in run if "/vega" in url]

    first_visit.mouse.move(5, 5)

    expect(first_visit.locator("#main-chart-plot")).to_have_attribute("data-ready", "")
    expect(first_visit.locator("#main-chart-plot .paint-plot")).to_have_count(0)
    assert [url for url in run if "/vega" in url]


def test_a_first_visit_costs_little(first_visit: Page, story: Server) -> None:
    sizes: list[int] = []
    first_visit.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))

    first_visit.goto(f"{story.url}/projects/{PROJECT}")
    drawn(first_visit)

    assert sum(sizes) < 330_000, f"{sum(sizes)} bytes"
    assert httpx.get(f"{story.url}/projects/{PROJECT}", timeout=PATIENCE_SECONDS).status_code == 200


@pytest.mark.parametrize("path", ["/", f"/projects/{PROJECT}"])
def test_the_first_chart_is_on_the_first_screen_of_a_phone(page: Page, story: Server, path: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(f"{story.url}{path}")
    drawn(page)

    plot = page.locator("#main-chart-plot").bounding_box()

    assert plot is not None
    assert plot["y"] + plot["height"] <= PHONE["height"]


def test_on_a_phone_all_figures_and_the_chosen_tab_are_in_sight(page: Page, story: Server) -> None:
    page.set_viewport_size(PHONE)

    page.goto(f"{story.url}/projects/{PROJECT}?metric=tokens")
    figures = [place for kpi in page.locator(".kpi a").all() if (place := kpi.bounding_box())]
    assert len(figures) == 5
    assert max(place["x"] + place["width"] for place in figures) <= PHONE["width"]

    page.goto(f"{story.url}/projects/{PROJECT}/settings/general")
    tabs = page.get_by_role("navigation", name="Settings").get_by_role("link")
    assert len({box["y"] for tab in tabs.all() if (box := tab.bounding_box())}) == 1
    chosen = page.get_by_role("link", name="General").bounding_box()
    assert chosen is not None
    assert chosen["x"] + chosen["width"] <= PHONE["width"]


@pytest.mark.parametrize("range_", ["24h", "7d", "30d"])
@pytest.mark.parametrize("width", [320, 390, 1440])
def test_the_times_below_a_picture_have_room(browser: Browser, story: Server, range_: str, width: int) -> None:
    page = browser.new_context(java_script_enabled=False, viewport={"width": width, "height": 844}).new_page()
    page.goto(f"{story.url}/projects/{PROJECT}?range={range_}")

    times = page.locator("#main-chart .paint-times text:visible").all()
    boxes = [box for time in times if (box := time.bounding_box())]

    assert len(boxes) >= 2
    assert all(before["x"] + before["width"] < after["x"] for before, after in pairwise(boxes))


def test_a_name_that_is_cut_off_has_the_whole_in_its_title(page: Page, story: Server) -> None:
    page.set_viewport_size(PHONE)
    page.goto(f"{story.url}{path_of(LONG)}")
    name = page.locator("h1 bdi")
    assert name.evaluate("one => one.scrollHeight > one.clientHeight")

    # Pointed at until the script is there.
    page.wait_for_function(POINT_AT, arg=name.element_handle())

    expect(name).to_have_attribute("title", LONG)
