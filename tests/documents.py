"""Live run documents and stored runs with sane defaults, and calls that are signed."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx

from runtally.models.run import Status, StoredRun
from runtally.reporting.document import SIGNATURE_HEADER, sign

SYNC_SECRET = "sync-secret-of-the-tests"
SYNC_PATH = "/api/internal/pg-sync"
NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


def make_document(project_id: str, **fields: object) -> dict[str, Any]:
    """A live run as it is pushed; `field=None` leaves a default out."""
    document: dict[str, Any] = {
        "projectId": project_id,
        "id": "run-1",
        "occurredAt": "2026-11-20T09:30:00Z",
        "provider": "acme",
        "model": "acme-large",
        "status": "success",
        "inputTokens": 1000,
        "outputTokens": 500,
        "latencyMs": 800,
        "costUSD": 0.0105,
        "costSource": "catalog",
        "costEstimated": False,
        "createdAt": "2026-11-20T09:30:01Z",
        "version": 1,
    }
    return {name: value for name, value in (document | fields).items() if value is not None}


def make_stored_run(project_id: str, run_id: str = "run-1", **fields: Any) -> StoredRun:  # noqa: ANN401  # Any field.
    values: dict[str, Any] = {
        "occurred_at": NOW,
        "provider": "acme",
        "model": "acme-large",
        "status": Status.SUCCESS,
        "input_tokens": 1000,
        "output_tokens": 100,
        "created_at": NOW,
        "version": 1,
    }
    return StoredRun(project_id=project_id, id=run_id, **(values | fields))


async def push(
    client: httpx.AsyncClient, document: object, *, secret: str = SYNC_SECRET, path: str = SYNC_PATH, **headers: str
) -> httpx.Response:
    """Send the document, or bytes as they are, signed."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    signed = {"Content-Type": "application/json", SIGNATURE_HEADER: sign(body, secret)}
    return await client.post(path, content=body, headers=signed | headers)
