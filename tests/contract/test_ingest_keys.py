"""Which keys may ingest, and for which project."""

import hmac
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from quart import Quart

from runtally.access.scopes import Scope
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_key, make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app


@pytest.fixture(scope="module")
async def key_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """The application where project keys may ingest."""
    app = create_app(settings_for(database_url, ingest_project_keys=True))
    async with app.test_app():
        yield app


@pytest.fixture(scope="module")
async def three_keys_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """The application with three shared keys."""
    app = create_app(settings_for(database_url, ingest_api_key="first-key,second-key,third-key"))
    async with app.test_app():
        yield app


async def ingest(app: Quart, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    response = await app.test_client().post("/api/ingest", json=body, headers={"Authorization": f"Bearer {key}"})
    return response.status_code, await response.get_json()


async def projects_of(database: Database, *run_ids: str) -> list[str]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT project_id FROM runs WHERE id = ANY($1) ORDER BY id", list(run_ids))
    return [row["project_id"] for row in rows]


async def test_without_the_setting_a_project_key_does_not_ingest(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)

    response = await stranger.post(
        "/api/ingest", json=make_run(projectId=project_id), headers={"Authorization": f"Bearer {key}"}
    )

    assert_error(response, 401, "invalid_key", never=[key])


async def test_with_it_the_project_comes_from_the_key(key_app: Quart, database: Database, project_id: str) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    ids = [f"{project_id}-{number}" for number in range(5)]

    answers = [
        await ingest(key_app, key, body)
        for body in (
            make_run(runId=ids[0]),
            make_run(runId=ids[1], projectId=project_id),
            make_run(runId=ids[2]) | {"projectId": None},
            make_run(runId=ids[3], projectId=" "),
            {"runs": [make_run(runId=ids[4])]},
        )
    ]

    assert [status for status, _ in answers] == [200] * 5
    assert await projects_of(database, *ids) == [project_id] * 5


@pytest.mark.parametrize("batch", [False, True])
async def test_a_differing_project_is_forbidden_and_nothing_is_stored(
    key_app: Quart, database: Database, project_id: str, batch: bool
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    run = make_run(runId=f"{project_id}-run")
    body = {"projectId": f"{project_id}-other"} | ({"runs": [run]} if batch else run)

    status, answer = await ingest(key_app, key, body)

    assert (status, answer["error"]["code"]) == (403, "forbidden")
    assert await projects_of(database, run["runId"]) == []


async def test_ingest_needs_the_scope_for_it(key_app: Quart, project_id: str, metrics_key: str) -> None:
    status, answer = await ingest(key_app, metrics_key, make_run(projectId=project_id))

    assert (status, answer["error"]["code"]) == (403, "forbidden")


async def test_an_admin_key_and_the_shared_key_ingest_for_the_project_that_the_body_names(
    key_app: Quart, database: Database, project_id: str, admin_key: str
) -> None:

    for number, key in enumerate((admin_key, INGEST_KEY)):
        status, _ = await ingest(key_app, key, make_run(projectId=project_id, runId=f"{project_id}-{number}"))
        missing, answer = await ingest(key_app, key, make_run())

        assert (status, missing, answer["error"]["code"]) == (200, 400, "missing_project_id")
    assert await projects_of(database, f"{project_id}-0", f"{project_id}-1") == [project_id] * 2


async def test_a_project_key_is_taken_from_x_api_key_too(key_app: Quart, database: Database, project_id: str) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)

    response = await key_app.test_client().post("/api/ingest", json=make_run(), headers={"x-api-key": key})

    assert response.status_code == 200


async def test_project_keys_ingest_where_no_shared_key_is_configured(
    database_url: str, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    app = create_app(settings_for(database_url, ingest_project_keys=True, ingest_api_key=""))
    async with app.test_app():
        by_key, _ = await ingest(app, key, make_run())
        by_shared, _ = await ingest(app, INGEST_KEY, make_run(projectId=project_id))

    assert (by_key, by_shared) == (200, 401)


@pytest.mark.parametrize(
    ("sent", "expected"), [("first-key", 200), ("second-key", 200), ("third-key", 200), ("wrong-key", 401), ("x", 401)]
)
async def test_every_shared_key_is_compared_in_constant_time_whichever_matches(
    three_keys_app: Quart, project_id: str, monkeypatch: pytest.MonkeyPatch, sent: str, expected: int
) -> None:
    compared: list[bytes] = []
    compare = hmac.compare_digest

    def compare_digest(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare_digest)
    status, _ = await ingest(three_keys_app, sent, make_run(projectId=project_id))

    assert status == expected
    assert compared == [b"first-key", b"second-key", b"third-key"]
