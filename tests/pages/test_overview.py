"""The overview of all projects."""

from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.projects import archive, rename
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import Outline, html_of, text_of
from webapp import formats


def _row(html: str, project_id: str) -> str:
    """The row of one project."""
    rows = [part.split("</tr>")[0] for part in html.split("<tr>")]
    return next(row for row in rows if f"/projects/{project_id}" in row)


async def test_a_project_is_a_row_with_its_figures(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(), make_run(status="timeout"), make_run(timestamp=ago(days=8)), make_run(timestamp=ago(days=15))
    )

    row = _row(await html_of(reader, "/"), project_id)

    text = text_of(row)
    assert f"{project_id} 2 runs · 50% errors 2 50%" in text
    assert "$0.0210 ↑ 100%up 100% against the previous period" in text
    outline = Outline(f"<table><tr>{row}</tr></table>")
    assert [svg["class"] for svg in outline.all("svg")] == ["bar", "sparkline"]
    assert (outline.all("path")[0]["d"] or "").startswith("M")


async def test_rows_keep_the_range(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    html = await html_of(reader, "/?range=24h&by=provider")

    assert f'href="/projects/{project_id}?range=24h&amp;by=provider"' in html


async def test_the_sum_is_over_all_projects(signed_in: SignIn, post: Post, project_id: str) -> None:
    await post()
    admin = await signed_in()

    html = await html_of(admin, "/")

    assert "All projects Last 7 days" in text_of(html)
    assert 'data-chart-src="/charts/cost.json"' in html


async def test_an_archived_project_is_hidden_but_not_forgotten(
    reader: Browser, database: Database, post: Post, project_id: str
) -> None:
    await post()
    async with database.session() as session:
        await archive(session, OPERATOR, project_id, system_clock())

    html = await html_of(reader, "/")

    assert project_id not in html
    assert "Archived projects" in html
    await html_of(reader, f"/projects/{project_id}")


async def test_a_project_goes_by_its_name_and_its_id_stays_in_sight(
    reader: Browser, database: Database, post: Post, project_id: str
) -> None:
    await post()
    async with database.session() as session:
        await rename(session, OPERATOR, project_id, f"Rocket <b>{project_id}</b>")

    assert f"Rocket &lt;b&gt;{project_id}" in await html_of(reader, "/")
    project = await html_of(reader, f"/projects/{project_id}")

    assert f"· Rocket &lt;b&gt;{project_id}&lt;/b&gt;</title>" in project
    assert f"<code>{project_id}</code>" in project


async def test_a_project_without_runs_in_the_range_stays_in_the_list(app: Quart, post: Post, project_id: str) -> None:
    await post(make_run(timestamp=ago(days=20)))

    text = text_of(_row(await html_of(app.test_client(), "/"), project_id))

    assert f"{project_id} no runs 0 {formats.NOTHING}" in text
