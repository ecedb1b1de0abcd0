"""Prompts and completions never get in, whatever a client sends."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from quart import typing as quart_typing

from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

CANARY = "canary-7f3a"

AsMode = Callable[[str], Awaitable[quart_typing.TestClientProtocol]]


@pytest.fixture
async def in_mode(database_url: str) -> AsyncIterator[AsMode]:
    """A client of the application in a privacy mode."""
    async with AsyncExitStack() as stack:

        async def start(mode: str) -> quart_typing.TestClientProtocol:
            app = create_app(settings_for(database_url, privacy_mode=mode))
            running = app.test_app()
            await running.startup()
            stack.push_async_callback(running.shutdown)
            return app.test_client()

        yield start


async def post(client: quart_typing.TestClientProtocol, run: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    response = await client.post("/api/ingest", json=run, headers={"Authorization": f"Bearer {INGEST_KEY}"})
    body: dict[str, Any] = await response.get_json()
    return response.status_code, body


async def row_of(database: Database, project_id: str) -> str:
    """All that is stored of the project's run, as text."""
    async with database.connection() as connection:
        return str(await connection.fetchval("SELECT to_jsonb(runs) FROM runs WHERE project_id = $1", project_id))


async def test_prompt_and_completion_are_dropped_with_a_warning(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    run = make_run(projectId=project_id, prompt=CANARY, completion=CANARY)

    response = await client.post("/api/ingest", json=run)

    assert response.json()["warnings"] == ["prompt_dropped", "completion_dropped"]
    assert CANARY not in response.text
    assert CANARY not in await row_of(database, project_id)


@pytest.mark.parametrize("content", [[{"role": "user", "content": CANARY}], {"text": CANARY}, 7])
async def test_content_of_any_type_is_dropped(
    client: httpx.AsyncClient, database: Database, project_id: str, content: object
) -> None:
    response = await client.post("/api/ingest", json=make_run(projectId=project_id, prompt=content))

    assert response.json()["warnings"] == ["prompt_dropped"]
    assert CANARY not in await row_of(database, project_id)


async def test_a_null_prompt_is_no_prompt(client: httpx.AsyncClient, project_id: str) -> None:
    response = await client.post("/api/ingest", json=make_run(projectId=project_id) | {"prompt": None})

    assert response.status_code == 200
    assert "warnings" not in response.json()


async def test_each_warning_of_a_batch_is_returned_once(client: httpx.AsyncClient, project_id: str) -> None:
    runs = [make_run(prompt="x"), make_run(completion="y"), make_run(prompt="z")]

    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})

    assert response.json()["warnings"] == ["prompt_dropped", "completion_dropped"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"prompt": CANARY},
        {"request": {"messages": [{"role": "user", "content": CANARY}]}},
        {"list": [{"deep": [{"Output": CANARY}]}]},
        {"system_prompt": CANARY, "systemPrompt": CANARY, "System-Prompt": CANARY},
        {"llm.response": {"choices": [CANARY]}},
        {"gen_ai.prompt": CANARY, "gen_ai.input.messages": [CANARY], "gen_ai.completion.0.content": CANARY},
        {"input.value": CANARY, "output.value": CANARY},
    ],
)
async def test_content_in_metadata_is_dropped_at_any_depth(
    client: httpx.AsyncClient, database: Database, project_id: str, metadata: dict[str, Any]
) -> None:
    run = make_run(projectId=project_id, metadata=metadata | {"env": "prod", "usage": {"input_tokens": 5}})

    response = await client.post("/api/ingest", json=run)

    assert response.json()["warnings"] == ["metadata_content_dropped"]
    row = await row_of(database, project_id)
    assert CANARY not in row
    assert "prod" in row
    assert "input_tokens" in row


async def test_content_is_not_echoed_in_errors(client: httpx.AsyncClient, project_id: str) -> None:
    fields = ("provider", "timestamp", "status", "costUSD", "metadata", "runId", "promptPreview", "costSource")

    for field in fields:
        run = make_run(projectId=project_id, prompt=CANARY, latencyMs=-1) | {field: [CANARY * 100]}
        response = await client.post("/api/ingest", json=run)
        assert_error(response, 422, "invalid_payload", paths={"latencyMs", field}, never=[CANARY])


async def test_broken_json_is_not_echoed(client: httpx.AsyncClient) -> None:
    body = json.dumps({"projectId": "p", "prompt": CANARY}).encode()[:-1]

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 400, "invalid_json", never=[CANARY])


async def test_a_preview_is_kept_by_default(client: httpx.AsyncClient, database: Database, project_id: str) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, promptPreview="Hello"))

    assert "Hello" in await row_of(database, project_id)


async def test_strict_mode_drops_the_preview_too(in_mode: AsMode, database: Database, project_id: str) -> None:
    client = await in_mode("strict")

    status, body = await post(client, make_run(projectId=project_id, promptPreview=CANARY, prompt=CANARY))

    assert status == 200
    assert body["warnings"] == ["prompt_dropped", "prompt_preview_dropped"]
    assert CANARY not in await row_of(database, project_id)


@pytest.mark.parametrize("field", ["prompt", "completion"])
async def test_reject_mode_refuses_content(in_mode: AsMode, database: Database, project_id: str, field: str) -> None:
    client = await in_mode("reject")

    status, body = await post(client, make_run(projectId=project_id) | {field: CANARY})

    assert status == 422
    assert [detail["path"] for detail in body["error"]["details"]] == [field]
    assert CANARY not in str(body)
    assert await row_of(database, project_id) == "None"


async def test_reject_mode_drops_the_preview(in_mode: AsMode, database: Database, project_id: str) -> None:
    client = await in_mode("reject")

    status, _ = await post(client, make_run(projectId=project_id, promptPreview=CANARY))

    assert status == 200
    assert CANARY not in await row_of(database, project_id)


async def test_metadata_stays_as_sent_only_with_the_setting_for_it(
    in_mode: AsMode, database: Database, project_id: str
) -> None:
    client = await in_mode("off-metadata-scrub")

    _, body = await post(client, make_run(projectId=project_id, prompt=CANARY, metadata={"messages": "kept"}))

    assert body["warnings"] == ["prompt_dropped"]
    row = await row_of(database, project_id)
    assert "kept" in row
    assert CANARY not in row
