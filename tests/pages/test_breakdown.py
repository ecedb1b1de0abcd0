"""Models and providers as one table."""

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from runtally.ids import uuid7
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import Outline, html_of, text_of


@pytest.fixture
async def table(post: Post, project_id: str) -> str:
    """A project with runs of three models, one of which is written in two ways."""
    await post(
        make_run(latencyMs=100),
        make_run(model="ACME-LARGE", latencyMs=300, status="error"),
        make_run(model="acme-cached", inputTokens=100_000),
        make_run(provider="bolt", model="b1"),
        make_run(model="acme-guess", timestamp=ago(days=20)),
    )
    return f"/breakdown?project={project_id}"


def names(html: str) -> list[str]:
    """What the rows are called, in order."""
    rows = html.split('<span class="swatch')[1:]
    return [text_of(row.split("</span></span>")[0].split("</span>", 1)[1]) for row in rows]


def href_of(html: str, id_: str) -> str:
    href = Outline(html).by_id(id_)["href"]
    assert href is not None
    return href


async def test_a_row_has_all_figures_and_the_price_in_force(reader: Browser, table: str, project_id: str) -> None:
    html = await html_of(reader, table)

    text = text_of(html)
    assert "By model Last 7 days" in text
    assert "acme-cached acme · $3.00 in · $15.00 out 1 run · 0% errors" in text
    assert "$0.308 94% \u2013 1 $0.308 $0.308 100k 500 0% 0% 800 ms" in text
    assert "$0.011 3% \u2013 1 $0.011 $0.011 1,000 500 0% 0% 100 ms" in text
    assert "b1 bolt 1 run · 0% errors no price" in text
    assert f'href="/projects/{project_id}?model=acme-cached"' in html


async def test_names_that_have_one_price_can_be_one_row(reader: Browser, table: str) -> None:
    assert sorted(names(await html_of(reader, table))) == ["ACME-LARGE", "acme-cached", "acme-large", "b1"]

    grouped = await html_of(reader, f"{table}&names=grouped")

    assert names(grouped) == ["acme-cached", "acme-large", "b1"]
    assert "acme · 2 names · $3.00 in · $15.00 out 2 runs · 50.00% errors $0.021" in text_of(grouped)
    assert "300 ms" in text_of(grouped)


async def test_headings_sort_and_switches_keep_the_order(reader: Browser, table: str, project_id: str) -> None:
    assert names(await html_of(reader, f"{table}&sort=name"))[0] == "acme-cached"
    assert names(await html_of(reader, f"{table}&sort=-name"))[0] == "b1"
    html = await html_of(reader, f"{table}&sort=errors&by=provider")

    assert names(html) == ["acme", "bolt"]
    outline = Outline(html)
    assert [one["aria-sort"] for one in outline.all("th") if "aria-sort" in one] == ["descending"]
    assert outline.by_id("range-30d")["href"] == f"/breakdown?project={project_id}&range=30d&by=provider&sort=errors"
    assert outline.by_id("sort-errors")["href"] == f"/breakdown?project={project_id}&by=provider&sort=-errors"
    assert names(await html_of(reader, f"{table}&by=status")) == ["Success", "Error"]


async def test_the_breakdown_shows_the_filters_of_the_report(reader: Browser, table: str, project_id: str) -> None:
    report = Outline(await html_of(reader, f"/projects/{project_id}?provider=acme&range=30d"))
    links = [link["href"] or "" for link in report.all("a") if (link["href"] or "").startswith("/breakdown")]

    html = await html_of(reader, links[0])

    assert set(names(html)) == {"acme-large", "ACME-LARGE", "acme-cached", "acme-guess"}
    [chip] = [link for link in Outline(html).all("a") if link.get("class") == "chip"]
    assert chip["href"] == f"/breakdown?project={project_id}&range=30d"
    empty = text_of(await html_of(reader, f"{table}&status=timeout"))
    assert "No matching runs. Pick a longer range: 30d or 12 months." in empty


async def test_a_table_of_more_values_than_fit_says_how_many_are_listed(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.breakdown.breakdown.MAX_ROWS", 1)
    await post(
        make_run(metadata={"feature": "a", "untracked": "a"}), make_run(metadata={"feature": "b", "untracked": "b"})
    )

    tracked = text_of(await html_of(reader, f"/breakdown?project={project_id}&by=metadata.feature"))
    untracked = text_of(await html_of(reader, f"/breakdown?project={project_id}&by=metadata.untracked"))

    assert "The most expensive one is listed; all others are combined." in tracked
    assert "5,000 values" not in tracked
    assert "The most expensive one is listed; all others are combined." in untracked
    assert "5,000 values" not in untracked


async def test_pages_together_list_each_value_once_and_the_rest_leads_to_the_next_one(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.breakdown.breakdown.MAX_ROWS", 2)
    # The last two of them cost the same.
    costs = {"a": 9, "b": 8, "c": 7, "d": 6, "e": 5, "f": 5}
    await post(
        *(make_run(provider="openrouter", model=model, costUSD=usd, userId=model) for model, usd in costs.items())
    )

    for by in ("model", "user"):
        first = await html_of(reader, f"/breakdown?project={project_id}&by={by}&range=30d&provider=openrouter")
        second = await html_of(reader, href_of(first, "breakdown-next"))
        third = await html_of(reader, href_of(second, "breakdown-next"))

        assert names(first) == ["a", "b", "Other"]
        assert names(second) == ["c", "d", "Other"]
        assert names(third) == ["e", "f"]
        others = [one["href"] for one in Outline(first).all("a") if one.get("class") == "breakdown-name"]
        assert others[-1] == href_of(first, "breakdown-next")
        assert others[-1] is not None
        assert {"range=30d", "provider=openrouter", "page=2"} <= set(others[-1].partition("?")[2].split("&"))
        assert "These follow the 2 most expensive; the total is of all. All further ones are combined." in text_of(
            second
        )
        assert "Total 6 runs · 0% errors $40.00" in text_of(third)
        assert "breakdown-next" not in Outline(third).ids()
        assert href_of(third, "breakdown-previous") == href_of(first, "breakdown-next")
        assert "page=" not in href_of(second, "breakdown-previous")
        assert "page=" not in href_of(second, "sort-runs")
        assert [one["value"] for one in Outline(first).all("input") if one.get("name") == "value"][-2:] == ["a", "b"]


async def test_there_is_no_next_page_where_all_others_are_values_without_a_name_of_their_own(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.breakdown.breakdown.MAX_ROWS", 2)
    await post(*(make_run(region=region) for region in ("eu", "us", "(other)")))

    html = await html_of(reader, f"/breakdown?project={project_id}&by=region")

    assert names(html) == ["eu", "us", "Other"]
    assert "breakdown-next" not in Outline(html).ids()


async def test_a_page_beyond_the_last_one_is_the_last_one(
    reader: Browser, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.breakdown.breakdown.MAX_ROWS", 3)

    assert len(names(await html_of(reader, table))) == 4
    for page in ("2", "3", "99", "1" * 30):
        assert names(await html_of(reader, f"{table}&page={page}")) == ["b1"], page
    for page in ("0", "-1", "x", "1" * 9_000):
        assert len(names(await html_of(reader, f"{table}&page={page}"))) == 4, page


async def test_the_last_page_says_that_no_further_ones_are_listed(
    reader: Browser, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.breakdown.breakdown.MAX_ROWS", 1)
    monkeypatch.setattr("webapp.pages.breakdown.breakdown.MAX_PAGES", 2)

    html = await html_of(reader, f"{table}&page=2")

    assert len(names(html)) == 2
    assert "breakdown-next" not in Outline(html).ids()
    assert "No further pages are listed: filter the runs to see others." in text_of(html)


async def test_all_projects_are_for_admins(
    reader: Browser, signed_in: SignIn, post: Post, table: str, project_id: str
) -> None:
    model = f"m-{uuid7()}"
    await post(make_run(model=model))

    html = await html_of(reader, f"/breakdown?model={model}")

    assert names(html) == [model]
    of_project = await signed_in(project_id, Scope.METRICS_READ)
    assert model in await html_of(of_project, "/breakdown")
    await html_of(of_project, "/breakdown?project=another", 403)
    await html_of(reader, "/breakdown?project=none-such", 404)


async def test_a_row_leads_to_the_form_of_its_budget_which_lists_values_to_choose_from(
    reader: Browser, table: str, post: Post, project_id: str, signed_in: SignIn
) -> None:
    await post(make_run(userId="ann", model="acme-large"))
    outline = Outline(await html_of(reader, f"{table}&by=user"))
    [url] = [link["href"] or "" for link in outline.all("a") if "/budgets?" in (link["href"] or "")]

    form = Outline(await html_of(reader, url.partition("#")[0]))

    assert form.by_id("spend-value")["value"] == "ann"
    assert form.by_id("spend-value")["list"] == "budget-values"
    values = {option["value"] for option in form.all("option")}
    assert {"ann", "acme-large", "acme-cached", "bolt"} <= values
    for read_only in (await signed_in(project_id, Scope.METRICS_READ), reader):
        html = await html_of(read_only, table if read_only is not reader else "/breakdown")
        assert "Set budget" not in text_of(html)
