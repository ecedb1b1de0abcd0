"""Role by route: whatever route there is, nobody gets where their role does not lead."""

import re
from urllib.parse import urlencode

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser
from werkzeug.routing import AnyConverter, IntegerConverter, Rule, UUIDConverter

from api.access import declared_rule
from runtally.access.keys import issue
from runtally.access.scopes import Permission, Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.user import Role
from tests.pages.conftest import Invite, Post, SignIn
from tests.routes import APP

PAGE_RULES = {"signed in", "chart viewer", "project editor", "admin"}


def _rule_name(rule: Rule) -> str:
    declared = declared_rule(APP.view_functions[rule.endpoint])
    return declared.name if declared else ""


ROUTES = {
    f"{method} {rule.rule}": (method, rule)
    for rule in APP.url_map.iter_rules()
    for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    if _rule_name(rule) in PAGE_RULES
}
OF_PROJECT = [name for name, (_, rule) in ROUTES.items() if "project_id" in rule.arguments]
OF_ADMIN = [name for name, (_, rule) in ROUTES.items() if _rule_name(rule) == "admin"]
CHANGES = [
    name
    for name, (method, rule) in ROUTES.items()
    # Everyone who may read a project may save views of it.
    if method != "GET" and "project_id" in rule.arguments and rule.endpoint.partition(".")[0] != "saved_views"
]


async def ask(browser: Browser, app: Quart, name: str, project_id: str) -> int:
    """The status of a request to this route, with nothing in its form."""
    method, rule = ROUTES[name]
    path = path_to(app, name, project_id)
    if "project_id" not in rule.arguments:
        # What names no project in its path is asked for this one.
        experiments = {"a": f"{project_id}/any", "b": f"{project_id}/other"} if "experiments" in path else {}
        path = f"{path}?{urlencode({'project': project_id, **experiments})}"
    response = await (browser.get(path) if method == "GET" else browser.post(path, form={}))
    target = response.headers.get("Location", "")
    if method == "GET" and target and not target.startswith("/sign-in"):
        # A page that moved says nothing by itself; the one that it leads to does.
        response = await browser.get(target)
    return int(response.status_code)


def path_to(app: Quart, name: str, project_id: str) -> str:
    return path_of(app, *ROUTES[name], project_id)


def path_of(app: Quart, method: str, rule: Rule, project_id: str) -> str:
    """The path of a route, with something that it takes in each place."""
    values = {argument: _value(rule, argument) for argument in rule.arguments} | {"project_id": project_id}
    if rule.endpoint == "runs.export_runs":
        values["name"] = "csv"
    adapter = app.url_map.bind("localhost")
    return str(adapter.build(rule.endpoint, {key: values[key] for key in rule.arguments}, method=method))


def _value(rule: Rule, argument: str) -> str:
    """Something that the route takes there."""
    converter = rule._converters[argument]  # noqa: SLF001  # werkzeug offers no other way.
    if isinstance(converter, AnyConverter):
        return min(converter.items)
    if isinstance(converter, IntegerConverter):
        return "1"
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
        # Of a form what was typed is kept.
        assert await ask(stranger, closed_app, name, project_id) == (303 if name.startswith("GET") else 401), name


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


NOBODY_BUT_USERS = None
# Shows of the installation only what each reader may open.
EVERY_KEY = {"GET /find"}
NEEDED = {
    "GET /": Scope.METRICS_READ,
    "GET /account": NOBODY_BUT_USERS,
    "POST /docs/key": Permission.EDIT_PROJECT,
    # Of users those who are in the team.
    "GET /admin/teams/<segment:team>": NOBODY_BUT_USERS,
    "GET /breakdown": Scope.METRICS_READ,
    "GET /breakdown.csv": Scope.METRICS_READ,
    "GET /charts/<any(cost,costPerSuccess,runs,errors,failed,latency,tokens,cache):name>.json": Scope.METRICS_READ,
    "GET /charts/cache-use.json": Scope.METRICS_READ,
    "GET /charts/cost-lines.json": Scope.METRICS_READ,
    "GET /charts/failures.json": Scope.METRICS_READ,
    "GET /charts/session.json": Scope.RUNS_READ,
    "GET /charts/speed.json": Scope.METRICS_READ,
    "GET /charts/<any(cost,costPerSuccess,runs,errors,failed,latency,tokens,cache):name>.svg": Scope.METRICS_READ,
    "GET /experiments": Scope.METRICS_READ,
    "GET /experiments/<segment:project_id>/<segment:experiment_id>": Scope.METRICS_READ,
    "GET /experiments/<segment:project_id>/<segment:experiment_id>/badge": Scope.METRICS_READ,
    "GET /experiments/compare": Scope.METRICS_READ,
    "GET /first-run": Scope.METRICS_READ,
    "GET /lines": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>/agents": Scope.RUNS_READ,
    "GET /projects/<project_id:project_id>/budgets": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>/cache": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>/compare": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>/costs": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>/errors": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>/runs": Scope.RUNS_READ,
    "GET /projects/<project_id:project_id>/runs/<id:run_id>": Scope.RUNS_READ,
    "GET /projects/<project_id:project_id>/sessions": Scope.RUNS_READ,
    "GET /projects/<project_id:project_id>/sessions/<id:session_id>": Scope.RUNS_READ,
    "GET /projects/<project_id:project_id>/speed": Scope.METRICS_READ,
    "GET /projects/<project_id:project_id>/traces": Scope.RUNS_READ,
    "GET /projects/<project_id:project_id>/traces/<id:trace_id>": Scope.RUNS_READ,
    "GET /projects/<project_id:project_id>/views": NOBODY_BUT_USERS,
    "GET /runs": Scope.RUNS_READ,
    "GET /runs/export.<name>": Scope.RUNS_READ,
    "GET /runs/find": Scope.RUNS_READ,
    "GET /why": Scope.METRICS_READ,
    "POST /account/password": NOBODY_BUT_USERS,
    "POST /account/sign-out": NOBODY_BUT_USERS,
    "POST /account/time-zone": NOBODY_BUT_USERS,
    "POST /projects/<project_id:project_id>/views": NOBODY_BUT_USERS,
    "POST /projects/<project_id:project_id>/views/<uuid:view_id>/remove": NOBODY_BUT_USERS,
    "POST /projects/<project_id:project_id>/views/<uuid:view_id>/rename": NOBODY_BUT_USERS,
}
"""For every page that anybody who is signed in may ask for: the scope without which a key is refused."""


def test_every_page_says_what_a_key_needs() -> None:
    assert set(NEEDED) | EVERY_KEY == {
        name for name, (_, rule) in ROUTES.items() if _rule_name(rule) in {"signed in", "chart viewer"}
    }


@pytest.mark.parametrize("scope", [Scope.METRICS_READ, Scope.RUNS_READ, Scope.RUNS_WRITE])
async def test_a_key_opens_the_pages_of_its_scope_and_changes_nothing(
    signed_in: SignIn, post: Post, closed_app: Quart, project_id: str, scope: Scope
) -> None:
    await post()
    browser = await signed_in(project_id, scope)

    for name in ROUTES:
        status = await ask(browser, closed_app, name, project_id)
        if name in EVERY_KEY:
            assert status == 200, name
        elif name not in NEEDED:
            assert status == 403, name
        elif NEEDED[name] is NOBODY_BUT_USERS:
            assert status == 404, name
        elif NEEDED[name] is scope:
            assert status in {200, 204, 400, 404}, name
        else:
            assert status == 403, name


# What shows single runs, people or prices; all other pages that a key with metrics:read opens a link opens too.
NOT_BY_LINK = {"GET /projects/<project_id:project_id>/costs"}


async def test_a_link_opens_the_pages_of_metrics_and_no_others(
    invite: Invite, stranger: Browser, post: Post, closed_app: Quart, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    await member.post(f"/projects/{project_id}/settings/links", form={"name": "finance"})
    shown = await (await member.get(f"/projects/{project_id}/settings/links")).get_data(as_text=True)
    await stranger.get(re.findall(r"http://localhost(/shared/[\w-]+)", shown)[0])

    for name in ROUTES:
        status = await ask(stranger, closed_app, name, project_id)
        if name in EVERY_KEY:
            assert status == 200, name
        elif NEEDED.get(name) is Scope.METRICS_READ and name not in NOT_BY_LINK:
            assert status in {200, 204, 400, 404}, name
        else:
            assert status in {403, 404}, name
        assert await ask(stranger, closed_app, name, f"{project_id}-other") in {200, 204, 400, 403, 404}, name


@pytest.mark.parametrize("scope", [*Scope, None], ids=str)
async def test_the_api_asks_each_route_for_its_own_credentials(
    closed_app: Quart, database: Database, project_id: str, scope: Scope | None
) -> None:
    headers = {} if scope is None else await _bearer(database, project_id, scope)
    client = closed_app.test_client()
    # A key that may write gets an error about the empty request.
    writing = {401} if scope is None else {200, 415} if scope in {Scope.RUNS_WRITE, Scope.ADMIN} else {403}
    answers = {
        "public": {200, 404},
        "ingest key": writing,
        "otlp key": writing,
        "sync signature": {401, 503},
        "metrics token": {401, 503},
        "project key": {{None: 401, Scope.METRICS_READ: 200, Scope.ADMIN: 400}.get(scope, 403)},
    }
    asked = 0
    for rule in closed_app.url_map.iter_rules():
        if rule.rule.startswith("/api/") or rule.rule == "/metrics":
            path = re.sub("<[^>]+>", project_id, rule.rule)
            methods = rule.methods or set()
            ask = client.post if "POST" in methods else client.delete if "DELETE" in methods else client.get
            response = await ask(path, headers=headers)
            of_rule = answers[_rule_name(rule)]  # Audit, bills and erasures are of the whole installation.
            if rule.rule.startswith(("/api/audit", "/api/bills", "/api/erasures")):
                of_rule = {None: {401}, Scope.ADMIN: {200, 400, 404}}.get(scope, {403})
            elif rule.rule in {"/api/runs", "/api/sessions"}:
                of_rule = {None: {401}, Scope.RUNS_READ: {200}, Scope.ADMIN: {200, 400}}.get(scope, {403})
            elif closed_app.view_functions[rule.endpoint].__module__.startswith("api.managed"):
                # Each kind has a scope of its own, which is asked for once the body says which project it is of.
                may_write = scope is not None and scope.endswith(":write") and scope is not Scope.RUNS_WRITE
                of_rule = {None: {401}, Scope.ADMIN: {200, 400, 404}}.get(
                    scope, {200, 400, 403, 404} if may_write else {400, 403}
                )
            elif rule.rule.startswith("/api/notes"):
                # A body says which project a note is of.
                of_rule = {401} if scope is None else {200, 400, 403, 404}
            assert response.status_code in of_rule, rule.rule
            asked += 1
    assert asked >= 8


async def _bearer(database: Database, project_id: str, scope: Scope) -> dict[str, str]:
    of_project = None if scope is Scope.ADMIN else project_id
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=of_project, scopes=[scope])
    return {"Authorization": f"Bearer {key.secret}"}
