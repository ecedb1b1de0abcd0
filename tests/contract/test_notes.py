"""/api/notes: what happened when, from CI, by project and tag."""

from typing import Any

import httpx
import pytest

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.assertions import assert_error
from tests.documents import make_stored_run

PATH = "/api/notes"


@pytest.fixture
async def headers(database: Database, project_id: str) -> dict[str, str]:
    async with database.connection() as connection:
        await insert_runs(connection, [make_stored_run(project_id, "a")])
    return await key_of(database, project_id, Scope.RUNS_WRITE, Scope.METRICS_READ)


async def key_of(database: Database, project_id: str, *scopes: Scope) -> dict[str, str]:
    async with database.session() as session:
        issued = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=scopes)
    return {"Authorization": f"Bearer {issued.secret}"}


async def test_a_note_of_ci_is_kept_listed_by_tag_and_deleted(
    client: httpx.AsyncClient, project_id: str, headers: dict[str, str]
) -> None:
    first = await client.post(
        PATH, json={"text": "Deployed 2026.47", "at": "2026-11-18T12:00:00+02:00"}, headers=headers
    )
    second = await client.post(PATH, json={"text": " New prompt ", "tag": "beta"}, headers=headers)
    every = (await client.get(PATH, headers=headers)).json()["notes"]
    of_other = (await client.get(PATH, params={"tag": "stable"}, headers=headers)).json()["notes"]
    gone = await client.delete(f"{PATH}/{second.json()['note']['id']}", headers=headers)
    twice = await client.delete(f"{PATH}/{second.json()['note']['id']}", headers=headers)
    left = (await client.get(PATH, headers=headers)).json()["notes"]

    assert (first.status_code, second.status_code, gone.status_code) == (201, 201, 200), second.text
    note = first.json()["note"]
    assert (note["at"], note["text"], note["tag"], note["projectId"]) == (
        "2026-11-18T10:00:00Z",
        "Deployed 2026.47",
        None,
        project_id,
    )
    assert [one["text"] for one in every] == ["New prompt", "Deployed 2026.47"]
    assert [one["text"] for one in of_other] == ["Deployed 2026.47"]
    assert_error(twice, 404, "not_found")
    assert left == [note]


@pytest.mark.parametrize(
    ("body", "code", "paths"),
    [
        ({"text": "  "}, "invalid_note", ["text"]),
        ({"text": "x", "at": "1999-01-01T00:00:00Z"}, "invalid_note", ["at"]),
        ({"text": "x", "tag": "t" * 65}, "invalid_note", ["tag"]),
        ({"text": 5}, "invalid_payload", ["text"]),
        ({"text": "x", "more": 1}, "invalid_payload", ["more"]),
        ({}, "invalid_payload", ["text"]),
    ],
)
async def test_a_note_that_cannot_be_kept_says_why(
    client: httpx.AsyncClient, headers: dict[str, str], body: dict[str, Any], code: str, paths: list[str]
) -> None:
    assert_error(await client.post(PATH, json=body, headers=headers), 422, code, paths=paths)


async def test_a_key_without_the_scope_or_of_another_project_writes_no_note(
    client: httpx.AsyncClient, database: Database, project_id: str, headers: dict[str, str]
) -> None:
    reader = await key_of(database, project_id, Scope.METRICS_READ)
    note_id = (await client.post(PATH, json={"text": "x"}, headers=headers)).json()["note"]["id"]
    other = await key_of(database, f"{project_id}-other", Scope.RUNS_WRITE)

    assert_error(await client.post(PATH, json={"text": "x"}, headers=reader), 403, "forbidden")
    assert_error(await client.post(PATH, json={"text": "x", "projectId": project_id}, headers=other), 403, "forbidden")
    assert_error(await client.delete(f"{PATH}/{note_id}", headers=other), 404, "not_found")
