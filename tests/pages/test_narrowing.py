"""A project's page of some of its runs, of a time of one's own choice, and live."""

import json
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.clock import system_clock
from tests.factories import make_run
from tests.pages.conftest import Post, ago
from tests.pages.looking import PARTIAL, Outline, html_of, part_of, text_of
from webapp.pages.panel.grouping import MAX_BARS


@pytest.fixture
async def page(post: Post, project_id: str) -> str:
    """A page with runs of two models, three statuses and an experiment."""
    await post(
        *(make_run(latencyMs=100) for _ in range(4)),
        *(make_run(provider="bolt", model="b/1 & more", status="error", experimentId="v2") for _ in range(2)),
        make_run(provider="bolt", model="b2", status="timeout", latencyMs=9000),
    )
    return f"/projects/{project_id}"


def rows(html: str) -> dict[str, str]:
    """The address of each row of the lists, by its name."""
    found = {}
    for row in html.split('<a class="bars-row"')[1:]:
        name = row.partition('class="bars-name">')[2].partition('<span class="share"')[0]
        found[text_of(name)] = unescape(row.split('href="', 1)[1].split('"', 1)[0])
    return found


async def test_a_row_of_a_list_leads_to_its_runs_alone(reader: Browser, page: str) -> None:
    html = await html_of(reader, page)

    urls = rows(html)
    assert parse_qs(urlsplit(urls["b/1 & more"]).query) == {"model": ["b/1 & more"]}
    assert urls["bolt"] == f"{page}?provider=bolt"
    assert urls["v2"] == f"{page}?experiment=v2"
    assert urls["Timeout"] == f"{page}?status=timeout"
    for name, runs in (("b/1 & more", 2), ("bolt", 3), ("v2", 2), ("Timeout", 1)):
        assert f"Runs {runs}" in text_of(await html_of(reader, urls[name])), name


async def test_failed_runs_are_listed_by_kind_and_each_leads_to_its_runs(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(
        *(make_run(status="error", errorCode="rate_limit") for _ in range(3)),
        make_run(status="error"),
        make_run(status="timeout"),
        make_run(),
    )
    page = f"/projects/{project_id}"

    html = await html_of(reader, page)

    assert "Errors by kind See errors" in text_of(html)
    # Shares are of the failed runs, and the longest bar is that of the most frequent kind.
    assert "rate_limit 60% 3" in text_of(html)
    assert "Success" not in rows(html)
    # The other errors have no filter of their own.
    assert "Error, no code 20% 1" in text_of(html)
    urls = rows(html)
    assert urls["rate_limit"] == f"{page}?errorCode=rate_limit"
    assert urls["Timeout"] == f"{page}?status=timeout"
    assert "Error, no code" not in urls
    assert "Runs 3" in text_of(await html_of(reader, urls["rate_limit"]))


async def test_of_many_error_codes_the_most_frequent_have_a_row_each_and_all_others_one(
    reader: Browser, post: Post, project_id: str
) -> None:
    codes = [f"request-{number:03}" for number in range(MAX_BARS + 7)]
    await post(
        *(make_run(status="error", errorCode=code) for code in codes),
        *(make_run(status="error", errorCode=codes[-1]) for _ in range(2)),
        make_run(status="error"),
    )

    html = await html_of(reader, f"/projects/{project_id}")

    shown = [name for name in rows(html) if name.startswith("request-")]
    assert shown == [codes[-1], *codes[: MAX_BARS - 1]]
    assert "7 other codes 12% 7" in text_of(html)
    assert "Error, no code 2% 1" in text_of(html)


async def test_filters_add_up_and_each_can_be_taken_away(reader: Browser, page: str) -> None:
    html = await html_of(reader, f"{page}?provider=bolt&status=error&range=24h&metric=runs")

    assert "Runs 2" in text_of(html)
    chips = [link for link in Outline(html).all("a") if link.get("class") == "chip"]
    assert [link["href"] for link in chips] == [
        f"{page}?status=error&range=24h&metric=runs",
        f"{page}?provider=bolt&range=24h&metric=runs",
    ]
    # A row that is chosen lets all others in again; how the runs ended is no list where it is one for all.
    chosen = [link for link in Outline(html).all("a") if link.get("class") == "bars-row" and "aria-current" in link]
    assert [link["href"] for link in chosen] == [chips[0]["href"]]
    assert "Errors by kind" not in text_of(html)
    assert "/runs?project=" in html


async def test_ranges_figures_and_charts_keep_the_filters(reader: Browser, page: str) -> None:
    outline = Outline(await html_of(reader, f"{page}?model=b2"))

    assert outline.by_id("range-24h")["href"] == f"{page}?model=b2&range=24h"
    assert outline.by_id("kpi-runs")["href"] == f"{page}?model=b2&metric=runs"
    src = outline.by_id("latency-chart-plot")["data-chart-src"] or ""
    assert "model=b2" in src
    payload = json.loads(await (await reader.get(src)).get_data())
    known = [row["y"] for row in payload["spec"]["datasets"]["points"] if row["y"] is not None]
    # p95 and p50.
    assert known == [pytest.approx(9000, rel=0.01)] * 2


async def test_a_filter_without_matches_says_so(reader: Browser, page: str) -> None:
    text = text_of(await html_of(reader, f"{page}?model=none-such"))

    assert "No matching runs." in text
    assert "Remove Model none-such" in text


async def test_an_invalid_filter_is_ignored(reader: Browser, page: str) -> None:
    said = text_of(await html_of(reader, f"{page}?status=bad&since=x&until=y&model=&key=1"))

    assert "Runs 7" in said
    assert "The filter status must be one of success, failed, error, timeout, so it is left out." in said
    assert "The filter key must be the id of a key, so it is left out." in said
    text = text_of(await html_of(reader, f"{page}?model=%00"))
    assert "The filter model must be a text of at most 256 characters, so it is left out." in text


async def test_what_there_is_not_is_said_and_the_usual_is_shown(reader: Browser, page: str) -> None:
    text = text_of(await html_of(reader, f"{page}?range=99y&metric=love&by=feature"))

    assert "There is no range \u201c99y\u201d; the last 7 days are shown instead." in text
    assert "There is no metric \u201clove\u201d; cost is shown instead." in text
    assert "Runs cannot be grouped by \u201cfeature\u201d; they are grouped by model instead." in text
    assert "Cost by model, per 6 hours" in text
    plain = text_of(await html_of(reader, f"{page}?range=24h&metric=runs&by=metadata.feature"))
    assert "instead" not in plain
    assert "Runs by feature, per hour" in plain


async def test_a_time_of_ones_own_counts_its_runs_alone(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(timestamp=ago(days=3)), make_run(timestamp=ago(days=3)), make_run())
    day = (system_clock() - timedelta(days=4)).replace(hour=0, minute=0)
    since, until = f"{day:%Y-%m-%dT%H:%M}", f"{day + timedelta(days=2):%Y-%m-%dT%H:%M}"
    page = f"/projects/{project_id}"

    html = await html_of(reader, f"{page}?since={since}&until={until}")

    assert "Runs 2" in text_of(html)
    outline = Outline(html)
    assert outline.by_id("range-since")["value"] == since
    assert outline.by_id("range-until")["value"] == until
    assert not [
        link for link in outline.all("a") if (link.get("id") or "").startswith("range-") and "aria-current" in link
    ]
    # It is over, so there is nothing to look on to.
    assert "live-switch" not in outline.ids()
    assert "so far" not in html


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2026-11-02T00:00", "2026-11-01T00:00"),
        ("2020-01-01T00:00", "2026-01-01T00:00"),
        ("x", ""),
        ("", "2026-11-01T00:00"),
    ],
)
@pytest.mark.parametrize("headers", [{}, PARTIAL], ids=["page", "part"])
async def test_an_invalid_time_is_an_error_that_can_be_corrected(
    reader: Browser, page: str, since: str, until: str, headers: dict[str, str]
) -> None:
    response = await reader.get(f"{page}?since={since}&until={until}", headers=headers)
    html = await response.get_data(as_text=True)

    outline = Outline(html)
    assert (
        "Choose a start before the end, at most two years apart; clocks that go forward skip an hour. Shown instead: Last 7 days."
        in text_of(html)
    )
    assert "open" in outline.by_id("range-menu")
    assert (outline.by_id("range-since")["value"], outline.by_id("range-until")["value"]) == (since, until)
    assert "Runs 7" in text_of(html)


async def test_the_form_for_a_time_keeps_the_other_choices(reader: Browser, page: str) -> None:
    outline = Outline(await html_of(reader, f"{page}?model=b2&metric=runs&range=24h&live=1"))

    hidden = {field["name"]: field["value"] for field in outline.all("input") if field.get("type") == "hidden"}
    assert {name: hidden[name] for name in hidden if name != "here"} == {"model": "b2", "metric": "runs"}


async def test_each_bar_leads_to_its_time_alone(reader: Browser, page: str) -> None:
    outline = Outline(await html_of(reader, f"{page}?model=b2&metric=runs"))
    links = [
        link["href"] or ""
        for link in outline.all("a")
        if "since=" in (link["href"] or "") and "/runs" not in (link["href"] or "")
    ]

    assert len(links) == 28
    assert "data-chart-narrows" in outline.by_id("main-chart-plot")
    assert "data-chart-narrows" not in outline.by_id("errors-chart-plot")
    html = await html_of(reader, links[-1])
    assert "Runs 1" in text_of(html)
    assert "Runs by model, per 15 minutes" in html or "Runs by model, per hour" in html
    assert "Remove Model b2" in text_of(html)


async def test_a_quarter_of_an_hour_is_as_short_as_it_gets(reader: Browser, page: str) -> None:
    # Of few runs a day's chart has hours; those of an hour are always quarters.
    hour = system_clock().replace(minute=0)
    since, until = f"{hour - timedelta(hours=1):%Y-%m-%dT%H:%M}", f"{hour:%Y-%m-%dT%H:%M}"

    html = await html_of(reader, f"{page}?since={since}&until={until}&metric=errors")

    assert "data-chart-narrows" not in html


async def test_live_mode_asks_for_the_page_as_it_is(reader: Browser, page: str) -> None:
    assert Outline(await html_of(reader, f"{page}?model=b2")).by_id("live-switch")["href"] == f"{page}?model=b2&live=1"

    outline = Outline(await part_of(reader, f"{page}?model=b2&live=1"))

    assert outline.by_id("live-switch")["href"] == f"{page}?model=b2"
    asked = outline.by_id("live")
    assert asked["hx-get"] == f"{page}?model=b2&live=1"
    assert asked["hx-push-url"] == "false"


@pytest.mark.parametrize("part", ["errors", "speed", "cache", "sessions", "traces", "agents"])
async def test_live_mode_is_on_the_pages_beside_and_kept_by_their_links(
    reader: Browser, page: str, project_id: str, part: str
) -> None:
    outline = Outline(await html_of(reader, f"{page}/{part}?range=24h&live=1"))

    assert outline.by_id("live-switch")["href"] == f"{page}/{part}?range=24h"
    assert outline.by_id("live")["hx-get"] == f"{page}/{part}?range=24h&live=1"
    assert outline.by_id("live")["hx-target"] == f"#{'sessions' if part == 'traces' else part}"
    assert f"{page}/{part}?range=30d&live=1" in [link["href"] for link in outline.all("a")]
    over = await html_of(reader, f"{page}/{part}?since=2026-01-01T00:00&until=2026-01-02T00:00")
    assert "live-switch" not in Outline(over).ids()


async def test_live_mode_is_on_the_breakdown(reader: Browser, page: str, project_id: str) -> None:
    url = f"/breakdown?project={project_id}&by=status"

    outline = Outline(await html_of(reader, f"{url}&live=1"))

    assert outline.by_id("live")["hx-get"] == f"{url}&live=1"
    assert outline.by_id("live-switch")["href"] == url


async def test_the_causes_of_a_change_are_named(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        *(make_run(timestamp=ago(days=days)) for days in (9, 10, 15)),
        *(make_run(timestamp=ago(days=1)) for _ in range(3)),
    )

    page = await html_of(reader, f"/projects/{project_id}")
    html = await html_of(reader, f"/why?project={project_id}")

    assert f"/why?project={project_id}" in page
    assert "Cost is $0.0105 more than in the previous period." in text_of(html)
    assert "acme-large more runs" in text_of(html)


async def test_the_overview_takes_a_time_and_any_filter(reader: Browser, page: str, project_id: str) -> None:
    since = quote(f"{system_clock() - timedelta(hours=2):%Y-%m-%dT%H:%M}")
    until = quote(f"{system_clock() + timedelta(hours=1):%Y-%m-%dT%H:%M}")
    time = f"since={since}&until={until}"

    plain = await html_of(reader, f"/?{time}&live=1&q={project_id}")
    html = await html_of(reader, f"/?{time}&status=error&experiment=v2&live=1")

    for one in (plain, html):
        assert 'id="live"' in one
        link = next(link["href"] for link in Outline(one).all("a") if (link["href"] or "").startswith(f"{page}?"))
        assert {"since", "until"} <= set(parse_qs(urlsplit(link or "").query))
        assert "live" not in parse_qs(urlsplit(link or "").query)
    assert "chip" not in plain
    # Which projects are compared depends on the filter: of some runs they are a list among others.
    assert parse_qs(urlsplit(link or "").query)["experiment"] == ["v2"]
    assert "Projects Cost" in text_of(html)


async def test_of_all_projects_an_older_time_is_whole_hours_and_of_one_it_stays_as_it_is(
    reader: Browser, post: Post, project_id: str
) -> None:
    hour = (system_clock() - timedelta(days=20)).replace(minute=0, second=0)
    await post(*(make_run(timestamp=(hour + timedelta(minutes=after)).isoformat()) for after in (5, 20, 50, 70)))
    time = "&".join(
        f"{name}={quote(f'{hour + timedelta(minutes=after):%Y-%m-%dT%H:%M}')}"
        for name, after in (("since", 15), ("until", 45))
    )
    query = f"{time}&q={project_id}"

    for page, said, edges in (("/", "3 runs · 0% errors", (0, 60)), (f"/projects/{project_id}", "Runs 1", (15, 45))):
        html = await html_of(reader, f"{page}?{query}")
        outline = Outline(html)
        shown = (outline.by_id("range-since")["value"], outline.by_id("range-until")["value"])
        assert shown == tuple(f"{hour + timedelta(minutes=after):%Y-%m-%dT%H:%M}" for after in edges)
        assert said in text_of(html)
