"""The pages Errors, Speed and Cache of a project."""

import re
from html import unescape

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from runtally.runs import failures, speed
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import Outline, html_of, text_of


@pytest.fixture
async def project(post: Post, project_id: str) -> str:
    """A project with failed runs, one of them made up for, runs of different speed, and some use of a cache."""
    await post(
        make_run(runId="limited", status="error", errorCode="rate_limit", traceId="t", timestamp=ago(minutes=9)),
        make_run(runId="again", traceId="t", timestamp=ago(minutes=8), latencyMs=2_000, timeToFirstTokenMs=300),
        make_run(runId="late", status="timeout", latencyMs=60_000, timestamp=ago(minutes=7)),
        make_run(runId="odd", status="error", model="acme-cached", timestamp=ago(minutes=6)),
        make_run(
            model="acme-cached",
            inputTokens=100_000,
            cachedInputTokens=25_000,
            cacheWriteTokens=60_000,
            metadata={"feature": "search"},
            latencyMs=None,
        ),
    )
    return f"/projects/{project_id}"


async def test_errors_are_counted_by_kind_and_model_with_the_latest_of_each(reader: Browser, project: str) -> None:
    html = await html_of(reader, f"{project}/errors")

    text = text_of(html)
    assert "Failed runs 3 of 5 Error rate 60.00% Timeouts 1" in text
    assert "3 failures; 1 followed by a success of the same model in the same trace." in text
    assert "Failed runs by kind, per 6 hours" in text
    for kind in ("rate_limit", "timeout", "(no code)"):
        assert f"{kind} acme-" in text
    links = [link["href"] for link in Outline(html).all("a")]
    assert {f"{project}/runs/{name}" for name in ("limited", "late", "odd")} <= set(links)
    assert "Latest failures" in text


async def test_who_may_not_see_runs_sees_what_failed_but_no_run(
    signed_in: SignIn, project: str, project_id: str
) -> None:
    browser = await signed_in(project_id, Scope.METRICS_READ)

    html = await html_of(browser, f"{project}/errors")

    assert "rate_limit" in html
    assert "/runs/" not in html
    assert "Latest failures" not in html
    assert f"{project}/sessions" not in html


async def test_a_page_of_too_many_failures_says_since_when_it_tells_them_apart(
    reader: Browser, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_FAILED_RUNS", 1)
    monkeypatch.setattr(failures, "MAX_RUNS_OF_TRACES", 0)

    text = text_of(await html_of(reader, f"{project}/errors"))

    assert "Only failures since" in text
    # What is kept as sums is still said of all of the range.
    assert "Failed runs 3 of 5" in text


async def test_speed_is_told_by_model_and_one_model_can_be_looked_at(reader: Browser, project: str) -> None:
    html = await html_of(reader, f"{project}/speed")

    text = text_of(html)
    assert "p50 latency 800 ms p95 latency 1 min p99 latency 1 min" in text
    assert "Output tokens per second 250 median run that succeeded Time to first token 300 ms median" in text
    assert "p95 latency by model, per 6 hours" in text
    data = await (await reader.get(f"/charts/speed.json?project={project.removeprefix('/projects/')}")).get_json()
    assert len({row["slot"] for row in data["spec"]["datasets"]["points"]}) == 2
    chosen = f"{project}/speed?provider=acme&model=acme-cached"
    assert chosen in [link["href"] for link in Outline(html).all("a")]
    one = await html_of(reader, f"{chosen}&measure=p50")
    assert "p50 latency of acme-cached, per 6 hours" in text_of(one)
    assert "p50 latency 800 ms p95 latency 800 ms" in text_of(one)
    [chip] = [link for link in Outline(one).all("a") if link.get("class") == "chip"]
    assert chip["href"] == f"{project}/speed?measure=p50"
    assert Outline(one).by_id("range-30d")["href"] == (
        f"{project}/speed?range=30d&measure=p50&provider=acme&model=acme-cached"
    )


async def test_speed_is_told_by_a_tracked_key_and_one_value_can_be_looked_at(reader: Browser, project: str) -> None:
    html = await html_of(reader, f"{project}/speed?by=feature")

    text = text_of(html)
    assert "p95 latency by feature, per 6 hours" in text
    assert "By feature" in text
    data = await (
        await reader.get(f"/charts/speed.json?by=feature&measure=rate&project={project.removeprefix('/projects/')}")
    ).get_json()
    assert len({row["slot"] for row in data["spec"]["datasets"]["points"]}) == 2
    chosen = f"{project}/speed?by=feature&value=search"
    assert chosen in [link["href"] for link in Outline(html).all("a")]
    one = await html_of(reader, f"{chosen}&measure=p50")
    assert "p50 latency of search, per 6 hours" in text_of(one)
    [chip] = [link for link in Outline(one).all("a") if link.get("class") == "chip"]
    assert chip["href"] == f"{project}/speed?measure=p50&by=feature"
    assert any("metadata.feature=search" in (link["href"] or "") for link in Outline(one).all("a"))


async def test_speed_of_very_many_runs_says_since_when(
    reader: Browser, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "MAX_RUNS", 2)

    assert "Based on the newest" in text_of(await html_of(reader, f"{project}/speed"))


async def test_the_use_of_caches_is_told_by_model_and_by_tracked_key(reader: Browser, project: str) -> None:
    html = await html_of(reader, f"{project}/cache")

    text = text_of(html)
    # 25,000 of 104,000 input tokens.
    assert "Hit rate 24.0% of input read from a cache" in text
    assert "Tokens read 25.0k from a cache Tokens written 60.0k to a cache Written, never read 35.0k or more" in text
    assert "Cached share of input by model, per 6 hours" in text
    assert "acme-cached acme acme · 101k input 24.8% 101k 25.0k 60.0k 35.0k $0.0225" in text
    by_feature = text_of(await html_of(reader, f"{project}/cache?by=feature&chart=tokens"))
    assert "By feature" in by_feature
    assert "search 100k input 25.0% 100k 25.0k 60.0k $0.0225" in by_feature
    assert "(none) 4,000 input 0%" in by_feature
    assert "Tokens read from a cache and written to one, per 6 hours" in by_feature


@pytest.mark.parametrize("page", ["errors", "speed", "cache"])
async def test_a_range_without_runs_offers_a_longer_one(
    reader: Browser, post: Post, project_id: str, page: str
) -> None:
    await post(make_run(timestamp=ago(days=20)))

    html = await html_of(reader, f"/projects/{project_id}/{page}?range=24h")

    assert "in this range. Pick a longer range: 30d or 12 months." in text_of(html)
    # The switch between the pages keeps the range, as the tabs do.
    outline = Outline(html)
    assert outline.by_id("part-cache")["href"] == f"/projects/{project_id}/cache?range=24h"


@pytest.mark.parametrize(
    "chart",
    [
        "failures.json?",
        "speed.json?measure=rate&",
        "speed.json?provider=acme&model=acme-large&",
        "cache-use.json?chart=tokens&",
    ],
)
async def test_each_chart_comes_as_data_too(reader: Browser, project: str, project_id: str, chart: str) -> None:
    assert project
    response = await reader.get(f"/charts/{chart}project={project_id}")

    data = await response.get_json()
    assert response.status_code == 200
    assert len(data["tips"]) == 28
    assert any(tip["values"] for tip in data["tips"])


async def test_names_that_no_run_can_have_are_not_found(reader: Browser, project: str) -> None:
    await html_of(reader, f"{project}/speed?provider=a&model=%00", 404)


async def test_a_range_of_latency_or_cost_leads_to_as_many_runs_as_it_says(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(
        *(make_run(latencyMs=latency) for latency in (99, 100, 199, 200, 4_000, 90_000, None)),
        make_run(model="none-such", latencyMs=150),
        make_run(inputTokens=0, outputTokens=0, latencyMs=120),
        make_run(inputTokens=90_000, timestamp=ago(days=9)),
    )
    html = await html_of(reader, f"/projects/{project_id}/speed")

    latency, cost = (
        html.partition(f'<h2 id="{one}">')[2].partition("</section>")[0] for one in ("by-latency", "by-cost")
    )
    assert "Less than 100 ms 13% 1" in text_of(latency)
    assert "100 ms to 200 ms 50% 4" in text_of(latency)
    assert "500 ms to 1 s 0% 0" in text_of(latency)
    assert "1 min or more 13% 1" in text_of(latency)
    assert "1 more run has no latency." in text_of(latency)
    assert "Less than $0.0001 13% 1" in text_of(cost)
    assert "$0.01 to $0.02 88% 7" in text_of(cost)
    assert "1 more run has no price." in text_of(cost)
    links = re.findall(
        r'<a class="bars-row" href="([^"]+)">.*?<span class="amount">(\d+)</span>', latency + cost, re.DOTALL
    )
    assert len(links) == 7
    for url, runs in links:
        listed = text_of(await html_of(reader, unescape(url)))
        assert f"{runs} run{'' if runs == '1' else 's'}" in listed, url


async def test_counts_of_very_many_runs_lead_to_those_that_were_counted(
    reader: Browser, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "MAX_RUNS", 2)

    html = await html_of(reader, f"{project}/speed")

    urls = re.findall(r'<a class="bars-row" href="([^"]+)">', html)
    assert urls
    assert all("since=" in url and "range=all" in url for url in urls)


async def test_who_may_not_see_single_runs_gets_no_links_to_them(
    signed_in: SignIn, project: str, project_id: str
) -> None:
    html = await html_of(await signed_in(project_id, Scope.METRICS_READ), f"{project}/speed")

    assert "Runs by latency" in html
    assert '<a class="bars-row"' not in html
