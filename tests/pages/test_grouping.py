"""Groups of a page by any dimension: exact, the same everywhere, and refused where no sums tell them."""

import csv
import json
import re
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.clock import start_of_day, system_clock
from runtally.db.database import Database
from runtally.usage.groups import rows as group_rows
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import Outline, html_of, text_of
from tests.stored import until_merged
from webapp import formats

MINUTES = "%Y-%m-%dT%H:%M"
FILTERS: tuple[dict[str, str], ...] = (
    {"metadata.feature": "search"},
    {"metadata.feature": "search", "model": "acme-large"},
    {"user": "ada"},
    {"tags": "nightly"},
    {"errorCode": "overloaded"},
    {"serviceTier": "batch", "region": "us"},
    {"status": "failed"},
    {"metadata.colour": "red"},
    {"session": "s1", "status": "success"},
    {"provider": "acme"},
    {},
)


@pytest.fixture
async def project(post: Post, project_id: str) -> str:
    """A project with runs of two days in all kinds of groups, some of which have no value of a key."""
    runs = []
    for number in range(60):
        metadata = {"feature": ("search", "chat", "")[number % 3], "colour": ("red", "blue")[number % 2]}
        is_failed = number % 7 == 0
        runs.append(
            make_run(
                timestamp=ago(hours=24 + number % 48),
                inputTokens=100 + 37 * number,
                cachedInputTokens=10 * (number % 5),
                metadata=metadata if number % 4 else {},
                userId=("ada", "bob", None)[number % 3],
                sessionId=f"s{number % 4}",
                tags=(["nightly", "eu"], ["nightly"], [])[number % 3],
                model=("acme-large", "acme-cached", "free-thought")[number % 3 if number % 5 else 2],
                status="error" if is_failed else "success",
                errorCode="overloaded" if is_failed else None,
                serviceTier=("batch", None)[number % 2],
                region=("us", None, "eu")[number % 3],
            )
        )
    await post(*runs)
    return project_id


def times() -> tuple[str, str]:
    """Four whole days, the last of which is yesterday or today."""
    last = start_of_day(system_clock()) + timedelta(days=1)
    return (last - timedelta(days=5)).strftime(MINUTES), last.strftime(MINUTES)


@pytest.mark.parametrize("run_filter", FILTERS, ids=str)
async def test_a_page_the_api_and_the_exported_runs_have_the_same_totals(
    reader: Browser, project: str, run_filter: dict[str, str]
) -> None:
    since, until = times()
    page = urlencode({"since": since, "until": until, **run_filter})

    exported = await reader.get(f"/runs/export.csv?project={project}&{page}")
    runs = list(csv.DictReader(StringIO(await exported.get_data(as_text=True))))
    usage = await _usage(reader, {"projectId": project, "start": since, "end": until, **run_filter})
    report = text_of(await html_of(reader, f"/projects/{project}?{page}"))
    table = text_of(await html_of(reader, f"/breakdown?project={project}&by=model&{page}"))
    explorer = text_of(await html_of(reader, f"/runs?project={project}&{page}"))

    cost = sum((Decimal(run["cost_usd"] or 0) for run in runs), Decimal(0))
    [total] = usage["totals"]
    assert runs
    assert (total["runs"], Decimal(total["costUSD"])) == (len(runs), cost)
    assert f"Runs {len(runs)}" in report
    shown = formats.money(cost)
    assert f"Cost {shown}" in report
    assert (
        f"Total {formats.runs(len(runs))} · {formats.percent(total['errors'] / len(runs))} errors {shown} 100%" in table
    )
    assert f"{formats.runs(len(runs))} · {shown}" in explorer or f"{formats.runs(len(runs))}, {shown}" in explorer


@pytest.mark.parametrize(
    "by",
    [
        "provider",
        "model",
        "status",
        "errorCode",
        "experiment",
        "key",
        "serviceTier",
        "region",
        "user",
        "session",
        "metadata.feature",
    ],
)
@pytest.mark.parametrize("metric", ["cost", "runs", "failed", "tokens", "errors", "cache", "costPerSuccess", "latency"])
async def test_every_figure_is_told_apart_by_every_dimension(
    reader: Browser, project: str, by: str, metric: str
) -> None:
    since, until = times()
    query = f"by={by}&metric={metric}&since={quote(since)}&until={quote(until)}"

    html = await html_of(reader, f"/projects/{project}?{query}")
    chart = await (await reader.get(f"/charts/{metric}.json?project={project}&{query}")).get_json()

    assert 'id="main-chart"' in html
    assert 'id="refusal"' not in html
    assert chart["rows"] or metric == "latency"
    assert "per 6 hours" in html or "per day" in html


@pytest.mark.parametrize("by", ["status", "errorCode"])
async def test_rates_of_outcomes_are_not_offered_for_groups_by_outcome(reader: Browser, project: str, by: str) -> None:
    page, of_rates = f"/projects/{project}?range=30d&by={by}", (("errors", "failed"), ("costPerSuccess", "cost"))

    for metric, known in of_rates:
        html = await html_of(reader, f"{page}&metric={metric}")
        assert "all failed, or none" in text_of(html)
        assert f"/charts/{known}.json" in html
        offered = await html_of(reader, f"{page}&metric={known}")
        assert "all failed, or none" not in text_of(offered)
        assert f"metric={metric}" not in offered
    assert "metric=errors" in await html_of(reader, f"/projects/{project}?range=30d&metric=failed")

    rates = ("Error rate", "Per success")
    for shown in (by, "model"):
        table = await html_of(reader, f"/breakdown?project={project}&range=30d&by={shown}")
        head = text_of(table[table.index("<thead") : table.index("</thead>")])
        assert [rate in head for rate in rates] == [shown == "model"] * 2
    compared = f"/projects/{project}/compare?range=30d&a.model="
    models = text_of(await html_of(reader, f"{compared}acme-large"))
    outcomes = text_of(await html_of(reader, f"{compared}acme-large&b.status=failed"))
    for figure in ("Error rate", "Cost per success"):
        assert figure in models
        assert figure not in outcomes
    assert "Cost per run" in outcomes


@pytest.mark.parametrize(
    "by", ["provider", "status", "errorCode", "user", "session", "metadata.feature", "metadata.colour"]
)
@pytest.mark.parametrize("range_", ["24h", "7d", "30d", "90d", "12m", "12mo", "this-month"])
async def test_parts_of_bars_add_up_to_what_all_runs_came_to(
    reader: Browser, project: str, by: str, range_: str
) -> None:
    total = await (await reader.get(f"/charts/runs.json?project={project}&by=none&range={range_}")).get_json()
    parts = await (await reader.get(f"/charts/runs.json?project={project}&by={by}&range={range_}")).get_json()

    def tops(chart: dict[str, Any]) -> dict[int, float]:
        found: dict[int, float] = {}
        for row in chart["spec"]["datasets"]["segments"]:
            found[row["i"]] = max(found.get(row["i"], 0), row["y1"])
        return found

    assert tops(parts) == tops(total)


async def test_the_rows_of_a_breakdown_add_up_to_its_total(reader: Browser, project: str) -> None:
    since, until = times()
    time = f"since={quote(since)}&until={quote(until)}"

    for by in ("metadata.feature", "user", "session", "errorCode", "metadata.colour", "model"):
        rows = _rows(await html_of(reader, f"/breakdown?project={project}&by={by}&{time}"))
        *groups_, total = rows
        assert total[0] == "Total"
        assert sum(int(row[4]) for row in groups_) == int(total[4]) == 60

    html = await html_of(reader, f"/breakdown?project={project}&by=tags&{time}")
    *groups_, total = _rows(html)
    assert sum(int(row[4]) for row in groups_) > int(total[4])
    assert "A run with several tags counts for each of them" in text_of(html)


async def test_runs_without_a_value_have_a_word_of_their_own_and_no_link(reader: Browser, project: str) -> None:
    html = await html_of(reader, f"/projects/{project}?by=metadata.feature")

    row = next(
        part
        for part in html.split('class="bars-row"')[1:]
        if ">(none)<" in part.split("</span></span>")[0] or "(none)" in part[:400]
    )
    assert "href" not in row.split(">")[0]
    assert f'href="/projects/{project}?metadata.feature=search&amp;by=metadata.feature"' in html


async def test_filters_of_all_kinds_are_chips_that_combine(reader: Browser, project: str) -> None:
    query = "metadata.feature=search&user=ada&tags=nightly&by=session"

    for path in (f"/projects/{project}?", f"/breakdown?project={project}&", f"/runs?project={project}&"):
        html = await html_of(reader, f"{path}{query}")
        text = text_of(html)
        for chip in ("Remove User ada", "Remove Tag nightly", "Remove feature search"):
            assert chip in text, path
    form = Outline(await html_of(reader, f"/runs?project={project}&{query}"))
    hidden = {one["name"]: one["value"] for one in form.all("input") if one.get("type") == "hidden"}
    assert {"metadata.feature": "search", "user": "ada", "tags": "nightly"}.items() <= hidden.items()


async def test_what_would_be_read_from_too_many_runs_is_refused_in_words(
    reader: Browser, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 5)

    by_group = await html_of(reader, f"/projects/{project}?by=metadata.colour")
    of_some = await html_of(reader, f"/projects/{project}?metadata.colour=red")
    table = await html_of(reader, f"/breakdown?project={project}&by=metadata.colour")
    overview = await html_of(reader, "/?metadata.colour=red")

    for html in (by_group, of_some, table):
        assert "track the key in the settings of the project, under Tracked keys" in text_of(html)
        assert f'href="/projects/{project}/settings/tracked-keys"' in html
    # What all runs came to is known as before; of some of them nothing is.
    assert "Runs 60" in text_of(by_group)
    assert f"Runs {formats.NOTHING}" in text_of(of_some)
    assert "Group by" in text_of(of_some)
    assert 'id="refusal"' in overview
    chart = await reader.get(f"/charts/cost.json?project={project}&by=metadata.colour")
    assert chart.status_code == 422


@pytest.mark.parametrize("run_filter", ["metadata.feature=search", "user=ada", "tags=nightly", "errorCode=overloaded"])
async def test_some_runs_are_compared_with_the_same_runs_of_the_period_before(
    reader: Browser, post: Post, project_id: str, run_filter: str
) -> None:
    def run(days: int, **fields: object) -> dict[str, Any]:
        return make_run(timestamp=ago(days=days), provider="zeta", model="z1", costUSD=1, **fields)

    these: dict[str, object] = {
        "metadata": {"feature": "search"}, "userId": "ada", "tags": ["nightly"], "status": "error", "errorCode": "overloaded",
    }  # fmt: skip
    await post(run(20), *(run(9, **these) for _ in range(2)), run(9), *(run(1, **these) for _ in range(3)), run(1))

    text = text_of(await html_of(reader, f"/projects/{project_id}?{run_filter}"))
    table = text_of(await html_of(reader, f"/breakdown?project={project_id}&{run_filter}"))

    assert "Cost $3.00 ↑ 50.0%" in text
    assert "Runs 3 ↑ 50.0%" in text
    assert "$3.00 100% ↑ 50.0%" in table


async def test_the_table_is_also_a_file_with_the_same_filters(reader: Browser, project: str) -> None:
    since, until = times()
    html = await html_of(
        reader,
        f"/breakdown?project={project}&by=metadata.feature&user=ada&since={quote(since)}&until={quote(until)}",
    )
    link = next(one["href"] for one in Outline(html).all("a") if (one.get("href") or "").startswith("/breakdown.csv"))

    response = await reader.get(link or "")

    rows = list(csv.DictReader(StringIO(await response.get_data(as_text=True))))
    of_ada = await _usage(reader, {"projectId": project, "start": since, "end": until, "user": "ada"})
    assert response.headers["Content-Type"].startswith("text/csv")
    assert sum(int(row["runs"]) for row in rows) == of_ada["totals"][0]["runs"]
    assert {row["metadata.feature"] for row in rows} <= {"search", "chat", ""}
    assert (await reader.get(f"/breakdown.csv?project={project}&groupBy=love")).status_code == 422


async def _usage(reader: Browser, query: dict[str, str]) -> dict[str, Any]:
    response = await reader.get(f"/api/usage?{urlencode(query)}")
    body: dict[str, Any] = json.loads(await response.get_data(), parse_float=Decimal)
    assert response.status_code == 200, body
    return body


def _rows(html: str) -> list[list[str]]:
    """The cells of each row of the table: name, cost, share, change, runs and so on."""
    found = []
    for part in re.split(r"<tr\b[^>]*>", html)[2:]:
        name = text_of(part.split("breakdown-title", 1)[1].split("</span></span>")[0].partition(">")[2])
        cells = [text_of(cell.split(">", 1)[1].split("</td>")[0]) for cell in part.split("<td ")[1:]]
        found.append([name, *cells])
    return found


async def test_pages_say_that_values_beyond_those_with_sums_of_their_own_count_as_other(
    reader: Browser, signed_in: SignIn, post: Post, database: Database, project_id: str
) -> None:
    """Of 5,001 users on one day all but one have sums of their own; of as many runs 60 features are too many to list alone."""
    at = ago(days=2)
    runs = [
        make_run(userId=f"u{number}", metadata={"feature": f"f{number % 60}"}, timestamp=at) for number in range(5001)
    ]
    for since in range(0, len(runs), 1000):
        await post(*runs[since : since + 1000])
    await until_merged(database)
    admin = await signed_in()

    for browser, page in (
        (admin, "/?"),
        (reader, f"/projects/{project_id}?"),
        (reader, f"/breakdown?project={project_id}&"),
    ):
        by_user = text_of(await html_of(browser, f"{page}by=user"))
        by_feature = text_of(await html_of(browser, f"{page}by=metadata.feature"))

        assert (
            "On days with more than 5,000 values of user, the further ones count as Other, so a value may have more than is shown."
            in by_user
        ), page
        assert "5,000 values" not in by_feature, page
