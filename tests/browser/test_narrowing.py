"""An engineer finds what got expensive: from a bar to its time, from a row to its runs; and looks on, live."""

import re
from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.conftest import PROJECT, drawn, post
from tests.browser_fixtures import Complaints
from tests.factories import make_run
from tests.serving import Server

PHONE: ViewportSize = {"width": 390, "height": 844}


def test_a_bar_and_a_row_lead_to_what_got_expensive(project_page: Page) -> None:
    project_page.evaluate("() => { window.stillHere = true; }")
    project_page.click("#main-chart .chart-plot", position={"x": 500, "y": 150})
    expect(project_page).to_have_url(re.compile(r"since=.*&until="))
    expect(project_page.locator("#main-chart h2")).to_have_text("Cost by model, per 15 minutes")
    drawn(project_page)

    project_page.get_by_role("region", name="Models").get_by_role("link", name="gpt-large").click()
    expect(project_page.get_by_role("link", name="Remove Model gpt-large")).to_be_visible()
    expect(project_page).to_have_url(re.compile(r"model=gpt-large"))
    expect(project_page.get_by_role("region", name="Models").get_by_role("listitem")).to_have_count(1)
    drawn(project_page)

    project_page.get_by_role("link", name="Remove Model gpt-large").click()
    expect(project_page.get_by_role("list", name="Filters in use")).to_have_count(0)
    project_page.go_back()
    project_page.go_back()
    project_page.go_back()
    expect(project_page).to_have_url(re.compile(rf"/projects/{PROJECT}$"))
    drawn(project_page)


def test_a_drag_over_bars_leads_to_their_time_and_a_chart_can_be_saved(project_page: Page) -> None:
    with project_page.expect_download() as saved:
        project_page.locator("#main-chart").get_by_role("link", name="PNG").click()
    assert saved.value.suggested_filename == "cost.png"
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")

    plot = project_page.locator("#main-chart-plot").bounding_box()
    assert plot is not None
    width, y = plot["width"] / 28, plot["y"] + 100
    project_page.mouse.move(plot["x"] + 10.5 * width, y)
    project_page.mouse.down()
    project_page.mouse.move(plot["x"] + 14.5 * width, y, steps=4)
    expect(project_page.locator(".brush")).to_be_visible()
    project_page.keyboard.press("Escape")
    expect(project_page.locator(".brush")).to_have_count(0)
    project_page.mouse.up()
    expect(project_page).to_have_url(re.compile(rf"/projects/{PROJECT}$"))

    project_page.mouse.move(plot["x"] + 14.5 * width, y)
    project_page.mouse.down()
    project_page.mouse.move(plot["x"] + 10.5 * width, y, steps=4)
    project_page.mouse.up()
    expect(project_page).to_have_url(re.compile(r"since=.*&until="))
    since, until = (
        datetime.fromisoformat(parse_qs(urlsplit(project_page.url).query)[name][0]) for name in ("since", "until")
    )
    assert timedelta(hours=4 * 6) <= until - since <= timedelta(hours=6 * 6)
    drawn(project_page)


def test_the_first_touch_of_a_page_opens_the_time_that_it_is_on(browser: Browser, story: Server) -> None:
    page = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True).new_page()
    page.goto(f"{story.url}/projects/{PROJECT}")
    expect(page.locator("#main-chart-plot")).to_have_attribute("data-pictured", "")

    page.locator("#main-chart-plot").tap(position={"x": 200, "y": 60})

    expect(page).to_have_url(re.compile(r"since=.*until="))
    drawn(page)


def test_a_time_of_ones_own_is_filled_in(project_page: Page) -> None:
    project_page.get_by_text("More", exact=True).click()
    project_page.keyboard.press("Tab")
    project_page.keyboard.press("Escape")
    expect(project_page.get_by_label("From (UTC)")).to_be_hidden()
    expect(project_page.locator("#range-menu summary")).to_be_focused()
    project_page.keyboard.press("Enter")
    project_page.get_by_label("From (UTC)").fill("2026-01-01T00:00")
    project_page.get_by_label("To (UTC)").fill("2026-01-03T00:00")
    project_page.get_by_role("button", name="Apply").click()

    expect(project_page).to_have_url(re.compile(r"since=2026-01-01T00(:|%3A)00&until=2026-01-03T00(:|%3A)00"))
    expect(project_page.get_by_role("heading", name="No runs in this range.")).to_be_visible()


def test_an_end_before_the_start_is_said_where_it_was_typed(project_page: Page, complaints: Complaints) -> None:
    complaints.expect("422")
    menu = project_page.locator("#range-menu")
    menu.locator("summary").click()
    menu.get_by_label("To (").fill("2020-11-01T00:00")
    menu.get_by_role("button", name="Apply").click()
    expect(menu.get_by_role("alert")).to_contain_text("Choose a start before the end, at most two years apart;")

    project_page.get_by_role("link", name="Runs", exact=True).last.click()
    expect(project_page.locator("#runs-filter")).to_be_visible()
    menu.locator("summary").click()
    menu.get_by_label("From").fill("2026-11-02T00:00")
    menu.get_by_label("To (").fill("2026-11-01T00:00")
    menu.get_by_role("button", name="Apply").click()

    expect(menu.get_by_role("alert")).to_have_text(
        "Choose a start before the end; clocks that go forward skip an hour."
    )
    expect(menu.get_by_label("From")).to_have_value("2026-11-02T00:00")
    menu.get_by_label("To (").fill("2026-11-03T00:00")
    menu.get_by_role("button", name="Apply").click()
    expect(menu.get_by_role("alert")).to_have_count(0)
    expect(menu).not_to_have_attribute("open", "")
    expect(project_page).to_have_url(re.compile(r"/runs\?.*since=.*&until="))


def test_live_mode_brings_new_runs_while_somebody_looks(first_visit: Page, dev_server: Server, project_id: str) -> None:
    page = first_visit
    post(dev_server, project_id, make_run())
    # The page's own clock, so that nobody waits for it.
    page.clock.install()
    page.goto(f"{dev_server.url}/projects/{project_id}?range=24h")
    page.get_by_role("link", name="Live").click()
    expect(page.locator("#live-switch")).to_have_attribute("aria-current", "true")
    drawn(page)
    page.focus("#kpi-runs")

    post(dev_server, project_id, make_run())
    page.clock.run_for(10_000)
    expect(page.locator("#kpi-runs .kpi-value")).to_have_text("2")
    expect(page.locator("#kpi-runs")).to_be_focused()
    expect(page).to_have_url(re.compile(r"live=1"))
    drawn(page)

    page.evaluate("() => Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    post(dev_server, project_id, make_run())
    page.clock.run_for(60_000)
    assert asked == []
    page.evaluate("() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }")
    expect(page.locator("#kpi-runs .kpi-value")).to_have_text("3")
