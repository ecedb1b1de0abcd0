"""A project's budget: set on the tab Budgets, seen on its page, on its costs and in the overview."""

import re
from datetime import timedelta

from quart.typing import TestClientProtocol as Browser

from runtally.clock import system_clock
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
    assert "How the forecast is made" not in text_of(await html_of(viewer, url))

    saved = await member.post(f"{url}/settings/budgets", form={"amount": "0.01", "alerts": "80, 50"})

    assert saved.headers["Location"] == f"{url}/budgets"
    budgets = await html_of(member, f"{url}/budgets")
    assert "Budget saved." in budgets
    assert Outline(budgets).by_id("budget-alerts")["value"] == "50, 80"
    assert 'id="budget-alerts"' not in await html_of(viewer, f"{url}/budgets")
    html = text_of(await html_of(viewer, url))
    assert "% of $0.01" in html
    forecast = re.search(r"on pace for (\$\d+\.\d\d(?:\d\d?)?)", html)
    assert forecast
    assert f"≈ {forecast[1]} this month at this pace" in html, "one forecast, of the tile and of the budget"
    assert "over budget" in html
    assert "How the forecast is made" in html


async def test_a_budget_that_cannot_be_read_comes_back_with_what_is_wrong(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)

    refused = await member.post(f"/projects/{project_id}/settings/budgets", form={"amount": "lots", "alerts": "50"})

    assert refused.status_code == 422
    field = Outline(await refused.get_data(as_text=True)).by_id("budget-amount")
    assert (field["value"], field["aria-invalid"]) == ("lots", "true")


async def test_the_overview_has_a_column_once_a_project_has_a_budget(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    await reader.post(f"/projects/{project_id}/settings/budgets", form={"amount": "1000"})

    html = text_of(await html_of(reader, f"/?q={project_id}"))
    await reader.post(f"/projects/{project_id}/settings/budgets/remove")

    assert "Budget used" in html
    assert "of $1,000" in html
    assert "of $1,000" not in text_of(await html_of(reader, f"/projects/{project_id}"))


async def test_a_budget_for_each_user_is_added_by_an_editor_and_read_by_everybody(
    invite: Invite, post: Post, project_id: str
) -> None:
    # A run costs $0.0105.
    await post(make_run(userId="ada"), make_run(userId="ada"), make_run(userId="bob"))
    member, _ = await invite(Role.MEMBER, project_id)
    viewer, _ = await invite(Role.VIEWER, project_id)
    url = f"/projects/{project_id}"
    sent = {"dimension": "user", "value": "", "period": "day", "amount": "0.02", "alerts": "100"}

    saved = await member.post(f"{url}/settings/budgets", form=sent)

    assert saved.headers["Location"] == f"{url}/budgets"
    assert "Remove the budget of Each user, $0.02 a day" in text_of(await html_of(member, f"{url}/budgets"))
    page = text_of(await html_of(viewer, f"{url}/budgets"))
    assert "1 of 2 over budget" in page
    assert "$0.0210" in page

    await member.post(f"{url}/settings/budgets/remove", form={"dimension": "user", "value": "", "period": "day"})
    assert "Each user" not in text_of(await html_of(viewer, f"{url}/budgets"))


async def test_a_value_with_runs_that_have_no_price_says_that_it_is_a_minimum(
    invite: Invite, post: Post, project_id: str
) -> None:
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}"
    await post(make_run(userId="ada", costUSD=None, model="unheard-of"), make_run(userId="ada"), make_run(userId="bob"))
    sent = {"dimension": "user", "value": "", "period": "day", "amount": "5", "alerts": "100"}
    await member.post(f"{url}/settings/budgets", form=sent)

    text = text_of(await html_of(member, f"{url}/budgets"))

    assert re.search(r"ada \$0\.\d+ or more", text)
    assert re.search(r"bob \$0\.\d+ [^o]", text)


async def test_a_budget_on_what_no_sums_are_kept_of_is_refused_at_its_field(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    sent = {"dimension": "metadata.untracked", "value": "x", "period": "week", "amount": "5", "alerts": "100"}

    refused = await member.post(f"/projects/{project_id}/settings/budgets", form=sent)

    assert refused.status_code == 422
    outline = Outline(await refused.get_data(as_text=True))
    assert outline.by_id("spend-dimension")["aria-invalid"] == "true"
    assert outline.by_id("spend-period")["aria-invalid"] == "true"
    assert outline.by_id("spend-value")["value"] == "x"


async def test_an_admin_sets_budgets_over_all_projects(reader: Browser, post: Post) -> None:
    await post()
    saved = [
        await reader.post("/admin/budgets", form={"amount": "5000", "alerts": "80"}),
        await reader.post("/admin/budgets", form={"dimension": "model", "value": "", "period": "day", "amount": "900"}),
    ]
    refused = await reader.post("/admin/budgets", form={"dimension": "user", "amount": "5"})
    added = await reader.post(
        "/admin/budgets/alerts/new", form={"address": "https://nowhere.invalid/of-all", "untested": "1"}
    )

    assert [one.status_code for one in saved] == [303, 303]
    assert refused.status_code == 422
    assert "whsec_" in await added.get_data(as_text=True)
    html = await html_of(reader, "/admin/budgets")
    assert Outline(html).by_id("budget-amount")["value"] == "5000"
    assert "Each model" in text_of(html)
    assert "https://nowhere.invalid" in text_of(html)

    await reader.post("/admin/budgets/remove")
    await reader.post("/admin/budgets/remove", form={"dimension": "model", "value": "", "period": "day"})
    assert "Each model" not in text_of(await html_of(reader, "/admin/budgets"))


async def test_a_budget_is_edited_in_the_form_with_its_values(invite: Invite, post: Post, project_id: str) -> None:
    await post(make_run(userId="ada"))
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}"
    sent = {"dimension": "user", "value": "ada", "period": "month", "amount": "7", "alerts": "60"}
    await member.post(f"{url}/settings/budgets", form=sent)

    links = [str(one.get("href")) for one in Outline(await html_of(member, f"{url}/budgets")).all("a")]
    [edit] = [one for one in links if one.endswith("#new-budget")]
    form = Outline(await html_of(member, edit.partition("#")[0]))
    values = {name: form.by_id(f"spend-{name}")["value"] for name in ("value", "amount", "alerts")}
    assert values == {"value": "ada", "amount": "7", "alerts": "60"}
    assert "open" in form.by_id("new-budget")
    version = [one["value"] for one in form.all("input") if one.get("name") == "version"][-1]
    saved = await member.post(f"{url}/settings/budgets", form=sent | {"amount": "8", "version": str(version)})

    assert saved.status_code == 303
    page = text_of(await html_of(member, f"{url}/budgets"))
    assert "$8 a month" in page
    assert "$7 a month" not in page


async def test_the_form_of_a_budget_says_what_was_spent_and_names_an_amount(
    invite: Invite, post: Post, project_id: str
) -> None:
    # A run costs $0.0105.
    last_month = (system_clock().replace(day=1) - timedelta(days=1)).isoformat()
    await post(make_run(), make_run(timestamp=last_month), make_run(timestamp=last_month))
    member, _ = await invite(Role.MEMBER, project_id)

    html = text_of(await html_of(member, f"/projects/{project_id}/budgets"))

    assert "Spent this month so far: $0.0105; last month: $0.0210." in html
    assert "would be a fifth or more above the highest of these." in html


async def test_a_budget_without_a_destination_says_that_nobody_is_told_and_has_the_field(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    viewer, _ = await invite(Role.VIEWER, project_id)
    url = f"/projects/{project_id}"
    assert "Nobody is told yet" not in await html_of(member, f"{url}/budgets")

    await member.post(f"{url}/settings/budgets", form={"amount": "10", "alerts": "80"})

    html = await html_of(member, f"{url}/budgets")
    assert "Nobody will be told yet: add a destination below." in html
    assert Outline(html).by_id("channel-address")
    assert "Nobody is told yet" not in await html_of(viewer, f"{url}/budgets")
    added = await member.post(
        f"{url}/settings/alerts/new", form={"address": "https://nowhere.invalid/hook", "untested": "1"}
    )
    assert added.status_code == 200
    assert "Nobody is told yet" not in await html_of(member, f"{url}/budgets")
