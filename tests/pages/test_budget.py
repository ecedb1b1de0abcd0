"""A project's budget: set in its settings, seen on its page, on its costs and in the overview."""

from quart.typing import TestClientProtocol as Browser

from runtally.models.user import Role
from tests.factories import make_run
from tests.pages.conftest import Invite, Post, ago
from tests.pages.looking import Outline, html_of, text_of


async def test_a_budget_is_set_by_an_editor_and_seen_by_everybody(invite: Invite, post: Post, project_id: str) -> None:
    # A run costs $0.0105; the oldest of them gives the pace a day and more to stand on.
    await post(make_run(), make_run(timestamp=ago(days=6)))
    member, _ = await invite(Role.MEMBER, project_id)
    viewer, _ = await invite(Role.VIEWER, project_id)
    url = f"/projects/{project_id}"
    assert "Budget" not in text_of(await html_of(viewer, url))
    assert (await viewer.get(f"/charts/budget.json?project={project_id}")).status_code == 404

    saved = await member.post(f"{url}/settings/budget", form={"amount": "0.01", "alerts": "80, 50"})

    assert saved.headers["Location"] == f"{url}/settings"
    settings = await html_of(member, f"{url}/settings")
    assert "Budget saved." in settings
    assert Outline(settings).by_id("budget-alerts")["value"] == "50, 80"
    html = text_of(await html_of(viewer, url))
    assert "% of $0.01" in html
    assert "on pace for $" in html
    assert "over budget" in html
    report = await html_of(viewer, url)
    assert "Budget burn-down" in report
    plot = Outline(report).by_id("budget-chart-plot")
    chart = await (await viewer.get(str(plot["data-chart-src"]))).get_json()
    assert len(chart["tips"]) in {28, 29, 30, 31}
    assert set(chart["spec"]["datasets"]) >= {"left", "forecast", "even"}


async def test_a_budget_that_cannot_be_read_comes_back_with_what_is_wrong(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)

    refused = await member.post(f"/projects/{project_id}/settings/budget", form={"amount": "lots", "alerts": "50"})

    assert refused.status_code == 422
    field = Outline(await refused.get_data(as_text=True)).by_id("budget-amount")
    assert (field["value"], field["aria-invalid"]) == ("lots", "true")


async def test_the_overview_has_a_column_once_a_project_has_a_budget(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    await reader.post(f"/projects/{project_id}/settings/budget", form={"amount": "1000"})

    html = text_of(await html_of(reader, f"/?q={project_id}"))
    await reader.post(f"/projects/{project_id}/settings/budget/remove")

    assert "Budget used" in html
    assert "of $1,000" in html
    assert "of $1,000" not in text_of(await html_of(reader, f"/projects/{project_id}"))
