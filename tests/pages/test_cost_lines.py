"""Cost by line as a page: a chart, a table that adds up, and the lines of each group."""

import csv
import re
from decimal import Decimal
from html import unescape
from io import StringIO

import pytest
from quart.typing import TestClientProtocol as Browser

from tests.factories import make_run
from tests.pages.conftest import Post
from tests.pages.looking import html_of, text_of


@pytest.fixture
async def lines(post: Post, project_id: str) -> str:
    """The page of a project with runs of two models, one in a cheaper tier with searches, and one without a price."""
    await post(
        make_run(
            model="acme-varied",
            serviceTier="batch",
            units={"webSearch": 2},
            metadata={"feature": "search"},
            userId="ann",
        ),
        make_run(inputTokens=2_000),
        make_run(model="unheard-of"),
    )
    return f"/lines?project={project_id}"


async def test_the_page_shows_each_line_with_its_share_its_quantity_and_its_mean_price(
    reader: Browser, lines: str
) -> None:
    html = await html_of(reader, lines)

    text = text_of(html)
    assert "Cost by line Last 7 days" in text
    assert "Web searches 52% · 2 requests $0.0200 52% 2 requests $10.00 / 1,000" in text
    assert "Output 39% · 1,000 tokens $0.0150 39% 1,000 tokens $15.00 / 1M" in text
    assert "Service tier \N{MINUS SIGN}14% \N{MINUS SIGN}$0.0053 \N{MINUS SIGN}14%" in text
    assert "Total $0.0388" in text
    assert 'title="$0.03875"' in html
    assert "1 run without a known cost are in no line." in text


async def test_each_group_has_its_lines_and_leads_to_its_own_page(reader: Browser, lines: str, project_id: str) -> None:
    html = await html_of(reader, lines)
    assert "By model" in text_of(html)
    assert f'href="/lines?project={project_id}&amp;model=acme-varied"' in html

    text = text_of(await html_of(reader, f"{lines}&by=metadata.feature"))
    assert "search 1 run · most for web searches" in text
    assert "(none) 2 runs · most for output" in text


async def test_filters_narrow_the_lines(reader: Browser, lines: str) -> None:
    text = text_of(await html_of(reader, f"{lines}&model=acme-large"))

    assert "Web searches" not in text
    assert "Total $0.0135" in text
    assert "No matching runs with a cost." in text_of(await html_of(reader, f"{lines}&model=other"))


async def test_the_file_of_the_page_has_the_lines_by_day(reader: Browser, lines: str) -> None:
    html = await html_of(reader, lines)
    [url] = [unescape(one) for one in re.findall(r'href="(/breakdown\.csv[^"]*)"', html)]

    answer = await reader.get(url)

    rows = list(csv.DictReader(StringIO((await answer.get_data(as_text=True)).removeprefix("\ufeff"))))
    assert sum(Decimal(row["costUSD"]) for row in rows) == Decimal("0.03875")
    assert {(row["line"], row["model"]) for row in rows} >= {("webSearch", "acme-varied"), ("input", "acme-large")}


async def test_the_chart_has_totals_with_what_a_tier_takes_off(reader: Browser, lines: str) -> None:
    answer = await reader.get(lines.replace("/lines", "/charts/cost-lines.json"))

    drawn = await answer.get_json()
    assert answer.status_code == 200
    assert drawn["tips"][-1]["total"] == "$0.0388"
    assert "\N{MINUS SIGN}\N{WORD JOINER}$0.0053" in drawn["tips"][-1]["values"]
    assert {name for name, _ in drawn["rows"]} >= {"Input", "Output", "Web searches", "Service tier"}


async def test_all_projects_together_have_lines_too(reader: Browser, lines: str) -> None:
    assert "Web searches" in text_of(await html_of(reader, "/lines"))


async def test_the_menu_of_groups_leads_to_the_lines_of_the_same_runs(
    reader: Browser, lines: str, project_id: str
) -> None:
    html = await html_of(reader, f"/projects/{project_id}?model=acme-varied&range=24h")

    assert f'href="/lines?project={project_id}&amp;model=acme-varied&amp;range=24h"' in html
    assert 'id="by-line"' not in await html_of(reader, lines)
