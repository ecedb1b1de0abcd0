"""Which keys may ingest, and for which project."""

import hmac
from collections.abc import AsyncIterator
from typing import Any

import pytest
from quart import Quart

from runtally.access.keys import SHARED_KEY_ID, SHARED_KEY_NAME, name_of
from runtally.access.scopes import Scope
from runtally.db.database import Database
from tests.factories import make_key, make_run
from tests.serving import INGEST_KEY, settings_for
from tests.stored import stored_runs
from webapp.app import create_app


@pytest.fixture(scope="module")
async def key_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """The application as it is by default: project keys ingest, and so does the shared key."""
    app = create_app(settings_for(database_url))
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


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ({"ingest_project_keys": False}, "the server's INGEST_API_KEY"),
        ({"ingest_api_key": ""}, "a project key with the scope runs:write"),
        ({}, "the server's INGEST_API_KEY or a project key with the scope runs:write"),
    ],
    ids=["shared key alone", "project keys alone", "both"],
)
async def test_a_401_names_the_kinds_of_key_that_the_server_accepts(
    database_url: str, database: Database, project_id: str, settings: dict[str, Any], kinds: str
) -> None:
    project_key = await make_key(database, project_id, Scope.RUNS_WRITE)
    refused = project_key if settings.get("ingest_project_keys") is False else "rt_wrong"
    app = create_app(settings_for(database_url, **settings))
    async with app.test_app():
        client = app.test_client()
        wrong = await client.post("/api/ingest", json=make_run(), headers={"Authorization": f"Bearer {refused}"})
        missing = await client.post("/api/ingest", json=make_run())

        wrong_error, missing_error = (await wrong.get_json())["error"], (await missing.get_json())["error"]

    assert (wrong.status_code, wrong_error["code"]) == (401, "invalid_key")
    assert wrong_error["message"] == f"This key is wrong, expired or revoked; send {kinds}."
    assert (missing.status_code, missing_error["code"]) == (401, "missing_key")
    assert missing_error["message"] == f"Send {kinds} in the header Authorization: Bearer <key>, or x-api-key."


async def test_a_run_keeps_the_id_of_the_key_that_sent_it_and_never_the_key(
    key_app: Quart, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE, name="search-service")

    await ingest(key_app, key, make_run(runId="a"))
    await ingest(key_app, INGEST_KEY, make_run(runId="b", projectId=project_id))

    own, shared = await stored_runs(database, project_id)
    async with database.connection() as connection:
        names = [await name_of(connection, run["key_id"]) for run in (own, shared)]
    assert shared["key_id"] == SHARED_KEY_ID
    assert names == ["search-service", SHARED_KEY_NAME]
    assert key not in str(own)


async def test_the_project_comes_from_a_project_key(key_app: Quart, database: Database, project_id: str) -> None:
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
    app = create_app(settings_for(database_url, ingest_api_key=""))
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
