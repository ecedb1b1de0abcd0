"""Finding pages, projects, models and runs by name: what is found, and by whom."""

from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from runtally.models.user import Role
from tests.factories import make_run
from tests.pages.conftest import Invite, Post, SignIn
from tests.pages.looking import Outline, html_of, part_of, text_of


def _links(html: str) -> list[str]:
    return [link["href"] or "" for link in Outline(html).all("a")]


async def test_a_project_is_found_with_its_pages(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    links = _links(await part_of(reader, f"/find?q={project_id.upper()}"))

    assert links[:18] == [
        f"/projects/{project_id}",
        f"/runs?project={project_id}",
        f"/projects/{project_id}/sessions",
        f"/projects/{project_id}/errors",
        f"/projects/{project_id}/speed",
        f"/projects/{project_id}/cache",
        f"/projects/{project_id}/compare",
        f"/experiments?project={project_id}",
        f"/projects/{project_id}/budgets",
        f"/projects/{project_id}/costs",
        f"/projects/{project_id}/settings",
        f"/projects/{project_id}/settings/tracked-keys",
        f"/projects/{project_id}/settings/names",
        f"/projects/{project_id}/settings/alerts",
        f"/projects/{project_id}/settings/notes",
        f"/projects/{project_id}/settings/links",
        f"/projects/{project_id}/settings/general",
        f"/projects/{project_id}/send",
    ]


async def test_a_page_of_a_project_and_what_is_done_there_are_found_by_their_names(
    reader: Browser, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post()
    await post(to=f"{project_id}-second")
    project = f"/projects/{project_id}"
    found = {
        "what if": f"{project}/costs",
        "users": f"/breakdown?project={project_id}&by=user",
        "releases": f"/breakdown?project={project_id}&by=metadata.release",
        "general settings": f"{project}/settings/general",
        "new key": f"{project}/settings",
        "share": f"{project}/settings/links",
        "new budget": f"{project}/budgets#new-budget",
    }
    start = project_id[: len(project_id) - 1]

    for text, link in found.items():
        for wanted in (f"{start} {text}", f"{text} {start}"):
            assert link in _links(await part_of(reader, f"/find?q={wanted}")), wanted
    assert [link for link in _links(await part_of(reader, "/find?q=what%20if")) if link.endswith("/costs")]
    other = await signed_in(project_id, Scope.METRICS_READ)
    for text in ("users", "new key", "settings"):
        links = _links(await part_of(other, f"/find?q={start} {text}"))
        assert not [link for link in links if "/settings" in link or "by=user" in link]


async def test_a_model_and_a_page_are_found_by_a_part_of_their_name(reader: Browser, post: Post) -> None:
    await post(make_run(model="acme/findable-9"))

    assert "/?model=acme%2Ffindable-9" in [
        link.replace("acme/", "acme%2F") for link in _links(await part_of(reader, "/find?q=findable"))
    ]
    for page in ("audit", "budgets", "clients", "health", "users"):
        assert f"/admin/{page}" in _links(await part_of(reader, f"/find?q={page}"))


async def test_a_run_is_found_by_its_whole_id(reader: Browser, post: Post, project_id: str) -> None:
    run_id = f"run-of-{project_id}"
    await post(make_run(runId=run_id))

    assert f"/projects/{project_id}/runs/{run_id}" in _links(await part_of(reader, f"/find?q={run_id}"))
    assert f"/runs?q={run_id}&range=all" in _links(await part_of(reader, f"/find?q={run_id}"))


async def test_nobody_finds_what_they_may_not_see(
    invite: Invite, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(make_run(runId=f"secret-{project_id}", model=f"model-{project_id}"))
    elsewhere = await signed_in(f"{project_id}-other", Scope.METRICS_READ)
    viewer, _ = await invite(Role.VIEWER, project_id)

    for text in (f"secret-{project_id}", f"model-{project_id}", f"{project_id}"):
        links = _links(await part_of(elsewhere, f"/find?q={text}"))
        assert not [link for link in links if link.startswith(f"/projects/{project_id}/") or "model=" in link]
    own = _links(await part_of(viewer, f"/find?q={project_id}"))
    assert f"/projects/{project_id}" in own
    assert f"/projects/{project_id}/settings" not in own
    assert "/admin/audit" not in _links(await part_of(viewer, "/find?q=audit"))


async def test_without_scripts_it_is_a_page(reader: Browser) -> None:
    html = await html_of(reader, "/find?q=no-such-page-anywhere")

    assert Outline(html).by_id("find-field")["value"] == "no-such-page-anywhere"
    assert "Runs and traces with the id no-such-page-anywhere" in text_of(html)


async def test_the_palette_keeps_the_title_of_the_page_that_it_is_on(reader: Browser) -> None:
    assert "<title>" not in await part_of(reader, "/find?q=runs")
    assert "<title>Search</title>" in await html_of(reader, "/find?q=runs")
