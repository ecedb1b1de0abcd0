"""The overview of all projects."""

import re

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.projects import hide, rename
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import Outline, html_of, text_of
from webapp import formats
from webapp.pages.overview import project_rows


def _row(html: str, project_id: str) -> str:
    """The row of one project."""
    rows = [part.split("</tr>")[0] for part in re.split(r"<tr\b[^>]*>", html)]
    return next(row for row in rows if f"/projects/{project_id}" in row)


async def test_a_project_is_a_row_with_its_figures(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(), make_run(status="timeout"), make_run(timestamp=ago(days=8)), make_run(timestamp=ago(days=15))
    )

    row = _row(await html_of(reader, f"/?q={project_id}"), project_id)

    text = text_of(row)
    assert f"{project_id} 2 runs · 50.00% errors 2 50.00% {formats.NOTHING} " in text
    assert f"{formats.NOTHING} $0.0210 $0.0210 ↑ 100%up 100% against the previous period" in text
    assert "$0.0420" in text
    outline = Outline(f"<table><tr>{row}</tr></table>")
    assert [svg["class"] for svg in outline.all("svg")] == ["bar", "sparkline"]
    assert (outline.all("path")[0]["d"] or "").startswith("M")


async def test_a_risen_error_rate_is_marked(reader: Browser, post: Post, project_id: str) -> None:
    before = [make_run(timestamp=ago(days=8)), make_run(timestamp=ago(days=9), status="error")]
    await post(*before, *(make_run(status="error") for _ in range(9)))

    few = _row(await html_of(reader, f"/?q={project_id}"), project_id)
    await post(make_run(status="error"), make_run(timestamp=ago(days=15)))

    assert "up from" not in few
    assert "↑ 100%, up from 50.00%" in text_of(_row(await html_of(reader, f"/?q={project_id}"), project_id))


async def test_rows_keep_the_range(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    html = await html_of(reader, f"/?range=24h&by=provider&q={project_id}")

    assert f'href="/projects/{project_id}?range=24h&amp;by=provider"' in html


async def test_projects_are_sorted_by_any_column_and_sought_by_name(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(), make_run(model="of-nobody"))
    await post(to=f"{project_id}-second")
    await post(make_run(costUSD=2, provider="zeta"), make_run(status="error"), to=f"{project_id}-third")

    async def listed(query: str) -> list[str]:
        html = await html_of(reader, f"/?q={project_id.upper()}&{query}")
        return [one.split("?")[0].split(project_id)[1] for one in rows(html)]

    def rows(html: str) -> list[str]:
        table = html.partition('id="projects"')[2].partition("</section>")[0]
        return [part.split('"')[0] for part in table.split('<a href="')[1:] if part.startswith("/projects/")]

    assert await listed("") == ["-third", "", "-second"]
    assert await listed("sort=name") == ["", "-second", "-third"]
    assert await listed("sort=-name") == ["-third", "-second", ""]
    assert (await listed("sort=errors"))[0] == "-third"
    assert (await listed("sort=unpriced&range=24h"))[0] == ""
    assert await listed("sort=nonsense") == await listed("")
    html = await html_of(reader, f"/?q={project_id}&sort=runs&range=30d")
    outline = Outline(html)
    [chosen] = [one for one in outline.all("th") if "aria-sort" in one]
    assert chosen["aria-sort"] == "descending"
    assert outline.by_id("sort-runs")["href"] == f"/?range=30d&sort=-runs&q={project_id}"
    assert outline.by_id("range-7d")["href"] == f"/?sort=runs&q={project_id}"
    assert "No matching projects." in await html_of(reader, "/?q=not-a-project-of-anybody")


async def test_projects_that_are_too_many_for_a_page_are_on_the_next(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_rows, "PAGE_ROWS", 2)
    for number in range(5):
        await post(make_run(costUSD=9 - number), to=f"{project_id}-{number}")

    async def page(query: str) -> tuple[list[str], Outline, str]:
        html = await html_of(reader, f"/?q={project_id}{query}")
        table = html.partition('id="projects"')[2].partition("</section>")[0]
        shown = [str(number) for number in range(5) if f'href="/projects/{project_id}-{number}' in table]
        return shown, Outline(html), text_of(html)

    first, outline, text = await page("&sort=cost")
    assert (first, "1 to 2 of 5" in text) == (["0", "1"], True)
    assert outline.by_id("projects-next")["href"] == f"/?sort=cost&q={project_id}&page=2"
    assert "projects-previous" not in {link.get("id") for link in outline.all("a")}
    second, outline, text = await page("&page=2")
    assert (second, "3 to 4 of 5" in text) == (["2", "3"], True)
    assert outline.by_id("projects-previous")["href"] == f"/?q={project_id}"
    assert outline.by_id("sort-name")["href"] == f"/?q={project_id}&sort=name"
    for beyond in ("&page=3", "&page=99"):
        last, _, text = await page(beyond)
        assert (last, "5 to 5 of 5" in text) == (["4"], True)
    assert (await page("&page=x"))[0] == (await page("&page=-1"))[0] == ["0", "1"]


async def test_a_model_narrows_the_overview(reader: Browser, post: Post, project_id: str) -> None:
    # A provider of its own: only the dearest of all models of all tests are on the page.
    named = {"model": f"m-{project_id}", "provider": f"p-{project_id}"}
    await post(make_run(**named, costUSD=1), make_run())

    outline = Outline(await html_of(reader, f"/?provider=p-{project_id}&q={project_id}"))
    narrowed = await html_of(reader, f"/?model=m-{project_id}&provider=p-{project_id}")

    links = {link["href"] for link in outline.all("a")}
    assert f"/?provider=p-{project_id}&model=m-{project_id}&q={project_id}" in links
    assert "Cost $1.00" in text_of(narrowed)
    assert "choose a project to see it" in text_of(narrowed)
    assert f'data-chart-src="/charts/cost.json?provider=p-{project_id}&amp;model=m-{project_id}"' in narrowed
    payload = await reader.get(f"/charts/cost.json?model=m-{project_id}")
    assert [name for name, _ in (await payload.get_json())["rows"]] == [f"m-{project_id}"]


async def test_only_readers_with_access_to_runs_see_the_newest_ones(
    reader: Browser, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(make_run(runId=f"newest-{project_id}", model=f"m-{project_id}"))

    html = await html_of(reader, f"/?model=m-{project_id}")

    assert f"/projects/{project_id}/runs/newest-{project_id}" in html
    assert f'<a href="/runs?model=m-{project_id}">Open run explorer</a>' in html
    only_metrics = await signed_in(project_id, Scope.METRICS_READ)
    assert "Recent runs" not in await html_of(only_metrics, "/")
    both = await signed_in(project_id, Scope.METRICS_READ, Scope.RUNS_READ)
    assert "Recent runs" in await html_of(both, "/")


async def test_the_sum_is_over_all_projects(signed_in: SignIn, post: Post, project_id: str) -> None:
    await post()
    admin = await signed_in()

    html = await html_of(admin, "/")

    assert "All projects Last 7 days" in text_of(html)
    assert 'data-chart-src="/charts/cost.json"' in html


async def test_a_hidden_project_is_not_listed_and_not_forgotten(
    reader: Browser, database: Database, post: Post, project_id: str
) -> None:
    await post()
    async with database.session() as session:
        await hide(session, OPERATOR, project_id, system_clock())

    html = await html_of(reader, "/")

    assert f'href="/projects/{project_id}"' not in html
    assert "Hidden projects" in html
    assert Outline(await html_of(reader, f"/projects/{project_id}")).by_id("hidden-project")


async def test_with_nothing_but_hidden_projects_it_says_so(
    signed_in: SignIn, database: Database, post: Post, project_id: str
) -> None:
    await post(make_run(costUSD=3, model="of-nobody"))
    async with database.session() as session:
        await hide(session, OPERATOR, project_id, system_clock())
    reader = await signed_in(project_id)

    text = text_of(await html_of(reader, "/"))

    assert "Every project is hidden. Hidden projects are not listed; they cost $3.00 in this range." in text
    assert "No matching projects." not in text


async def test_a_project_is_shown_by_its_name_with_its_id(
    reader: Browser, database: Database, post: Post, project_id: str
) -> None:
    await post()
    async with database.session() as session:
        await rename(session, OPERATOR, project_id, f"Rocket <b>{project_id}</b>")

    assert f"Rocket &lt;b&gt;{project_id}" in await html_of(reader, f"/?q=rocket+<b>{project_id}")
    project = await html_of(reader, f"/projects/{project_id}")

    assert f"· Rocket &lt;b&gt;{project_id}&lt;/b&gt;</title>" in project
    assert f"<code><bdi>{project_id}</bdi></code>" in project


async def test_a_project_without_runs_in_the_range_stays_in_the_list(app: Quart, post: Post, project_id: str) -> None:
    await post(make_run(timestamp=ago(days=20)))

    text = text_of(_row(await html_of(app.test_client(), f"/?q={project_id}"), project_id))

    assert f"{project_id} no runs 0 {formats.NOTHING}" in text
