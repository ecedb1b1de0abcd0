"""Times in the reader's own zone."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.clock import system_clock
from runtally.models.user import Role
from runtally.services import Services
from tests.factories import make_run
from tests.pages.conftest import Invite, Post
from tests.pages.looking import PARTIAL, Outline, html_of, text_of

TOKYO = timedelta(hours=9)


@pytest.fixture
def in_tokyo(reader: Browser) -> Browser:
    reader.set_cookie("localhost", "zone", "Asia%2FTokyo")
    return reader


async def test_a_run_is_seen_at_the_time_of_its_reader(in_tokyo: Browser, post: Post, project_id: str) -> None:
    at = system_clock() - timedelta(minutes=5)
    await post(make_run(runId="r1", timestamp=at.isoformat()))

    detail = text_of(await html_of(in_tokyo, f"/projects/{project_id}/runs/r1"))
    listed = text_of(await html_of(in_tokyo, f"/runs?project={project_id}"))

    assert f"{at + TOKYO:%H:%M:%S} JST" in detail
    assert f"{at + TOKYO:%H:%M:%S}" in listed
    assert "Tokyo time" in listed


async def test_bars_of_hours_are_the_readers_and_bars_of_days_those_of_utc(
    in_tokyo: Browser, post: Post, project_id: str
) -> None:
    await post(make_run())

    hours = await (await in_tokyo.get(f"/charts/cost.json?project={project_id}&range=24h")).get_json()
    days = await (await in_tokyo.get(f"/charts/cost.json?project={project_id}&range=30d")).get_json()
    page = text_of(await html_of(in_tokyo, f"/projects/{project_id}?range=24h"))

    for tips, zone in ((hours["tips"], "JST"), (days["tips"], "UTC")):
        assert tips
        assert all(re.search(rf" {zone}(, so far)?$", tip["title"]) for tip in tips)
    assert "Tokyo time" in page
    assert "Time (UTC)" not in page


async def test_times_of_a_form_are_in_the_zone_that_it_names(reader: Browser, post: Post, project_id: str) -> None:
    since, until = (
        system_clock().replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours) for hours in (3, 1)
    )
    await post(make_run(runId="inside", timestamp=(since + timedelta(hours=1)).isoformat()))
    await post(make_run(runId="after", timestamp=(until + timedelta(minutes=1)).isoformat()))
    typed = {"since": f"{since + TOKYO:%Y-%m-%dT%H:%M}", "until": f"{until + TOKYO:%Y-%m-%dT%H:%M}"}
    asked = f"since={typed['since']}&until={typed['until']}&zone=Asia/Tokyo"

    response = await reader.get(f"/runs?project={project_id}&column=run&{asked}", headers=PARTIAL)
    listed = text_of(await response.get_data(as_text=True))
    report = await html_of(reader, f"/projects/{project_id}?{asked}")

    assert "inside" in listed
    assert "after" not in listed
    # The address that is kept means the same to every reader.
    assert f"since={since:%Y-%m-%dT%H}" in response.headers["HX-Push-Url"].replace("%3A", ":")
    assert f"{since:%H:%M}" in text_of(report)


async def test_a_form_shows_the_times_of_an_address_in_the_readers_zone(
    in_tokyo: Browser, post: Post, project_id: str
) -> None:
    await post(make_run())

    explorer = await html_of(in_tokyo, "/runs?since=2026-11-01T00:00&until=2026-11-02T12:00")
    report = await html_of(in_tokyo, f"/projects/{project_id}?since=2026-11-01T00:00&until=2026-11-02T12:00")

    for html in (explorer, report):
        assert 'value="2026-11-01T09:00"' in html
        assert 'value="2026-11-02T21:00"' in html
        assert '<input type="hidden" name="zone" value="Asia/Tokyo">' in html


@pytest.mark.parametrize("path", ["/runs", "/projects/{project_id}"])
@pytest.mark.parametrize("asked", [("2026-10-25T00:30", "2026-10-25T01:15"), ("2026-10-25T01:15", "2026-10-25T09:00")])
async def test_a_form_that_is_sent_as_it_was_keeps_a_time_of_the_hour_that_comes_twice(
    reader: Browser, post: Post, project_id: str, path: str, asked: tuple[str, str]
) -> None:
    await post(make_run())
    reader.set_cookie("localhost", "zone", "Europe%2FBerlin")
    shown = path.format(project_id=project_id)

    sent = times_of(await html_of(reader, f"{shown}?since={asked[0]}&until={asked[1]}"))
    again = times_of(await html_of(reader, f"{shown}?{urlencode(sent)}"))

    assert sent["since"] == f"2026-10-25T02:{asked[0][-2:]}"
    assert sent["later"]
    assert again == sent


@pytest.mark.parametrize("path", ["/runs", "/projects/{project_id}"])
async def test_an_end_of_the_hour_that_comes_twice_is_after_its_start(
    reader: Browser, post: Post, project_id: str, path: str
) -> None:
    await post(make_run())
    shown = f"{path.format(project_id=project_id)}?zone=Europe/Berlin&since=2026-10-25T02:30&until="

    for until, in_utc in (("02:15", "01:15"), ("02:45", "00:45"), ("03:00", "02:00")):
        sent = times_of(await html_of(reader, f"{shown}2026-10-25T{until}"))
        assert (sent["since"], sent["until"]) == ("2026-10-25T00:30", f"2026-10-25T{in_utc}")


async def test_runs_say_at_the_range_that_a_night_skips_an_hour(reader: Browser) -> None:
    response = await reader.get("/runs?zone=Europe/Berlin&since=2026-03-29T02:30&until=2026-03-29T03:10")
    html = await response.get_data(as_text=True)

    assert response.status_code == 422
    assert "Choose a start before the end; clocks that go forward skip an hour." in text_of(html)
    outline = Outline(html)
    assert "open" in outline.by_id("range-menu")
    assert [outline.by_id(f"range-{name}")["value"] for name in ("since", "until")] == [
        "2026-03-29T01:30",
        "2026-03-29T01:10",
    ]


async def test_a_form_with_a_mistake_shows_the_times_of_an_address_in_the_readers_zone(in_tokyo: Browser) -> None:
    response = await in_tokyo.get("/runs?since=2026-11-01T00:00&minCost=much")

    assert response.status_code == 422
    assert 'value="2026-11-01T09:00"' in await response.get_data(as_text=True)


@pytest.mark.parametrize("zone", ["", "America%2FNew_York", "Asia%2FTokyo"])
@pytest.mark.parametrize(
    "query",
    [
        "since=0001-01-01T00:00&until=0001-01-02T00:00",
        "since=0003-01-01T00:00&until=0003-01-02T00:00",
        "since=9999-12-30T00:00&until=9999-12-31T23:59",
    ],
)
async def test_the_ends_of_all_time_can_be_asked_for(
    reader: Browser, post: Post, project_id: str, zone: str, query: str
) -> None:
    await post(make_run())
    reader.set_cookie("localhost", "zone", zone)

    for path in ("/", f"/projects/{project_id}", "/runs", "/breakdown"):
        assert (await reader.get(f"{path}?{query}")).status_code == 200, path


@pytest.mark.parametrize("cookie", ["", "Mars%2FOlympus", "../../etc/passwd", "Europe", "%00", "a" * 2_000])
async def test_an_unknown_zone_is_utc(reader: Browser, cookie: str) -> None:
    reader.set_cookie("localhost", "zone", cookie)

    assert "UTC" in text_of(await html_of(reader, "/runs"))


@pytest.fixture
def of_berlin(app: Quart) -> Iterator[Browser]:
    """Somebody at a server whose TIME_ZONE is Berlin's."""
    before: Services = app.extensions[EXTENSION]
    settings = before.settings.model_copy(update={"time_zone": "Europe/Berlin"})
    app.extensions[EXTENSION] = replace(before, settings=settings)
    yield app.test_client()
    app.extensions[EXTENSION] = before


async def test_the_server_s_zone_is_that_of_readers_whose_browser_names_none(of_berlin: Browser) -> None:
    before = text_of(await html_of(of_berlin, "/runs"))
    of_berlin.set_cookie("localhost", "zone", "UTC")
    after = text_of(await html_of(of_berlin, "/runs"))

    assert "Berlin time" in before
    assert "Berlin time" not in after
    assert "UTC" in after


async def test_the_zone_that_a_user_chose_is_before_that_of_the_browser_until_it_is_emptied(
    invite: Invite, project_id: str
) -> None:
    user, _ = await invite(Role.VIEWER, project_id)
    user.set_cookie("localhost", "zone", "Asia%2FTokyo")
    seen = [text_of(await html_of(user, "/runs"))]
    for name in (" America/New_York ", ""):
        response = await user.post("/account/time-zone", form={"zone": name})
        assert (response.status_code, response.headers["Location"]) == (303, "/account")
        assert "Max-Age=31536000" in "; ".join(response.headers.getlist("Set-Cookie"))
        account = await html_of(user, "/account")
        assert "Time zone saved." in text_of(account)
        assert Outline(account).by_id("time-zone")["value"] == name.strip()
        seen.append(text_of(await html_of(user, "/runs")))

    for text, zone in zip(seen, ("Tokyo", "New York", "Tokyo"), strict=True):
        assert f"{zone} time" in text


async def test_the_account_lists_the_zones(invite: Invite) -> None:
    user, _ = await invite(Role.VIEWER)

    outline = Outline(await html_of(user, "/account"))

    assert outline.by_id("time-zone")["list"] == "zones"
    assert {"UTC", "Europe/Berlin", "Asia/Kolkata"} <= {option["value"] for option in outline.all("option")}


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "../../etc/passwd", "a" * 2_000])
async def test_a_name_that_is_no_zone_is_said_at_its_field_and_changes_nothing(invite: Invite, name: str) -> None:
    user, _ = await invite(Role.VIEWER)

    response = await user.post("/account/time-zone", form={"zone": name})
    html = await response.get_data(as_text=True)

    assert response.status_code == 422
    assert "Set-Cookie" not in response.headers
    assert "No such time zone; choose one of the list, such as Europe/Berlin." in text_of(html)
    assert Outline(html).by_id("time-zone")["value"] == name
    assert Outline(html).by_id("time-zone")["aria-invalid"] == "true"


def times_of(html: str) -> dict[str, str | None]:
    """What a form says of its times."""
    names = {"since", "until", "zone", "later"}
    return {name: field["value"] for field in Outline(html).all("input") if (name := field.get("name")) in names}


async def test_a_day_that_begins_at_half_past_an_hour_of_utc_says_which_hours_it_covers(
    reader: Browser, post: Post, project_id: str
) -> None:
    """Sums are stored by hours of UTC, and a day of India begins at 18:30 UTC."""
    await post(make_run())
    pages = (f"/projects/{project_id}?range=yesterday", f"/runs?project={project_id}&range=yesterday")

    for zone, period in (("Asia%2FKolkata", "Yesterday (23:30 to 23:30)"), ("Asia%2FTokyo", "Yesterday")):
        reader.set_cookie("localhost", "zone", zone)
        for page in pages:
            text = text_of(await html_of(reader, page))

            assert period in text, page
            assert ("(23:30" in text) is (zone == "Asia%2FKolkata"), page
