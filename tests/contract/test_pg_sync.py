"""POST /api/internal/pg-sync, sentence by sentence of the contract."""

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from runtally.db.database import Database
from runtally.reporting.document import SIGNATURE_HEADER, sign
from tests.assertions import assert_error
from tests.documents import SYNC_PATH, SYNC_SECRET, make_document, push
from tests.serving import Server, client_of, running_server, settings_for
from webapp.app import create_app

OLD_SECRET = "old-secret-of-the-tests"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def receiving_server(database: Database, database_url: str) -> Iterator[Server]:
    """A service that takes documents, and pushes none itself."""
    with running_server(
        database_url, SERVICE_SYNC_SIGN=f"{SYNC_SECRET}, {OLD_SECRET}", RELAY="off", MAX_BODY_BYTES="20000"
    ) as server:
        yield server


@pytest.fixture
async def relay(receiving_server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(receiving_server.url) as client:
        yield client


async def test_ids_are_taken_without_blanks_at_their_ends(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    ids = {"id": " run-1 ", "experimentId": "e ", "traceId": "\tt", "sessionId": " s", "userId": " "}
    newer = make_document(project_id, version=2)

    taken = await push(relay, make_document(f" {project_id} ", **ids))
    batch = await push(relay, {"documents": [{**newer, **ids}]})

    assert taken.json() == {"ok": True, "id": "run-1", "applied": True}
    assert batch.json()["results"] == [{"id": "run-1", "applied": True}]
    [row] = await reported(database, project_id)
    assert (row["id"], row["experiment_id"], row["trace_id"], row["session_id"], row["user_id"]) == (
        *("run-1", "e", "t", "s"),
        None,
    )


async def reported(database: Database, project_id: str) -> list[dict[str, Any]]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM reporting_runs WHERE project_id = $1 ORDER BY id", project_id)
    return [dict(row) for row in rows]


async def test_a_document_becomes_a_row_of_the_reporting_table(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    response = await push(relay, make_document(project_id, metadata={"region": "eu"}))

    assert response.status_code == 200
    assert response.json() == {"ok": True, "id": "run-1", "applied": True}
    [row] = await reported(database, project_id)
    assert (row["provider"], row["model"], row["status"], row["input_tokens"]) == (
        "acme",
        "acme-large",
        "success",
        1000,
    )
    assert str(row["cost_usd"]) == "0.010500000000"
    assert row["occurred_at"].isoformat() == "2026-11-20T09:30:00+00:00"
    assert row["metadata"] == {"region": "eu"}
    assert row["synced_at"] >= row["created_at"]


@pytest.mark.parametrize("prefix", ["", "sha256="])
@pytest.mark.parametrize("secret", [SYNC_SECRET, OLD_SECRET])
async def test_each_secret_signs_with_and_without_prefix(
    relay: httpx.AsyncClient, project_id: str, prefix: str, secret: str
) -> None:
    body = json.dumps(make_document(project_id)).encode()

    response = await relay.post(SYNC_PATH, content=body, headers=JSON | {SIGNATURE_HEADER: prefix + sign(body, secret)})

    assert response.status_code == 200


async def test_a_missing_signature_is_401(relay: httpx.AsyncClient, database: Database, project_id: str) -> None:
    response = await relay.post(SYNC_PATH, json=make_document(project_id))

    assert_error(response, 401, "invalid_signature")
    assert await reported(database, project_id) == []


@pytest.mark.parametrize(
    "signature",
    ["", "sha256=", "0" * 64, "nonsense", "sha256=sha256=", SYNC_SECRET],
)
async def test_a_wrong_signature_is_401(relay: httpx.AsyncClient, project_id: str, signature: str) -> None:
    response = await relay.post(SYNC_PATH, json=make_document(project_id), headers={SIGNATURE_HEADER: signature})

    assert_error(response, 401, "invalid_signature", never=[SYNC_SECRET])


async def test_the_signature_is_of_the_raw_bytes(relay: httpx.AsyncClient, project_id: str) -> None:
    document = make_document(project_id)
    signature = sign(json.dumps(document).encode(), SYNC_SECRET)

    response = await relay.post(
        SYNC_PATH, content=json.dumps(document, indent=1), headers=JSON | {SIGNATURE_HEADER: signature}
    )

    assert_error(response, 401, "invalid_signature")


async def test_an_upper_case_signature_is_wrong(relay: httpx.AsyncClient, project_id: str) -> None:
    body = json.dumps(make_document(project_id)).encode()

    response = await relay.post(
        SYNC_PATH, content=body, headers=JSON | {SIGNATURE_HEADER: sign(body, SYNC_SECRET).upper()}
    )

    assert_error(response, 401, "invalid_signature")


async def test_a_bad_body_is_not_looked_at_before_the_signature(relay: httpx.AsyncClient) -> None:
    for body, headers in ((b"{", JSON), (b"{}", JSON), (b"x", {"Content-Type": "text/plain"})):
        response = await relay.post(SYNC_PATH, content=body, headers=headers | {SIGNATURE_HEADER: "0" * 64})

        assert_error(response, 401, "invalid_signature")


async def test_keys_of_other_endpoints_do_not_open_it(
    relay: httpx.AsyncClient, receiving_server: Server, admin_key: str, project_id: str
) -> None:
    for key in (receiving_server.ingest_key, admin_key):
        response = await relay.post(
            SYNC_PATH, json=make_document(project_id), headers={"Authorization": f"Bearer {key}"}
        )

        assert_error(response, 401, "invalid_signature")


async def test_without_a_secret_the_endpoint_is_closed(stranger: httpx.AsyncClient, project_id: str) -> None:
    response = await push(stranger, make_document(project_id), secret="")

    assert_error(response, 503, "not_configured")


async def test_dev_mode_does_not_open_it(database_url: str, project_id: str) -> None:
    app = create_app(settings_for(database_url, service_dev_mode=True, service_sync_sign=SYNC_SECRET, relay="off"))
    async with app.test_app():
        response = await app.test_client().post(SYNC_PATH, json=make_document(project_id))

    assert response.status_code == 401


async def test_a_version_that_is_not_newer_changes_nothing(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    applied = [
        (await push(relay, make_document(project_id, version=version, latencyMs=version))).json()["applied"]
        for version in (2, 2, 1, 3)
    ]

    assert applied == [True, False, False, True]
    assert [row["latency_ms"] for row in await reported(database, project_id)] == [3]


async def test_replays_reordering_and_duplicates_are_harmless(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    documents = [
        make_document(project_id, id=f"run-{run}", version=version, latencyMs=version)
        for run in range(5)
        for version in range(1, 6)
    ] * 2
    random.Random(7).shuffle(documents)  # noqa: S311  # The same disorder every time.

    responses = await asyncio.gather(*(push(relay, document) for document in documents))

    assert {response.status_code for response in responses} == {200}
    assert [(row["id"], row["version"], row["latency_ms"]) for row in await reported(database, project_id)] == [
        (f"run-{run}", 5, 5) for run in range(5)
    ]


async def test_the_same_id_in_another_project_is_another_run(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    for project in (project_id, f"{project_id}-b"):
        assert (await push(relay, make_document(project))).json()["applied"] is True

    assert len(await reported(database, project_id)) == 1


async def test_an_invalid_document_is_422_with_paths_and_without_values(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    document = make_document(project_id, status="sk-secret-1", inputTokens=-77777, provider="", version=None)

    response = await push(relay, document)

    paths = ["status", "inputTokens", "provider", "version"]
    assert_error(response, 422, "invalid_payload", paths=paths, never=["sk-secret-1", "77777"])
    assert await reported(database, project_id) == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5000])
async def test_a_body_that_is_no_json_object_is_400(relay: httpx.AsyncClient, body: bytes) -> None:
    assert_error(await push(relay, body), 400, "invalid_json")


async def test_another_content_type_is_415(relay: httpx.AsyncClient, project_id: str) -> None:
    response = await push(relay, make_document(project_id), **{"Content-Type": "text/plain"})

    assert_error(response, 415, "unsupported_media_type")


async def test_a_packed_body_is_415(relay: httpx.AsyncClient, project_id: str) -> None:
    body = gzip.compress(json.dumps(make_document(project_id)).encode())

    response = await push(relay, body, **{"Content-Encoding": "gzip"})

    assert_error(response, 415, "unsupported_media_type")


async def test_a_body_past_the_limit_is_413(relay: httpx.AsyncClient, project_id: str) -> None:
    document = make_document(project_id)
    room = 20_000 - len(json.dumps(document | {"padding": ""}))

    at_the_limit = await push(relay, document | {"padding": "x" * room})
    past_it = await push(relay, document | {"padding": "x" * (room + 1)})

    assert at_the_limit.status_code == 200
    assert_error(past_it, 413, "body_too_large")


async def test_content_never_reaches_the_reporting_table(
    relay: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    metadata = {"messages": ["secret"], "deep": {"Prompt": "secret"}, "user": "u-1"}

    await push(relay, make_document(project_id, prompt="secret", completion="secret", metadata=metadata))

    [row] = await reported(database, project_id)
    assert row["metadata"] == {"deep": {}, "user": "u-1"}
    assert "secret" not in str(row)


async def test_another_method_is_405(relay: httpx.AsyncClient) -> None:
    assert_error(await relay.get(SYNC_PATH), 405, "method_not_allowed")
