"""GET /api/audit: who changed what, page by page, for admins alone."""

import csv
import io

import httpx
import pytest

from tests.assertions import assert_error


@pytest.fixture
async def admin(client: httpx.AsyncClient, project_id: str, admin_key: str) -> dict[str, str]:
    """An admin who made a project and a budget in it."""
    headers = {"Authorization": f"Bearer {admin_key}"}
    await client.post("/api/projects", json={"projectId": project_id, "name": "=Team"}, headers=headers)
    await client.post("/api/budgets", json={"projectId": project_id, "amountUSD": 400}, headers=headers)
    return headers


async def test_the_log_is_read_page_by_page(client: httpx.AsyncClient, project_id: str, admin: dict[str, str]) -> None:
    path = f"/api/audit?projectId={project_id}&limit=2"

    first = (await client.get(path, headers=admin)).json()
    last = (await client.get(f"{path}&before={first['nextBefore']}", headers=admin)).json()

    assert [one["action"] for one in first["entries"] + last["entries"]] == [
        "budget.set", "project.renamed", "project.created",
    ]  # fmt: skip
    assert last["nextBefore"] is None
    renamed = first["entries"][1]
    assert (renamed["before"], renamed["after"]) == ({"name": project_id}, {"name": "=Team"})
    assert (renamed["actorKind"], renamed["projectId"]) == ("key", project_id)


async def test_the_log_is_a_csv_file_as_well(client: httpx.AsyncClient, project_id: str, admin: dict[str, str]) -> None:
    response = await client.get(f"/api/audit?projectId={project_id}&format=csv", headers=admin)

    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert [(row["action"], row["after"]) for row in rows[1:]] == [
        ("project.renamed", '{"name":"=Team"}'), ("project.created", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(("query", "path"), [("limit=0", "limit"), ("before=x", "before"), ("format=xml", "format")])
async def test_a_question_that_is_wrong_is_refused(
    client: httpx.AsyncClient, admin: dict[str, str], query: str, path: str
) -> None:
    response = await client.get(f"/api/audit?{query}", headers=admin)

    assert_error(response, 422, "invalid_payload", paths=[path], never=["xml"])
    assert path != "format" or response.json()["error"]["details"][0]["message"] == "Use one of csv, json."


async def test_the_log_is_for_admins(client: httpx.AsyncClient, metrics_key: str) -> None:
    response = await client.get("/api/audit", headers={"Authorization": f"Bearer {metrics_key}"})

    assert_error(response, 403, "forbidden")
    unknown = await client.get("/api/audit")
    assert_error(unknown, 401, "invalid_key")
