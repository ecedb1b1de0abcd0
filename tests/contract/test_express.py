"""Plain ingest requests take the express lane; whichever way a request goes, the answer is the same."""

from typing import Any

import httpx
import pytest

from tests.factories import make_run

CHANGING = {"date", "x-request-id", "ratelimit-remaining", "ratelimit-reset", "vary", "content-encoding"}
BODIES: dict[str, Any] = {
    "a run": make_run(runId="run-1"),
    "a batch": {"runs": [make_run(runId="run-2"), make_run(runId="run-3")]},
    "a duplicate": {"runs": [make_run(runId="run-4"), make_run(runId="run-4")]},
    "content": make_run(runId="run-5", prompt="never kept", metadata={"completion": "never kept"}),
    "a wrong field": make_run(inputTokens=-1),
    "a wrong field in a batch": {"runs": [make_run(), make_run(latencyMs="soon")]},
    "no run": {"runs": []},
    "no array": {"runs": 5},
    "a project that is none": {"projectId": 7},
    "a project without a name": {"projectId": None},
    "no object": [],
}


@pytest.mark.parametrize("name", BODIES)
async def test_both_ways_answer_the_same(client: httpx.AsyncClient, project_id: str, name: str) -> None:
    sent = BODIES[name]
    answers = []
    for way in ("", "?onError=refuse"):
        body = {"projectId": project_id + str(len(way)), **sent} if isinstance(sent, dict) else sent
        answers.append(await client.post(f"/api/ingest{way}", json=body))

    direct, through_quart = answers
    assert direct.status_code == through_quart.status_code
    assert direct.json() == through_quart.json()
    headers, expected = ({k: v for k, v in answer.headers.items() if k not in CHANGING} for answer in answers)
    assert headers == expected


@pytest.mark.parametrize("content", [b"{", b"\xff", b"", b"[" * 10_000])
async def test_both_ways_refuse_the_same_bytes(client: httpx.AsyncClient, content: bytes) -> None:
    answers = [
        await client.post(f"/api/ingest{way}", content=content, headers={"Content-Type": "application/json"})
        for way in ("", "?onError=refuse")
    ]

    assert [answer.status_code for answer in answers] == [400, 400]
    assert answers[0].json() == answers[1].json()
