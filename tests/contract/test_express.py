"""Plain ingest requests take the express lane; whichever way a request goes, the answer is the same."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest
from quart import Quart

from tests.factories import make_run
from tests.serving import INGEST_KEY
from webapp.express.lane import ExpressLane
from webapp.tracing import Message, Receive, Scope, Send

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


class Line:
    """One request as an ASGI server hands it over, and what came of it."""

    def __init__(self, body: bytes, *, pieces: int = 1, **changes: str) -> None:
        size = len(body) // pieces + 1
        parts = [body[start : start + size] for start in range(0, len(body), size)]
        self.coming = [
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts, start=1)
        ]
        headers = {
            b"host": b"localhost",
            b"content-type": b"application/json",
            b"content-length": str(len(body)).encode(),
            b"authorization": f"Bearer {INGEST_KEY}".encode(),
        }
        changed = {name.replace("_", "-").encode(): value.encode() for name, value in changes.items()}
        self.scope: Scope = {
            "type": "http",
            "method": "POST",
            "scheme": "http",
            "path": "/api/ingest",
            "query_string": b"",
            "headers": list((headers | changed).items()),
            "client": ("127.0.0.1", 1),
        }
        self.sent: list[Message] = []
        self.went_on: bytes | None = None
        """The body that Quart found."""

    async def receive(self) -> Message:
        return self.coming.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def quart(self, _scope: Scope, receive: Receive, _send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.went_on = body

    async def go(self, app: Quart) -> None:
        async with asyncio.timeout(20):
            await ExpressLane(self.quart, app)(self.scope, self.receive, self.send)


async def test_a_plain_request_needs_no_quart(app: Quart, project_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.tracing.matched", lambda _route: None)
    line = Line(msgspec.json.encode(make_run(projectId=project_id, runId="run-1")))

    await line.go(app)

    start, answer = line.sent
    assert (line.went_on, start["status"]) == (None, 200)
    assert msgspec.json.decode(answer["body"]) == {"ok": True, "id": "run-1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"authorization": "Bearer another"},
        {"authorization": f"Basic {INGEST_KEY}"},
        {"content_type": "text/plain"},
        {"content_encoding": "gzip"},
        {"content_length": "1000000000"},
        {"content_length": "none"},
        {"host": "elsewhere.example"},
    ],
    ids=str,
)
async def test_what_is_out_of_the_ordinary_goes_on_untouched(
    app: Quart, project_id: str, changes: dict[str, str]
) -> None:
    body = msgspec.json.encode(make_run(projectId=project_id))
    line = Line(body, pieces=1, **changes)

    await line.go(app)

    assert (line.went_on, line.sent) == (body, [])


async def test_a_body_in_pieces_goes_on_whole(app: Quart, project_id: str) -> None:
    body = msgspec.json.encode(make_run(projectId=project_id))
    line = Line(body, pieces=3)

    await line.go(app)

    assert (line.went_on, line.sent) == (body, [])


async def test_a_header_that_comes_twice_goes_on(app: Quart) -> None:
    line = Line(b"{}")
    line.scope["headers"].append((b"authorization", b"Bearer another"))

    await line.go(app)

    assert line.went_on == b"{}"


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    app: Quart, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Line):
        async def receive(self) -> Message:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("webapp.tracing.matched", lambda _route: None)
    monkeypatch.setattr("webapp.tracing.failed", lambda _error: None)
    monkeypatch.setitem(app.config, "BODY_TIMEOUT", 0.05)
    line = Silent(b"{}")

    await line.go(app)

    start, answer = line.sent
    assert (line.went_on, start["status"]) == (None, 408)
    assert (b"connection", b"close") in start["headers"]
    assert msgspec.json.decode(answer["body"])["error"]["code"] == "request_timeout"
