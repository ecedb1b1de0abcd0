"""What forms change is changed over the API by the same rules: listed, made, changed and deleted, with keys for that thing."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from runtally import audit
from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.experiments import edit as experiments
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY, client_of, running_server

BUDGET = {"amountUSD": 400.5, "alertPercents": [80, 100]}


@pytest.fixture
def admin(admin_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {admin_key}"}


@pytest.fixture
async def project(client: httpx.AsyncClient, project_id: str, admin: dict[str, str]) -> str:
    response = await client.post("/api/projects", json={"projectId": project_id, "name": "Team"}, headers=admin)
    assert response.status_code == 201, response.text
    return project_id


async def key_of(database: Database, project_id: str, *scopes: Scope) -> dict[str, str]:
    async with database.session() as session:
        secret = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=scopes).secret
    return {"Authorization": f"Bearer {secret}"}


EACH: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "budgets": (BUDGET, {"amountUSD": 500}),
    "experiments": ({"experimentId": "v2", "maxErrorRate": 0.02}, {"maxErrorRate": 0.03, "minRuns": 5}),
    "alertRules": (
        {"errorRatePercent": 5.5, "latencyUnusual": True, "newModel": True},
        {"minRuns": 50, "latencyMs": 800, "runCostUSD": 2.5, "keyExpiryDays": 7},
    ),
    "users": ({"email": "bob@team.example", "role": "viewer"}, {"role": "member"}),
    "groups": ({"group": "search-devs", "role": "viewer"}, {"role": "member"}),
    "keys": ({"name": "production", "scopes": ["runs:write", "metrics:read"]}, {}),
    "links": ({"name": "for the board", "expiresAt": "2099-01-01T00:00:00Z"}, {}),
    "discounts": (
        {"provider": "acme", "percent": 12.5, "effectiveFrom": "2099-01-01T00:00:00Z"},
        {"percent": 20, "note": "More"},
    ),
    "prices": (
        {"provider": "acme", "model": "acme-large", "inputPerMillion": 2.5, "aliases": ["acme-xl"]},
        {"inputPerMillion": 3},
    ),
    "trackedKeys": ({"key": "squad"}, {}),
    "nameRules": ({"key": "customer", "storage": "dropped"}, {"storage": "plain"}),
}
"""Of each kind one, and what of it is changed."""
WITH_SECRET = {"users", "keys", "links"}


async def all_of(client: httpx.AsyncClient, admin: dict[str, str], kind: str) -> AsyncIterator[object]:
    """What there is of a kind, page by page: other tests leave more than one."""
    sent: dict[str, str] | None = {}
    while sent is not None:
        answer = (await client.get(f"/api/{kind}", params=sent, headers=admin)).json()
        for one in answer[kind]:
            yield one
        sent = {"after": answer["nextAfter"]} if answer["nextAfter"] else None


@pytest.mark.parametrize("kind", EACH)
async def test_a_thing_is_made_read_changed_and_deleted(
    client: httpx.AsyncClient, project: str, admin: dict[str, str], kind: str
) -> None:
    sent, change = {"projectId": project, **EACH[kind][0]}, EACH[kind][1]
    path = f"/api/{kind}"

    made = await client.post(path, json=sent, headers=admin)

    assert made.status_code == 201, made.text
    stored = made.json()
    assert (kind in WITH_SECRET) == bool(stored.pop("secret", None))
    assert {name: stored[name] for name in sent} == sent
    assert (await client.post(path, json=sent, headers=admin)).status_code == 200
    one = f"{path}/{stored['id']}"
    assert (await client.get(one, headers=admin)).json() == stored
    assert stored in [one async for one in all_of(client, admin, kind)]
    of_project = (await client.get(f"{path}?projectId={project}", headers=admin)).json()[kind]
    assert stored in of_project
    assert {one["projectId"] for one in of_project} == {project}
    if change:
        changed = await client.put(one, json={**stored, **change}, headers={**admin, "If-Match": stored["version"]})
        assert changed.status_code == 200, changed.text
        is_now = changed.json()
        # Whose role changes before they came gets another link.
        assert (kind == "users") == bool(is_now.pop("secret", None))
        assert is_now == {**stored, **change, "version": is_now["version"]}
        assert is_now["version"] != stored["version"]
        assert changed.headers["ETag"] == f'"{changed.json()["version"]}"'
    if kind == "experiments":
        return
    assert (await client.delete(one, headers=admin)).json() == {"ok": True, "id": stored["id"]}
    assert_error(await client.get(one, headers=admin), 404, "not_found")
    assert_error(await client.delete(one, headers=admin), 404, "not_found")


async def test_what_changed_meanwhile_is_not_overwritten(
    client: httpx.AsyncClient, project: str, admin: dict[str, str]
) -> None:
    sent = {"projectId": project, **BUDGET}
    seen = (await client.post("/api/budgets", json=sent, headers=admin)).json()
    path = f"/api/budgets/{seen['id']}"
    now = (await client.put(path, json={**sent, "amountUSD": 7}, headers=admin)).json()

    behind = {**admin, "If-Match": f'"{seen["version"]}"'}
    for response in (
        await client.put(path, json={**sent, "amountUSD": 8}, headers=behind),
        await client.delete(path, headers=behind),
        await client.post("/api/budgets", json={**sent, "amountUSD": 8}, headers=admin),
    ):
        assert_error(response, 409, "conflict")
        assert response.json()["error"]["current"] == now


@pytest.mark.parametrize("path", ["/api/experiments", "/api/config"])
async def test_a_list_has_pages_that_together_have_each_thing_once(
    client: httpx.AsyncClient, project: str, admin: dict[str, str], path: str
) -> None:
    # Bytewise, capitals come first.
    names = ["Z", "a", "b", "ä", "日"]
    for name in names:
        await client.post("/api/experiments", json={"projectId": project, "experimentId": name}, headers=admin)
        await client.post("/api/links", json={"projectId": project, "name": name}, headers=admin)
    of_kind, query, pages = {"experiments": list[str](), "links": list[str]()}, {"projectId": project, "limit": "2"}, 0

    while query.get("after", "") is not None:
        answer = (await client.get(path, params=query, headers=admin)).json()
        listed = answer.get("resources", answer)
        assert sum(len(one) for one in listed.values() if isinstance(one, list)) <= 2
        of_kind["experiments"] += [one["experimentId"] for one in listed.get("experiments", ())]
        of_kind["links"] += [one["name"] for one in listed.get("links", ())]
        query["after"], pages = answer["nextAfter"], pages + 1

    assert of_kind == {"experiments": names, "links": names if path == "/api/config" else []}
    assert pages > 5 if path == "/api/config" else pages == 3
    refused = await client.get(path, params={"projectId": project, "after": "x"}, headers=admin)
    assert_error(refused, 422, "invalid_payload", paths=["after"])
    assert_error(await client.get(f"{path}?limit=1001", headers=admin), 422, "invalid_payload", paths=["limit"])


async def test_of_many_experiments_the_one_alone_is_read(
    client: httpx.AsyncClient, project: str, admin: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = {"projectId": project, "experimentId": " b "}
    for name in ("a", "b", "c"):
        await client.post("/api/experiments", json={**sent, "experimentId": name}, headers=admin)

    async def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(experiments, "list_experiments", refused)

    again = await client.post("/api/experiments", json=sent, headers=admin)
    assert (again.status_code, again.json()["experimentId"]) == (200, "b")
    path, query = f"/api/experiments/{again.json()['id']}", {"projectId": project}
    changed = await client.put(path, json={**sent, "minRuns": 7}, headers=admin)
    assert changed.status_code == 200, changed.text
    assert (await client.get(path, params=query, headers=admin)).json() == changed.json()
    assert changed.json()["minRuns"] == 7
    missing = await client.get("/api/experiments/0123456789abcdef", params=query, headers=admin)
    assert_error(missing, 404, "not_found")
    nul = await client.post("/api/experiments", json={**sent, "experimentId": "x\0"}, headers=admin)
    assert_error(nul, 422, "invalid_name", paths=["experimentId"])


async def test_a_rule_for_names_holds_for_the_next_budget_and_the_next_run(
    client: httpx.AsyncClient, database: Database, project: str, admin: dict[str, str]
) -> None:
    rule = {"projectId": project, "key": "user", "storage": "hashed"}
    assert (await client.post("/api/nameRules", json=rule, headers=admin)).status_code == 201

    made = await client.post(
        "/api/budgets",
        json={"projectId": project, "dimension": "user", "value": "Ada Lovelace", **BUDGET},
        headers=admin,
    )
    sent = {"projectId": project, "runs": [make_run(userId="Ada Lovelace")]}
    await client.post("/api/ingest", json=sent, headers={"x-api-key": INGEST_KEY})

    assert made.status_code == 201, made.text
    assert re.fullmatch("user [0-9a-f]{16}", made.json()["value"])
    async with database.connection() as connection:
        stored = await connection.fetch("SELECT user_id FROM runs WHERE project_id = $1", project)
    assert [row["user_id"] for row in stored] == [made.json()["value"]]


async def test_a_change_is_audited_as_its_form_is(
    client: httpx.AsyncClient, database: Database, project: str, admin: dict[str, str]
) -> None:
    await client.post("/api/budgets", json={"projectId": project, **BUDGET}, headers=admin)

    async with database.session() as session:
        entries = await audit.list_entries(session, project_id=project)

    assert [(one.action, one.actor_kind) for one in entries] == [
        ("budget.set", "key"), ("project.renamed", "key"), ("project.created", "key"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "sent", "status", "paths"),
    [
        ("budgets", {"amountUSD": 0}, 422, ["amountUSD"]),
        ("budgets", {"amountUSD": "NaN"}, 422, ["amountUSD"]),
        ("budgets", {"amountUSD": "much"}, 422, ["amountUSD"]),
        ("budgets", {"amountUSD": 1, "alertPercents": [0]}, 422, ["alertPercents"]),
        ("budgets", {"amountUSD": 1, "dimension": "colour", "period": "year"}, 422, ["dimension", "period"]),
        ("budgets", {"amountUSD": 1, "currency": "EUR"}, 422, ["currency"]),
        ("budgets", {"amountUSD": 1, "no name of ours": "EUR"}, 422, [""]),
        ("budgets", {}, 422, ["amountUSD"]),
        ("experiments", {"experimentId": "a", "maxErrorRate": 2}, 422, ["maxErrorRate"]),
        ("experiments", {"experimentId": ""}, 422, ["experimentId"]),
        ("experiments", {"experimentId": "a", "windowRuns": 10**12}, 422, ["windowRuns"]),
        ("users", {"email": "bob", "role": "viewer"}, 422, ["email"]),
        ("users", {"email": "bob@team.example", "role": "owner"}, 422, ["role"]),
        ("users", {"email": "bob@team.example", "role": "admin"}, 422, ["projectId"]),
        ("users", {"projectId": "", "email": "bob@team.example", "role": "viewer"}, 422, ["projectId"]),
        ("keys", {"name": " ", "scopes": ["runs:write"]}, 422, ["name"]),
        ("keys", {"name": "a", "scopes": ["everything"]}, 422, []),
        ("keys", {"name": "a", "scopes": ["admin"]}, 422, []),
        ("keys", {"name": "a", "scopes": ["runs:read"], "expiresAt": "2020-01-01T00:00:00Z"}, 422, ["expiresAt"]),
        ("links", {"name": "x", "expiresAt": "soon"}, 422, ["expiresAt"]),
        ("discounts", {"percent": 101}, 422, ["percent"]),
        ("prices", {"provider": "acme", "model": "m"}, 422, ["inputPerMillion"]),
        ("prices", {"provider": "acme", "model": "m", "inputPerMillion": -1}, 422, ["inputPerMillion"]),
        ("nameRules", {"key": "a", "storage": "shredded"}, 422, ["storage"]),
        ("trackedKeys", {"key": "\0"}, 422, []),
        ("alertRules", {"errorRatePercent": 101, "minRuns": 0}, 422, ["errorRatePercent", "minRuns"]),
        ("alertRules", {"minRuns": 5}, 422, []),
        ("alertChannels", {"address": "no address"}, 422, ["address"]),
        ("alertChannels", {"address": "https://hooks.slack.com/…abcd #123456"}, 422, ["address"]),
        ("projects", {"projectId": "x-" * 30, "retentionDays": 1}, 422, []),
        ("projects", {"projectId": "x-" * 30, "name": "x" * 129}, 422, ["name"]),
        ("projects", {"projectId": ""}, 422, ["projectId"]),
    ],
)
async def test_what_a_form_refuses_is_refused(  # noqa: PLR0913, PLR0917  # A row, for whom and where.
    client: httpx.AsyncClient,
    project: str,
    admin: dict[str, str],
    kind: str,
    sent: dict[str, Any],
    status: int,
    paths: list[str],
) -> None:
    response = await client.post(f"/api/{kind}", json={"projectId": project, **sent}, headers=admin)

    assert response.status_code == status, response.text
    assert [one["path"] for one in response.json()["error"].get("details", [])] == paths


async def test_the_secret_part_of_a_channel_is_never_answered_and_what_is_answered_stands_for_it(
    client: httpx.AsyncClient, database: Database, project: str, admin: dict[str, str]
) -> None:
    address = "https://hooks.slack.com/services/T0/B0/secret-of-the-channel"

    made = await client.post("/api/alertChannels", json={"projectId": project, "address": address}, headers=admin)
    assert made.status_code == 201, made.text
    one = made.json()
    again = await client.post("/api/alertChannels", json={"projectId": project, "address": address}, headers=admin)
    path, sent = f"/api/alertChannels/{one['id']}", {**one, "weeklyReport": True}
    changed = await client.put(path, json=sent, headers=admin)

    assert (again.status_code, again.json()) == (200, one)
    assert one["address"].startswith("https://hooks.slack.com/…nnel #")
    assert changed.json() == {**sent, "version": changed.json()["version"]}
    async with database.connection() as connection:
        stored = await connection.fetch(
            "SELECT address, weekly_report FROM alert_targets WHERE project_id = $1", project
        )
    assert [tuple(row) for row in stored] == [(address, True)]
    hook = {"projectId": project, "address": "https://example.com/alerts"}
    assert (await client.post("/api/alertChannels", json=hook, headers=admin)).json()["secret"].startswith("whsec_")
    assert (await client.delete(path, headers=admin)).status_code == 200


async def test_a_mail_address_says_that_it_waits_for_a_confirmation_which_nobody_sends(
    database_url: str, project: str, admin: dict[str, str]
) -> None:
    sent = {"projectId": project, "address": "ada@team.example"}
    mails: dict[str, Any] = {
        "SMTP_HOST": "127.0.0.1",
        "SMTP_PORT": "1",
        "SMTP_FROM": "r@team.example",
        "PUBLIC_URL": "http://r.example",
    }
    with running_server(database_url, **mails) as server:
        async with client_of(server.url) as client:
            made = await client.post("/api/alertChannels", json=sent, headers=admin)
            again = await client.post("/api/alertChannels", json={**sent, "isUnconfirmed": False}, headers=admin)
            written = (await client.get("/api/config", params={"projectId": project}, headers=admin)).json()

    assert (made.status_code, made.json()["isUnconfirmed"]) == (201, True)
    assert (again.status_code, again.json()) == (200, made.json())
    assert "isUnconfirmed" not in str(written["resources"]["alertChannels"])


async def test_nothing_is_made_for_a_project_that_is_not_there(
    client: httpx.AsyncClient, project_id: str, admin: dict[str, str]
) -> None:
    response = await client.post("/api/budgets", json={"projectId": project_id, **BUDGET}, headers=admin)

    assert_error(response, 404, "not_found")


async def test_a_key_changes_what_its_scope_names_in_its_project_alone(
    client: httpx.AsyncClient, database: Database, project: str, admin: dict[str, str]
) -> None:
    other = f"{project}-other"
    await client.post("/api/projects", json={"projectId": other}, headers=admin)
    key = await key_of(database, project, Scope.BUDGETS_WRITE)

    made = await client.post("/api/budgets", json={"projectId": project, **BUDGET}, headers=key)
    assert made.status_code == 201, made.text
    assert (await client.get("/api/budgets", headers=key)).json()["budgets"] == [made.json()]
    for response in (
        await client.post("/api/budgets", json={"projectId": other, **BUDGET}, headers=key),
        await client.post("/api/budgets", json={"projectId": "", **BUDGET}, headers=key),
        await client.get(f"/api/budgets?projectId={other}", headers=key),
        await client.post("/api/trackedKeys", json={"projectId": project, "key": "squad"}, headers=key),
        await client.get("/api/experiments", headers=await key_of(database, project, Scope.METRICS_READ)),
    ):
        assert_error(response, 403, "forbidden")


async def test_a_project_is_deleted_with_its_runs_by_an_admin_alone(
    client: httpx.AsyncClient, database: Database, project: str, admin: dict[str, str]
) -> None:
    [found] = (await client.get(f"/api/projects?projectId={project}", headers=admin)).json()["projects"]
    assert (found["name"], found["retentionDays"], found["isHidden"]) == ("Team", None, False)
    path = f"/api/projects/{found['id']}"

    owner = await key_of(database, project, Scope.PROJECT_WRITE)
    assert_error(await client.delete(path, headers=owner), 403, "forbidden")
    assert (await client.delete(f"{path}?projectId={project}", headers=admin)).status_code == 200

    assert (await client.get(f"/api/projects?projectId={project}", headers=admin)).json()["projects"] == []


async def test_a_team_is_made_renamed_and_deleted_and_an_admin_puts_projects_into_it(
    client: httpx.AsyncClient, database: Database, project: str, admin: dict[str, str]
) -> None:
    team = f"of-{project}"
    key = await key_of(database, project, Scope.PROJECT_WRITE)

    made = await client.post("/api/teams", json={"team": team}, headers=admin)
    assert (made.status_code, made.json()["name"]) == (201, team), made.text
    path = f"/api/teams/{made.json()['id']}"
    renamed = await client.put(path, json={"team": team, "name": "Search"}, headers=admin)
    assert renamed.json()["name"] == "Search"
    assert renamed.json() in [one async for one in all_of(client, admin, "teams")]

    [found] = (await client.get(f"/api/projects?projectId={project}", headers=admin)).json()["projects"]
    of_project = f"/api/projects/{found['id']}"
    sent = {"projectId": project, "name": "Ours"}
    owned = await client.put(of_project, json={**sent, "team": team}, headers=admin)
    assert owned.json()["team"] == team
    # A key of the project changes the rest of it, and leaves the team as it is.
    kept = await client.put(of_project, json={**sent, "retentionDays": 90}, headers=key)
    assert (kept.json()["team"], kept.json()["retentionDays"]) == (team, 90)
    assert_error(await client.put(of_project, json={**sent, "team": ""}, headers=key), 403, "forbidden")
    nowhere = await client.put(of_project, json={**sent, "team": "nowhere"}, headers=admin)
    assert_error(nowhere, 422, "invalid_name", paths=["team"])

    role = {"projectId": f"team::{team}", "email": f"ada@{team}.example", "role": "member"}
    assert (await client.post("/api/users", json=role, headers=admin)).status_code == 201
    listed = (await client.get(f"/api/users?projectId=team::{team}", headers=admin)).json()["users"]
    assert [one["email"] for one in listed] == [role["email"]]
    for kind, thing in (("keys", {"name": "a", "scopes": ["runs:read"]}), ("trackedKeys", {"key": "squad"})):
        refused = await client.post(f"/api/{kind}", json={"projectId": f"team::{team}", **thing}, headers=admin)
        assert_error(refused, 404, "not_found")

    assert (await client.delete(path, headers=admin)).status_code == 200
    assert (await client.get(of_project, headers=admin)).json()["team"] is None
    assert_error(await client.post("/api/users", json=role, headers=admin), 404, "not_found")
    async with database.session() as session:
        entries = await audit.list_entries(session, project_id=f"team::{team}")
    assert [one.action for one in entries] == ["team.deleted", "user.invited", "team.renamed", "team.created"]


@pytest.mark.parametrize(
    ("sent", "path"),
    [({"team": "Search"}, "team"), ({"team": "-a"}, "team"), ({"team": ""}, "team"), ({"team": "a", "name": "x" * 129}, "name"),
     ({"team": "a", "projectId": "b"}, "projectId")],
)  # fmt: skip
async def test_a_team_without_a_fit_id_is_refused(
    client: httpx.AsyncClient, admin: dict[str, str], sent: dict[str, str], path: str
) -> None:
    response = await client.post("/api/teams", json=sent, headers=admin)

    assert response.status_code == 422, response.text
    assert [one["path"] for one in response.json()["error"]["details"]] == [path]


async def test_a_parameter_with_nul_is_no_error_of_ours_on_any_route(
    client: httpx.AsyncClient, project: str, admin: dict[str, str]
) -> None:
    document = (await client.get("/api/openapi.json")).json()
    asked = [
        (method, re.sub(r"{\w+}", "1", path), parameter["name"])
        for path, operations in document["paths"].items()
        for method in ("get", "delete")
        for parameter in operations.get(method, {}).get("parameters", ())
        if parameter["in"] == "query"
    ]
    assert len(asked) > 100

    statuses = {}
    for method, path, name in asked:
        params = {"projectId": project, name: "a\0b"}
        statuses[method, path, name] = (await client.request(method, path, params=params, headers=admin)).status_code

    assert {one: status for one, status in statuses.items() if status == 500} == {}
    assert statuses["get", "/api/budgets", "projectId"] == statuses["get", "/api/notes", "tag"] == 422
    bill = {"provider": "a\0b", "since": "2026-10-01", "until": "2026-11-01", "amountUSD": 1}
    assert (await client.post("/api/bills", json=bill, headers=admin)).status_code == 422
