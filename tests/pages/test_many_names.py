"""Projects whose programs give each call a name of its own, such as the id of a request for its model."""

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from urllib.parse import unquote

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

import api
from runtally.db.database import Database
from runtally.ingest import new_names
from runtally.usage.dimensions import DIMENSIONS
from runtally.usage.read import MOST_GROUPS
from tests.factories import insert_test_prices, make_run
from tests.pages.conftest import Post, ago
from tests.pages.looking import Outline, html_of, text_of
from tests.pages.test_roles import ROUTES, path_to
from tests.serving import INGEST_KEY, settings_for
from tests.stored import until_merged
from webapp.app import create_app
from webapp.pages.experiments.experiments import MOST
from webapp.pages.panel.grouping import MAX_BARS

NAMES = 30_000
# Of models a project and day has sums of its own for so many.
NAMES_A_DAY = 5_000
MOST_BYTES = 300_000
# Files have all that there is, and are sent part by part; the OpenAPI document has none of the names.
FILES = {"runs.export_runs", "price_catalogue.download", "docs.get_openapi"}
# The counters of a process have what all tests before in it asked for.
WHOLE = {"telemetry.get_telemetry"}


@pytest.fixture
async def app(empty_database_url: str) -> AsyncIterator[Quart]:
    """The application in dev mode, with a database of its own: pages of all projects depend on what other tests stored, or dropped."""
    async with Database(empty_database_url) as database:
        await insert_test_prices(database)
    async with create_app(settings_for(empty_database_url, service_dev_mode=True)).test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture
async def crowded(empty_database_url: str) -> AsyncIterator[Quart]:
    """The application in dev mode, with a database of its own in which a project has very many of all names."""
    app, headers = create_app(settings_for(empty_database_url, service_dev_mode=True)), {"x-api-key": INGEST_KEY}
    async with app.test_app() as running:
        for first in range(0, NAMES, 1_000):
            at = ago(days=first // NAMES_A_DAY)
            runs = [_run(f"{number:05}") | {"timestamp": at} for number in range(first, first + 1_000)]
            body = {"projectId": "crowded", "runs": runs}
            response = await app.test_client().post("/api/ingest", json=body, headers=headers)
            assert response.status_code == 200, await response.get_data(as_text=True)
        async with Database(empty_database_url) as database:
            await until_merged(database)
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


def _run(name: str) -> dict[str, object]:
    return make_run(
        provider=f"vendor-{name}",
        model=f"model-{name}",
        experimentId=f"trial-{name}",
        userId=f"user-{name}",
        sessionId=f"session-{name}",
        traceId=f"trace-{name}",
        errorCode=f"code-{name}",
        tags=[f"tag-{name}"],
        metadata={"feature": f"feature-{name}", "release": f"release-{name}"},
        status="error",
        costUSD=1,
    )


async def test_every_page_and_answer_stays_small_however_many_names_there_are(crowded: Quart) -> None:
    reader, project_id = crowded.test_client(), "crowded"
    paths = [
        path_to(crowded, name, project_id)
        for name, (method, rule) in ROUTES.items()
        if method == "GET" and rule.endpoint not in FILES
    ]
    paths += [
        rule.rule
        for rule in crowded.url_map.iter_rules()
        if api.serves(rule.rule) and not rule.arguments and "GET" in (rule.methods or ())
        if rule.endpoint not in FILES | WHOLE
    ]
    paths += [f"{path}?project={project_id}" for path in paths if project_id not in path and not api.serves(path)]
    paths += [f"{path}?projectId={project_id}" for path in paths if api.serves(path)]
    for by in (*DIMENSIONS, "metadata.feature"):
        paths += [f"{path}by={by}" for path in (f"/projects/{project_id}?", f"/breakdown?project={project_id}&", "/?")]
        paths += [f"/api/usage?projectId={project_id}&groupBy={by}&format={format_}" for format_ in ("json", "csv")]
    paths += [f"/projects/{project_id}/costs?at=2026-11-01", f"/find?q=e&project={project_id}"]
    paths += [f"/api/badge/project/{project_id}?metric=cost"]

    sizes = {path: len(await (await reader.get(path)).get_data(as_text=False)) for path in paths}

    assert len(sizes) > 200
    assert {path: size for path, size in sizes.items() if size > MOST_BYTES} == {}


async def test_the_dearest_names_are_listed_and_all_others_are_one_row_with_their_sum(
    reader: Browser, post: Post, project_id: str
) -> None:
    # Of an aggregator the cost that is sent is the cost.
    await post(
        *(
            make_run(provider="openrouter", model=f"model-{number:03}", costUSD=20 if number < MAX_BARS else 1)
            for number in range(MAX_BARS + 7)
        )
    )

    html = await html_of(reader, f"/projects/{project_id}")

    listed = {one["href"] for one in Outline(html).all("a") if "model=model-" in (one.get("href") or "")}
    assert listed == {f"/projects/{project_id}?model=model-{number:03}" for number in range(MAX_BARS)}
    assert "7 others 1% $7.00" in text_of(html)
    assert "model-056" in await html_of(reader, _others(html))


async def test_the_row_of_all_others_leads_to_the_breakdown_of_the_same_runs_which_lists_them(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("panel.grouping.MAX_BARS", "breakdown.lines.MAX_GROUPS", "project.costs.MAX_ROWS"):
        monkeypatch.setattr(f"webapp.pages.{limit}", 2)
    monkeypatch.setattr("webapp.pages.breakdown.breakdown.MAX_ROWS", 2)
    names = [f"{project_id}-{number}" for number in range(4)]
    about = {"provider": "openrouter", "costUSD": 9, "region": "eu"}
    await post(*(make_run(model=name, userId=name, **about) for name in names))

    narrowed = "region=eu"
    for path, listed in {
        f"/projects/{project_id}?{narrowed}": f"/breakdown?project={project_id}&{narrowed}",
        f"/projects/{project_id}?{narrowed}&by=user": f"/breakdown?project={project_id}&{narrowed}&by=user",
        f"/?{narrowed}": f"/breakdown?{narrowed}",
        f"/lines?project={project_id}&{narrowed}&by=user": f"/breakdown?project={project_id}&{narrowed}&by=user",
    }.items():
        assert set(unquote(_others(await html_of(reader, path))).split("&")) == set(listed.split("&")), path
    await post(*(make_run(provider="openrouter", model=name, costUSD=9) for name in names))
    what_if = await html_of(reader, f"/projects/{project_id}/costs?provider=acme&model=acme-large")
    assert "2 others" in text_of(what_if)
    second = await html_of(reader, _others(what_if))
    assert [name in second for name in names] == [False, False, True, True]


async def test_the_other_projects_of_some_runs_are_on_further_pages(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("panel.grouping", "overview.overview"):
        monkeypatch.setattr(f"webapp.pages.{place}.MAX_BARS", 2)
    names = [f"{project_id}-{number}" for number in range(5)]
    for cost, name in enumerate(names):
        await post(make_run(costUSD=9 - cost, region=project_id), to=name)

    path = first = f"/?region={project_id}"
    pages = []
    while path:
        html = await html_of(reader, path)
        links = [one["href"] or "" for one in Outline(html).all("a") if one.get("class") == "bars-row"]
        pages.append([name for name in names if any(f"/projects/{name}?" in href for href in links)])
        path = next((href for href in links if "page=" in href), "")

    assert pages == [names[:2], names[2:4], names[4:]]
    assert first in {unquote(unescape(href)) for href in re.findall(r'<a href="([^"]*)">Most expensive', html)}


async def test_the_row_of_other_error_codes_leads_to_the_page_that_lists_them(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.panel.grouping.MAX_BARS", 2)
    monkeypatch.setattr("runtally.runs.failures.MAX_GROUPS", 2)
    codes = [f"code-{number}" for number in range(4)]
    await post(make_run(), *(make_run(status="error", errorCode=code, region="eu") for code in codes))

    for path, link in {
        f"/projects/{project_id}?region=eu": r'<a [^>]*href="([^"]*)"(?:(?!</a>).)*<bdi>2 other codes</bdi>',
        f"/projects/{project_id}/errors": r'2 more rows have fewer failed runs: <a href="([^"]*)">',
    }.items():
        [href] = re.findall(link, await html_of(reader, path), re.DOTALL)
        listed = text_of(await html_of(reader, unescape(href)))
        assert [code in listed for code in codes] == [True] * 4, path
        assert "(none)" not in listed


def _others(html: str) -> str:
    """Return where the row of all others leads."""
    links = re.findall(r'<a [^>]*href="([^"]*)"(?:(?!</a>).)*<bdi>(?:Other|[0-9]+ others)</bdi>', html, re.DOTALL)
    return unescape(links[0])


async def test_pages_say_that_further_models_of_a_day_count_as_other_and_lists_have_their_runs(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_names, "MAX_VALUES", 2)
    monkeypatch.setattr(new_names, "FEW_NAMES", 0)
    await post(*(make_run(provider="openrouter", model=f"model-{number}", costUSD=1) for number in range(5)))

    for path in (
        f"/projects/{project_id}",
        f"/projects/{project_id}?by=model",
        f"/breakdown?project={project_id}&by=model",
    ):
        text = text_of(await html_of(reader, path))
        assert "a project sends more than 5,000 models, the further ones count as (other)" in text, path
    assert "(other) 60% $3.00" in text_of(await html_of(reader, f"/projects/{project_id}"))
    listed = text_of(await html_of(reader, f"/runs?project={project_id}&model=(other)"))
    assert "3 runs, $3.00" in listed
    assert [number for number in (2, 3, 4) if f"model-{number}" in listed] == [2, 3, 4]


async def test_of_more_models_than_are_read_at_once_sums_over_several_days_stay_exact(
    reader: Browser, post: Post, project_id: str
) -> None:
    names = [f"model-{number:03}" for number in range(MOST_GROUPS + 50)]
    # Today all of them, two days ago only some: what is over is read, and remembered, by itself.
    for days, some in ((0, names), (2, names[:10]), (2, names[-1:])):
        await post(
            *(
                make_run(
                    provider="openrouter", model=name, costUSD=30 if name in some[:10] else 1, timestamp=ago(days=days)
                )
                for name in some
            )
        )

    html = await html_of(reader, f"/projects/{project_id}?by=model")
    metrics = json.loads(await (await reader.get(f"/api/metrics?projectId={project_id}")).get_data())

    # 250 runs today cost 10 x 30 + 240, ten of two days ago 300, and the last one 30.
    assert "Cost $870.00" in text_of(html)
    assert "model-000 7% $60.00" in text_of(html)
    assert "model-249 4% $31.00" in text_of(html)
    assert len(metrics["costByModel"]) == MOST_GROUPS + 1
    assert [metrics["costByModel"][name] for name in ("model-000", "model-249", "(other)")] == [60, 31, 50]
    assert metrics["costByProvider"] == {"openrouter": 870}
    assert sum(metrics["costByModel"].values()) == sum(one["costUSD"] for one in metrics["points"]) == 870


async def test_experiments_have_pages_that_together_list_each_of_them_once(
    reader: Browser, post: Post, project_id: str
) -> None:
    names = [f"trial-{number:03}" for number in range(MOST + 30)]
    await post(*(make_run(experimentId=name, status="error" if name == names[7] else "success") for name in names))

    first = await html_of(reader, f"/experiments?project={project_id}")
    [following] = _next(first)
    second = await html_of(reader, following)

    pages = [
        [
            href.rpartition("/")[2]
            for one in Outline(html).all("a")
            if f"/experiments/{project_id}/" in (href := one["href"] or "")
        ]
        for html in (first, second)
    ]
    assert pages == [[names[7], *names[:7], *names[8:MOST]], names[MOST:]]
    assert f"{MOST} experiments on this page, by name 1 failing" in text_of(first)
    assert "30 experiments on this page, by name none failing" in text_of(second)
    assert _next(second) == []


def _next(html: str) -> list[str]:
    return [href for one in Outline(html).all("a") if "after=" in (href := one.get("href") or "")]
