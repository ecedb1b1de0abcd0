"""The project page."""

import asyncio
import re

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from runtally.db.database import POOL_SIZE
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import Outline, html_of, text_of
from webapp import formats

# Of the acme-large run that the factory makes: 1000 tokens at $3 and 500 at $15 per million.
COST_OF_A_RUN = "$0.0105"


async def test_a_project_shows_its_figures(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), make_run(status="error", latencyMs=4000))

    text = text_of(await html_of(reader, f"/projects/{project_id}"))

    assert f"{project_id} Last 7 days" in text
    assert "Cost $0.0210" in text
    assert "Runs 2 $0.0105 per run" in text
    assert "Error rate 50.00% 1 failed run" in text
    assert "p95 latency 4.0 s p50 800 ms" in text
    assert "Tokens 3,000 2,000 in · 1,000 out" in text


async def test_a_link_leads_to_the_runs_with_the_same_filter(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    html = await html_of(reader, f"/projects/{project_id}?range=30d&status=error")

    assert f'<a href="/runs?project={project_id}&amp;status=error&amp;range=30d">Runs</a>' in html


async def test_the_slowest_and_the_costliest_runs_are_those_of_what_is_looked_at(
    reader: Browser, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(
        make_run(runId="slow", latencyMs=90_000),
        make_run(runId="dear", inputTokens=900_000, latencyMs=10),
        make_run(runId="dear-but-old", inputTokens=990_000, timestamp=ago(days=9)),
        make_run(runId="slow-but-failed", latencyMs=99_000, status="timeout"),
        *(make_run() for _ in range(5)),
    )

    async def highest(browser: Browser, query: str = "") -> list[str]:
        html = await html_of(browser, f"/projects/{project_id}{query}")
        lists = [part.split("</section>")[0] for part in html.split('<section class="card runs"')[1:]]
        return [part.split(f"/projects/{project_id}/runs/")[1].split('"')[0] for part in lists]

    # All that timed out took as long.
    assert await highest(reader) == ["slow", "dear"]
    assert await highest(reader, "?status=success") == ["slow", "dear"]
    assert await highest(reader, "?range=30d") == ["slow", "dear-but-old"]
    assert await highest(await signed_in(project_id, Scope.METRICS_READ)) == []


async def test_more_visitors_than_connections_come_at_once(reader: Browser, post: Post, project_id: str) -> None:
    await post()
    visits = [reader.get(f"/projects/{project_id}") for _ in range(2 * POOL_SIZE)]

    assert [answer.status_code for answer in await asyncio.gather(*visits)] == [200] * len(visits)


async def test_the_tab_says_cost_range_and_name(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    html = await html_of(reader, f"/projects/{project_id}?range=24h")

    assert f"<title>{COST_OF_A_RUN} · Last 24 hours · {project_id}</title>" in html


async def test_a_run_counts_only_in_ranges_that_reach_back_to_it(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(timestamp=ago(days=3)), make_run(timestamp=ago(days=20)))

    day, week, month = [
        text_of(await html_of(reader, f"/projects/{project_id}?range={one}")) for one in ("24h", "7d", "30d")
    ]

    assert "No runs in this range. Pick a longer range: 30d or 12 months." in day
    assert "Runs 1" in week
    assert "Runs 2" in month


@pytest.mark.parametrize("query", ["range=1y", "range=", "metric=love", "by=colour", "range=7d&range=24h"])
async def test_invalid_parameters_of_a_url_are_ignored(
    reader: Browser, post: Post, project_id: str, query: str
) -> None:
    await post()

    text = text_of(await html_of(reader, f"/projects/{project_id}?{query}"))

    assert "Last 7 days" in text
    assert "Cost by model, per 6 hours" in text


@pytest.mark.parametrize(
    ("metric", "headings"),
    [
        ("cost", ["Cost by model, per 6 hours", "Error rate, per 6 hours", "p95 latency, per 6 hours"]),
        ("runs", ["Runs by model, per 6 hours", "Error rate, per 6 hours", "p95 latency, per 6 hours"]),
        ("errors", ["Error rate by model, per 6 hours", "p95 latency, per 6 hours", "Cost, per 6 hours"]),
        ("latency", ["p95 latency by model, per 6 hours", "Error rate, per 6 hours", "Cost, per 6 hours"]),
        ("tokens", ["Tokens by model, per 6 hours", "Error rate, per 6 hours", "p95 latency, per 6 hours"]),
    ],
)
async def test_a_figure_chooses_the_main_chart_and_the_others_follow(
    reader: Browser, post: Post, project_id: str, metric: str, headings: list[str]
) -> None:
    await post()

    html = await html_of(reader, f"/projects/{project_id}?metric={metric}")

    shown = [part.split("</h2>")[0].split(">", 1)[1] for part in html.split("<h2")[1:]]
    assert shown[:3] == headings
    chosen = [link["id"] for link in Outline(html).all("a") if link.get("aria-current") == "true"]
    assert f"kpi-{metric}" in chosen


async def test_cost_can_be_split_by_provider(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), make_run(provider="zeta", model="z1", costUSD=1))

    html = await html_of(reader, f"/projects/{project_id}?by=provider")

    assert "Cost by provider, per 6 hours" in html
    assert f"/charts/cost.json?project={project_id}&amp;by=provider" in html


async def test_changes_are_against_the_previous_period(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(),
        make_run(status="error", latencyMs=1600),
        make_run(timestamp=ago(days=8)),
        make_run(timestamp=ago(days=15)),
    )

    text = text_of(await html_of(reader, f"/projects/{project_id}"))

    assert "Last 7 days against the 7 days before" in text
    assert "↑ 100%up 100% against the previous period" in text
    assert "↑ 50.00 ppup 50.00 percentage points against the previous period" in text


async def test_models_and_providers_are_listed_by_cost(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), make_run(model="acme-cached"), make_run(provider="zeta", model="z1", costUSD=0.021))

    text = text_of(await html_of(reader, f"/projects/{project_id}"))

    assert "Models Compare models → Cost z1 50% $0.0210 acme-cached 25% $0.0105 acme-large 25% $0.0105" in text
    assert "Providers Compare providers → Cost acme 50% $0.0210 zeta 50% $0.0210" in text


async def test_runs_without_a_price_are_named(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), make_run(model="free-thought"), make_run(model="free-thought"), make_run(model="other"))

    text = text_of(await html_of(reader, f"/projects/{project_id}"))

    assert "3 runs have no price, so cost is a minimum. They used free-thought and other." in text
    assert "$0.0105 or more" in text


async def test_runs_that_report_no_usage_and_units_without_a_price_are_named(
    reader: Browser, post: Post, project_id: str
) -> None:
    empty = make_run(inputTokens=None, outputTokens=None, runId="empty")
    await post(make_run(), empty, make_run(model="acme-cached", inputTokens=None, outputTokens=None))
    await post(make_run(units={"made up": 3}, runId="more"))

    text = text_of(await html_of(reader, f"/projects/{project_id}"))
    runs = text_of(await html_of(reader, f"/runs?project={project_id}"))
    one, more = [
        text_of(await html_of(reader, f"/projects/{project_id}/runs/{run_id}")) for run_id in ("empty", "more")
    ]

    assert "2 runs report no usage, neither tokens nor a cost, and count as $0.00: acme-cached, acme-large." in text
    assert "1 run has units without a price, so cost is a minimum." in text
    assert "$0.0210 or more" in text
    assert runs.count("no usage") == 2
    assert "The run reports neither tokens nor other units nor a cost" in one
    assert "or more" in more
    assert "made up 3" in more


async def test_without_any_price_there_is_no_cost_rather_than_nothing_to_pay(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(model="free-thought"))

    text = text_of(await html_of(reader, f"/projects/{project_id}"))

    assert "1 run has no price, so cost is not known. It used free-thought." in text
    assert f"Cost {formats.NOTHING} no run has a price" in text
    assert "No run in this range has a price. Choose another figure above" in text
    assert "Runs by model, per" in text_of(await html_of(reader, f"/projects/{project_id}?metric=runs"))


async def test_an_unknown_project_is_not_found_with_advice(reader: Browser, project_id: str) -> None:
    text = text_of(await html_of(reader, f"/projects/{project_id}", 404))

    assert "We can't find that page" in text
    assert "A project appears with its first run; check the id that it is sent." in text


@pytest.mark.parametrize(
    "end",
    ["/b", "//b", "/", "/../b", "/..", "/.", "/~..", "?x#y%2F", "/charts/cost.json", " ünï\n", '<b onclick="x">&amp;'],
)
async def test_any_id_has_a_page_that_the_overview_links_to(
    reader: Browser, post: Post, project_id: str, end: str
) -> None:
    await post(to=f"{project_id}{end}")
    overview = Outline(await html_of(reader, f"/?range=24h&q={project_id}"))

    # A browser takes dots out of a path by itself.
    links = [link["href"] or "" for link in overview.all("a")]
    hrefs = [href for href in links if f"/projects/{project_id}" in href and "/runs/" not in href]
    assert len(hrefs) == 1
    assert not {".", ".."} & set(hrefs[0].partition("?")[0].split("/"))
    text = text_of(await html_of(reader, hrefs[0]))

    assert " ".join(f"{project_id}{end} Last 24 hours".split()) in text


async def test_an_id_may_start_with_a_slash_or_be_dots(reader: Browser, post: Post, project_id: str) -> None:
    for id_, url in (
        (f"/{project_id}", f"/projects//{project_id}"),
        ("..", "/projects/~.."),
        ("~..", "/projects/~~.."),
    ):
        await post(to=id_)
        assert f"{id_} Last 7 days" in text_of(await html_of(reader, url))


async def test_tables_have_the_figures_of_charts(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    outline = Outline(await html_of(reader, f"/projects/{project_id}?range=24h"))

    assert len([table for table in outline.all("table") if table.get("class") == "figures"]) == 3
    boxes = [box for box in outline.all("div") if box.get("class") == "chart-plot"]
    assert [(box["role"], bool(box["aria-label"])) for box in boxes] == [("img", True)] * 3
    assert len(outline.ids()) == len(set(outline.ids()))


async def test_new_releases_are_marked_on_the_charts_of_a_project(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(timestamp=ago(days=20), metadata={"release": "v1"}),
        make_run(timestamp=ago(days=3), metadata={"release": "v1"}),
        make_run(timestamp=ago(days=2), metadata={"release": "v2"}),
    )

    html = await html_of(reader, f"/projects/{project_id}")

    assert len(re.findall(r"<summary>\s*1 release\s*</summary>", html)) == 3
    assert len(re.findall(r": release v2</bdi>\s*</li>", html)) == 3
    assert "Marked: 1 release." in html
