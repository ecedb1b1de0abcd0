"""Role by route: whatever route there is, nobody gets where their role does not lead."""

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser
from werkzeug.routing import AnyConverter, Rule, UUIDConverter

from api.access import declared_rule
from runtally.models.user import Role
from tests.pages.conftest import Invite, Post
from tests.serving import settings_for
from webapp.app import create_app

PAGE_RULES = {"signed in", "project editor", "admin"}

_app = create_app(settings_for("postgresql://nowhere"))


def _rule_name(rule: Rule) -> str:
    declared = declared_rule(_app.view_functions[rule.endpoint])
    return declared.name if declared else ""


ROUTES = {
    f"{method} {rule.rule}": (method, rule)
    for rule in _app.url_map.iter_rules()
    for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    if _rule_name(rule) in PAGE_RULES
}
OF_PROJECT = [name for name, (_, rule) in ROUTES.items() if "project_id" in rule.arguments]
OF_ADMIN = [name for name, (_, rule) in ROUTES.items() if _rule_name(rule) == "admin"]
CHANGES = [name for name, (method, rule) in ROUTES.items() if method != "GET" and "project_id" in rule.arguments]


async def ask(browser: Browser, app: Quart, name: str, project_id: str) -> int:
    """The status of a request to this route, with nothing in its form."""
    method, rule = ROUTES[name]
    values = {argument: _value(rule, argument) for argument in rule.arguments} | {"project_id": project_id}
    adapter = app.url_map.bind("localhost")
    path = adapter.build(rule.endpoint, {key: values[key] for key in rule.arguments}, method=method)
    response = await (browser.get(path) if method == "GET" else browser.post(path, form={}))
    target = response.headers.get("Location", "")
    if method == "GET" and target and not target.startswith("/sign-in"):
        # A page that moved says nothing by itself; the one that it leads to does.
        response = await browser.get(target)
    return int(response.status_code)


def _value(rule: Rule, argument: str) -> str:
    """Something that the route takes there."""
    converter = rule._converters[argument]  # noqa: SLF001  # werkzeug offers no other way.
    if isinstance(converter, AnyConverter):
        return min(converter.items)
    return "01a1fe14-fe4c-7d6c-80b9-f6b3964f2942" if isinstance(converter, UUIDConverter) else "any"


@pytest.fixture
async def viewer(invite: Invite, post: Post, project_id: str) -> Browser:
    await post()
    browser, _ = await invite(Role.VIEWER, project_id)
    return browser


def test_there_are_routes_of_each_kind() -> None:
    assert len(OF_PROJECT) > 8
    assert len(OF_ADMIN) > 10
    assert len(CHANGES) > 6


async def test_a_stranger_gets_nowhere(stranger: Browser, closed_app: Quart, project_id: str) -> None:
    for name in ROUTES:
        assert await ask(stranger, closed_app, name, project_id) == 303, name


async def test_a_user_of_one_project_sees_no_other_not_even_whether_it_exists(
    invite: Invite, post: Post, closed_app: Quart, project_id: str
) -> None:
    await post()
    await post(to=f"{project_id}-own")
    for role in (Role.MEMBER, Role.VIEWER):
        browser, _ = await invite(role, f"{project_id}-own")
        for name in OF_PROJECT:
            wanted = {403, 404} if name in OF_ADMIN else {404}
            existing = await ask(browser, closed_app, name, project_id)
            missing = await ask(browser, closed_app, name, f"{project_id}-missing")
            assert existing == missing, name
            assert existing in wanted, name


async def test_a_viewer_changes_nothing(viewer: Browser, closed_app: Quart, project_id: str) -> None:
    for name in CHANGES:
        assert await ask(viewer, closed_app, name, project_id) == 403, name


async def test_only_an_admin_opens_the_pages_about_the_installation(
    viewer: Browser, invite: Invite, closed_app: Quart, project_id: str
) -> None:
    member, _ = await invite(Role.MEMBER, project_id)
    for name in OF_ADMIN:
        assert await ask(viewer, closed_app, name, project_id) == 403, name
        assert await ask(member, closed_app, name, project_id) == 403, name


async def test_an_admin_is_refused_nowhere(invite: Invite, post: Post, closed_app: Quart, project_id: str) -> None:
    await post()
    admin, _ = await invite(Role.ADMIN)
    for name, (method, _rule) in ROUTES.items():
        if method == "GET":
            assert await ask(admin, closed_app, name, project_id) not in {303, 401, 403, 500}, name
