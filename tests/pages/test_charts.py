"""The JSON that charts are drawn from."""

import re

import pytest
from quart.typing import TestClientProtocol as Browser

from tests.factories import make_run
from tests.pages.conftest import Post
from tests.pages.looking import html_of
from webapp.charts.series import MAX_LINES


@pytest.mark.parametrize("name", ["cost", "runs", "errors", "latency", "tokens"])
@pytest.mark.parametrize("range_", ["24h", "7d", "30d"])
async def test_a_chart_is_a_spec_with_its_rows_and_tooltips(
    reader: Browser, post: Post, project_id: str, name: str, range_: str
) -> None:
    await post(make_run(), make_run(status="error"))

    response = await reader.get(f"/charts/{name}.json?project={project_id}&range={range_}")

    chart = await response.get_json()
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert chart["spec"]["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    assert len(chart["tips"]) in {24, 28, 30, 96, 120, 168}


async def test_the_cost_chart_is_split_as_asked(reader: Browser, post: Post, project_id: str) -> None:
    # Names of this test alone, whose colours no other chart has given yet.
    large, small, other = (f"{name}-{project_id}" for name in ("large", "small", "other"))
    await post(make_run(model=large, costUSD=0.005), make_run(model=small, costUSD=0.015))
    await post(make_run(provider="zeta", model=other, costUSD=1))
    await post(make_run(status="timeout", provider="zeta", model=other, costUSD=2))

    models = await (await reader.get(f"/charts/cost.json?project={project_id}")).get_json()
    providers = await (await reader.get(f"/charts/cost.json?project={project_id}&by=provider")).get_json()
    statuses = await (await reader.get(f"/charts/cost.json?project={project_id}&by=status")).get_json()

    # From the top of the stack down.
    assert [name for name, _ in models["rows"]] == [large, small, other]
    assert [name for name, _ in providers["rows"]] == ["acme", "zeta"]
    assert [name for name, _ in statuses["rows"]] == ["Timeout", "Success"]
    assert len({slot for _, slot in models["rows"]}) == 3
    totals = {chart["tips"][-1]["total"] for chart in (models, providers, statuses)}
    assert totals == {"$3.02"}


async def test_a_model_without_a_line_keeps_its_colour_in_the_list(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(*(make_run(provider="zeta", model=f"z{number}", costUSD=number + 1) for number in range(7)))

    def colours(html: str) -> list[str]:
        models = html.partition('id="models')[2].partition("</section>")[0]
        return re.findall(r'class="swatch (\w+)"', models)

    by_cost = await html_of(reader, f"/projects/{project_id}")
    by_latency = await html_of(reader, f"/projects/{project_id}?metric=latency")
    lines = await (await reader.get(f"/charts/latency.json?project={project_id}&by=model")).get_json()

    assert len(lines["rows"]) == MAX_LINES
    assert "other" not in colours(by_cost)
    assert colours(by_latency) == colours(by_cost)


@pytest.mark.parametrize("by", ["none", "model", "provider", "status", "user"])
@pytest.mark.parametrize("range_", ["24h", "7d", "30d", "90d"])
async def test_the_cached_share_is_that_of_the_runs_however_they_are_grouped(
    reader: Browser, post: Post, project_id: str, by: str, range_: str
) -> None:
    await post(*[make_run(inputTokens=200, cachedInputTokens=cached, userId="ada") for cached in (20, 80)])

    chart = await (await reader.get(f"/charts/cache.json?project={project_id}&by={by}&range={range_}")).get_json()

    assert chart["tips"][-1]["values"][0] == "25.00%"


async def test_an_unknown_chart_is_not_found(reader: Browser) -> None:
    assert (await reader.get("/charts/love.json")).status_code == 404
