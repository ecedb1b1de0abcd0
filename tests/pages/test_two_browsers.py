"""Two people change the same thing from pages that are open at the same time: the second is shown what the first saved."""

import re
from collections.abc import Collection

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.models.user import Role
from tests.factories import make_run
from tests.pages.conftest import Invite, Post
from tests.pages.looking import Outline, html_of, text_of
from tests.pages.price_forms import saved

FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
OTHERS = "Someone else changed this after you opened the page."


async def version_at(reader: Browser, page: str, action: str, fields: Collection[str] = ()) -> str:
    """The version that the form with this action shows on a page."""
    return version_in(await html_of(reader, page), action, fields)


def version_in(html: str, action: str, fields: Collection[str] = ()) -> str:
    shown = Outline(form_in(html, action, fields)).all("input")
    [found] = [one["value"] for one in shown if one.get("name") == "version"]
    assert found
    return str(found)


def form_in(html: str, action: str, fields: Collection[str] = ()) -> str:
    """The form with this action; of the two of a page of budgets, the one for a dimension or that of the month."""
    found: str
    [found] = [
        one
        for one in FORM.findall(html)
        if f'action="{action}"' in one and ('name="dimension"' in one) is ("dimension" in fields)
    ]
    return found


async def save(reader: Browser, action: str, version: str, **fields: str) -> tuple[int, str]:
    response = await reader.post(action, form=fields | {"version": version})
    return response.status_code, await response.get_data(as_text=True)


EDITS = {
    "name": ("{settings}/general", "{settings}/name", {"name": "First"}, {"name": "Second"}, "Stored now: First."),
    "retention": (
        "{settings}/general",
        "{settings}/retention",
        {"days": "0"},
        {"days": "90"},
        "Stored now: Forever.",
    ),
    "alert rules": (
        "{settings}/alerts",
        "{settings}/alert-rules",
        {"error_rate": "5", "min_runs": "20"},
        {"latency": "900", "min_runs": "30"},
        "Stored now: 5.",
    ),
    "a box of alert rules": (
        "{settings}/alerts",
        "{settings}/alert-rules",
        {"error_rate_unusual": "1", "min_runs": "20"},
        {"min_runs": "20", "latency": "900"},
        "Stored now: nothing.",
    ),
    "people's names": (
        "{settings}/names",
        "{settings}/names",
        {"key": "squad", "storage": "hashed"},
        {"key": "squad", "storage": "plain"},
        "Stored now: As a hash.",
    ),
    "the budget of the month": (
        "/projects/{id}/budgets",
        "{settings}/budgets",
        {"amount": "400", "alerts": "80"},
        {"amount": "500", "alerts": "100"},
        "Stored now: 400.",
    ),
    "a budget of a day": (
        "/projects/{id}/budgets",
        "{settings}/budgets",
        {"amount": "40", "alerts": "80", "period": "day", "dimension": ""},
        {"amount": "50", "alerts": "80", "period": "day", "dimension": ""},
        "Stored now: 40.",
    ),
    "the organisation's month": (
        "/admin/budgets",
        "/admin/budgets",
        {"amount": "4000", "alerts": "80"},
        {"amount": "5000", "alerts": "80"},
        "Stored now: 4000.",
    ),
    "thresholds": (
        "/experiments/{id}/e",
        "/experiments/{id}/e/thresholds",
        {"windowRuns": "99", "minRuns": "40", "maxErrorRate": "2"},
        {"windowRuns": "99", "minRuns": "1", "maxErrorRate": "3"},
        "Stored now: 2.",
    ),
}


@pytest.mark.parametrize("what", EDITS)
async def test_the_second_of_two_is_shown_what_the_first_saved_and_may_then_replace_it(
    reader: Browser, post: Post, project_id: str, what: str
) -> None:
    await post(make_run(experimentId="e"))
    page, action, first, second, shown = EDITS[what]
    places = {"id": project_id, "settings": f"/projects/{project_id}/settings"}
    page, action = page.format_map(places), action.format_map(places)
    version = await version_at(reader, page, action, first)

    assert (await save(reader, action, version, **first))[0] == 303
    status, html = await save(reader, action, version, **second)

    assert status == 422
    assert OTHERS in text_of(html)
    assert shown in text_of(html)
    fields = {one.get("name"): one.get("value") for one in Outline(form_in(html, action, first)).all("input")}
    assert {name: value for name, value in fields.items() if name in second}.items() <= second.items()
    assert (await save(reader, action, version_in(html, action, first), **second))[0] == 303
    assert (await save(reader, action, await version_at(reader, page, action, first), **first))[0] == 303


async def test_a_note_from_an_older_form_does_not_undo_the_end_of_a_price(reader: Browser, provider: str) -> None:
    url = await saved(reader, provider)
    action = f"{url}/correct"
    version = await version_at(reader, action, action)
    values = {"provider": provider, "model": "large", "input_per_million": "3", "output_per_million": "15"}

    first = values | {"effective_to": "2026-12-31T00:00", "note": "ends with the contract"}
    assert (await save(reader, action, version, **first))[0] == 303
    status, html = await save(reader, action, version, **values | {"note": "checked"})

    assert status == 422
    assert "Stored now: 2026-12-31." in text_of(html)
    assert "Stored now: ends with the contract." in text_of(html)
    assert 'value="checked"' in html
    text = text_of(await html_of(reader, url))
    assert "ends with the contract" in text
    assert "checked" not in text


@pytest.mark.parametrize("how", ["correct", "follow"])
async def test_a_price_that_ends_meanwhile_is_not_corrected_or_followed_unseen(
    reader: Browser, provider: str, how: str
) -> None:
    url = await saved(reader, provider)
    action = f"{url}/{how}"
    values = {"provider": provider, "model": "large", "input_per_million": "4"} | (
        {"effective_from": "2030-01-01"} if how == "follow" else {}
    )
    version = await version_at(reader, action, action)

    ended = await version_at(reader, url, f"{url}/end")
    assert (await save(reader, f"{url}/end", ended, effective_to="2031-01-01"))[0] == 303
    status, html = await save(reader, action, version, **values)

    assert status == 422
    assert "Stored now: 2031-01-01." in text_of(html)
    assert (await save(reader, action, version_in(html, action), **values))[0] == 303


async def test_two_ends_of_a_price_do_not_replace_each_other_unseen(reader: Browser, provider: str) -> None:
    url = await saved(reader, provider)
    version = await version_at(reader, url, f"{url}/end")

    assert (await save(reader, f"{url}/end", version, effective_to="2031-01-01"))[0] == 303
    status, html = await save(reader, f"{url}/end", version, effective_to="2032-01-01")

    assert status == 422
    assert "Stored now: 2031-01-01." in text_of(html)


async def test_amounts_in_a_row_of_the_list_do_not_replace_those_of_somebody_else(
    reader: Browser, provider: str
) -> None:
    url = await saved(reader, provider)
    version = await version_at(reader, f"{url}/row/edit", f"{url}/row")
    ended = await version_at(reader, url, f"{url}/end")
    assert (await save(reader, f"{url}/end", ended, effective_to="2031-01-01"))[0] == 303

    status, html = await save(
        reader, f"{url}/row", version, input_per_million="9", output_per_million="15", applies="always"
    )

    assert status == 422
    assert "Input: Stored now: 3." in text_of(html)


async def test_a_preview_of_several_prices_is_not_scheduled_after_one_of_them_changed(
    reader: Browser, provider: str
) -> None:
    url = await saved(reader, provider)
    asked = {"q": provider, "how": "percent", "component": "all", "value": "10", "effective_from": "2030-01-01"}
    asked["entry"] = url.rpartition("/")[2]
    previewed = await reader.post("/admin/prices/bulk", form=asked | {"act": "preview"})
    html = await previewed.get_data(as_text=True)
    [version] = [one["value"] for one in Outline(html).all("input") if one.get("name") == "version"]
    values = {"provider": provider, "model": "large", "input_per_million": "3", "output_per_million": "15"}
    assert (await reader.post(f"{url}/correct", form=values | {"effective_to": "2031-01-01"})).status_code == 303

    status, html = await save(reader, "/admin/prices/bulk", version or "", **asked, act="schedule")

    assert status == 422
    assert "Someone else changed a selected price." in text_of(html)
    [version] = [one["value"] for one in Outline(html).all("input") if one.get("name") == "version"]
    assert (await save(reader, "/admin/prices/bulk", version or "", **asked, act="schedule"))[0] == 303


async def test_a_file_of_prices_is_not_applied_after_one_of_them_changed(reader: Browser, provider: str) -> None:
    url = await saved(reader, provider)
    number = url.rpartition("/")[2]
    file = f"id,provider,model,input_per_million,output_per_million,note\n{number},{provider},large,3,15,from a file\n"
    previewed = await reader.post("/admin/prices/file", form={"csv": file})
    version = _preview_version(await previewed.get_data(as_text=True))
    values = {"provider": provider, "model": "large", "input_per_million": "3", "output_per_million": "15"}
    assert (await reader.post(f"{url}/correct", form=values | {"note": "by hand"})).status_code == 303

    status, html = await save(reader, "/admin/prices/file", version, csv=file, apply="1")

    assert status == 422
    assert "Someone else changed one of these prices." in text_of(html)
    assert "by hand" in text_of(html)
    assert (await save(reader, "/admin/prices/file", _preview_version(html), csv=file, apply="1"))[0] == 303


def _preview_version(html: str) -> str:
    [version] = [one["value"] for one in Outline(html).all("input") if one.get("name") == "version"]
    return version or ""


async def test_a_role_that_somebody_else_gave_is_shown_before_another_replaces_it(
    reader: Browser, invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    _, email = await invite(Role.VIEWER)
    html = await html_of(reader, "/admin/users")
    action = next(
        re.search(r'action="(/admin/users/[0-9a-f-]{36}/role)"', part).group(1)  # type: ignore[union-attr]
        for part in html.split("<li ")
        if email in part
    )
    version = version_in(html, action)

    given = await save(reader, action, version, role="member", project=project_id)
    status, html = await save(reader, action, version, role="viewer", project=project_id)

    assert given[0] == 303
    assert status == 422
    assert "Stored now: Member" in text_of(html)
    assert (await save(reader, action, version_in(html, action), role="viewer", project=project_id))[0] == 303


async def test_a_view_is_not_renamed_over_a_name_that_was_not_shown(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    page = f"/projects/{project_id}/views"
    kept = await reader.post(page, form={"name": "Week", "here": f"/projects/{project_id}?range=7d"})
    assert kept.status_code == 303
    html = await html_of(reader, page)
    action = re.findall(r'action="([^"]+/rename)"', html)[0]
    version = version_in(html, action)

    assert (await save(reader, action, version, name="First"))[0] == 303
    status, html = await save(reader, action, version, name="Second")

    assert status == 422
    assert "Stored now: First." in text_of(html)
    assert 'value="Second"' in html


async def test_a_form_that_changes_nothing_more_is_taken_though_it_is_older(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    settings = f"/projects/{project_id}/settings"
    version = await version_at(reader, f"{settings}/general", f"{settings}/name")

    answers = [(await save(reader, f"{settings}/name", version, name="Same"))[0] for _ in range(2)]

    assert answers == [303, 303]
