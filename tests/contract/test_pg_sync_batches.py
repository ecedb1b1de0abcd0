"""POST /api/internal/pg-sync with `documents`: one signature, an answer for each document."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from runtally.db.database import Database
from tests.assertions import assert_error
from tests.documents import SYNC_PATH, SYNC_SECRET, make_document, push
from tests.serving import Server, client_of, running_server


@pytest.fixture(scope="module")
def receiving_server(database: Database, database_url: str) -> Iterator[Server]:
    """A service that takes documents, and pushes none itself."""
    with running_server(database_url, SERVICE_SYNC_SIGN=SYNC_SECRET, RELAY="off") as server:
        yield server


@pytest.fixture
async def relay(receiving_server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(receiving_server.url) as client:
        yield client


async def reported(database: Database, project_id: str) -> dict[str, int]:
    """Versions of the runs in the reporting table."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT id, version FROM reporting_runs WHERE project_id = $1 ORDER BY id", project_id
        )
    return {row["id"]: row["version"] for row in rows}


def batch(*documents: object) -> dict[str, Any]:
    return {"documents": documents}


@pytest.mark.parametrize("path", [SYNC_PATH, f"{SYNC_PATH}?through=quart"])
async def test_each_document_is_answered_in_the_order_sent(
    relay: httpx.AsyncClient, database: Database, project_id: str, path: str
) -> None:
    await push(relay, make_document(project_id, id="b", version=2))
    body = batch(*(make_document(project_id, id=run_id) for run_id in "cba"))

    response = await push(relay, body, path=path)

    assert response.status_code == 200
    results = [{"id": "c", "applied": True}, {"id": "b", "applied": False}, {"id": "a", "applied": True}]
    assert response.json() == {"ok": True, "results": results}
    assert await reported(database, project_id) == {"a": 1, "b": 2, "c": 1}


async def test_an_invalid_document_is_refused_alone_with_paths_and_without_values(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    invalid = make_document(project_id, id="bad", status="sk-secret-1", provider="")

    response = await push(relay, batch(make_document(project_id), invalid, {"id": 7}, [], None, "text"))

    taken, refused, *nameless = response.json()["results"]
    assert response.status_code == 200
    assert taken == {"id": "run-1", "applied": True}
    assert (refused["id"], refused["error"]["code"]) == ("bad", "invalid_payload")
    assert {detail["path"] for detail in refused["error"]["details"]} == {"status", "provider"}
    assert "sk-secret-1" not in response.text
    assert [(each["id"], "applied" in each) for each in nameless] == [(None, False)] * 4
    assert await reported(database, project_id) == {"run-1": 1}


async def test_of_several_versions_in_a_batch_the_newest_is_kept(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    response = await push(relay, batch(*(make_document(project_id, version=version) for version in (1, 3, 2))))

    assert [result["applied"] for result in response.json()["results"]] == [False, True, False]
    assert await reported(database, project_id) == {"run-1": 3}


async def test_a_batch_has_1_to_500_documents(relay: httpx.AsyncClient, database: Database, project_id: str) -> None:
    documents = [make_document(project_id, id=f"run-{number:03}") for number in range(501)]

    full = await push(relay, batch(*documents[:500]))
    for wrong in (batch(*documents), batch(), {"documents": None}, {"documents": "text"}):
        assert_error(await push(relay, wrong), 422, "invalid_payload", paths=["documents"])

    assert len(full.json()["results"]) == len(await reported(database, project_id)) == 500


async def test_the_signature_is_of_the_whole_body(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    wrong = await push(relay, batch(make_document(project_id)), secret="another")
    unsigned = await relay.post(SYNC_PATH, json=batch(make_document(project_id)))

    for response in (wrong, unsigned):
        assert_error(response, 401, "invalid_signature")
    assert await reported(database, project_id) == {}


async def test_a_document_that_has_documents_is_a_batch_whatever_else_it_has(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    both = make_document(project_id, id="outer") | batch(make_document(project_id, id="inner"))

    response = await push(relay, both)

    assert response.json()["results"] == [{"id": "inner", "applied": True}]
    assert await reported(database, project_id) == {"inner": 1}


async def test_content_never_reaches_the_reporting_table(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    await push(relay, batch(make_document(project_id, prompt="secret", metadata={"messages": ["secret"], "user": "u"})))

    async with database.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM reporting_runs WHERE project_id = $1", project_id)
    assert row
    assert row["metadata"] == {"user": "u"}
    assert "secret" not in json.dumps(dict(row), default=str)
