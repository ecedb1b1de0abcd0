"""Endpoints are answered by the connection itself; whichever way a request goes, the answer is the same."""

import gzip
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import pytest
from quart import Quart

from runtally.db.database import Database
from runtally.reporting.document import SIGNATURE_HEADER, sign
from tests.documents import SYNC_PATH, SYNC_SECRET, make_document
from tests.factories import make_run
from tests.lines import LineTransport
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

# The last is the server's, which has no part in the other way.
CHANGING = {"x-request-id", "ratelimit-remaining", "ratelimit-reset", "date"}
OLD_SECRET = "old-secret-of-the-tests"
LARGEST = 50_000
INGEST = "/api/ingest"
JSON = {"Content-Type": "application/json"}
KEY = {"Authorization": f"Bearer {INGEST_KEY}"}


@dataclass(frozen=True)
class Ways:
    """The same service, asked in two ways: by a connection, and by Quart."""

    fast: httpx.AsyncClient
    through_quart: httpx.AsyncClient

    async def same(self, method: str, path: str, **sent: Any) -> httpx.Response:  # noqa: ANN401  # httpx's.
        """The answer to this, which must be the same both ways."""
        answers = [await client.request(method, path, **sent) for client in (self.fast, self.through_quart)]
        assert_same(*answers)
        return answers[0]


def assert_same(*answers: httpx.Response) -> None:
    first = answers[0]
    for other in answers[1:]:
        assert first.status_code == other.status_code
        assert first.content == other.content
        assert headers_of(first) == headers_of(other)


def headers_of(response: httpx.Response) -> Mapping[str, str]:
    return {name: value for name, value in response.headers.items() if name not in CHANGING}


@pytest.fixture(scope="module")
async def service(database: Database, database_url: str) -> AsyncIterator[Quart]:
    settings = settings_for(
        database_url, service_sync_sign=f"{SYNC_SECRET}, {OLD_SECRET}", relay="off", max_body_bytes=LARGEST
    )
    async with create_app(settings).test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture
async def ways(service: Quart) -> AsyncIterator[Ways]:
    async with (
        httpx.AsyncClient(transport=LineTransport(service), base_url="http://localhost") as fast,
        httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url="http://localhost") as slow,  # type: ignore[arg-type]  # Quart is more exact about what it is told.
    ):
        yield Ways(fast, slow)


@pytest.fixture
def quart_is_asked(service: Quart, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths for which Quart is asked."""
    asked: list[str] = []
    handle_request = service.handle_request

    async def noted(request: Any) -> Any:  # noqa: ANN401  # Quart's.
        asked.append(request.path)
        return await handle_request(request)

    monkeypatch.setattr(service, "handle_request", noted)
    return asked


async def test_quart_is_asked_for_nothing_that_an_endpoint_answers(ways: Ways, quart_is_asked: list[str]) -> None:
    answers = [
        await ways.fast.post(INGEST, json={}, headers=KEY),
        await ways.fast.post(f"{INGEST}?onError=skip", json={}, headers=KEY),
        await ways.fast.post(INGEST, json={}, headers={"Authorization": "Bearer another"}),
        await ways.fast.post(INGEST, content=b"{}", headers=KEY | {"Content-Type": "text/plain"}),
        await ways.fast.post(SYNC_PATH, json={}),
        await ways.fast.get("/api/badge/experiment/a%20b.svg"),
    ]

    assert [answer.status_code for answer in answers] == [400, 400, 401, 415, 401, 200]
    assert all({"x-request-id", "x-content-type-options"} <= answer.headers.keys() for answer in answers)
    assert quart_is_asked == []


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", b"/api/ingest", 405),
        ("POST", b"/api/ingest/", 404),
        ("POST", b"/api//ingest", 404),
        ("POST", b"/api/badge/experiment/a.svg", 405),
        ("GET", b"/api/badge/experiment/", 404),
        ("HEAD", b"/api/badge/experiment/a.svg", 200),
    ],
)
async def test_all_else_is_quarts(
    ways: Ways, quart_is_asked: list[str], method: str, target: bytes, status: int
) -> None:
    answer = await ways.fast.request(method, httpx.URL(scheme="http", host="localhost", raw_path=target))

    assert (answer.status_code, len(quart_is_asked)) == (status, 1)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", b"//api/ingest"),
        ("POST", b"/api/%69ngest"),
        ("POST", b"/api%2Fingest"),
        ("GET", b"//api/ingest"),
        ("GET", b"/api/%69ngest"),
        ("POST", b"/api/internal/pg%2Dsync"),
        ("POST", b"//api/otlp/p/a/v1/traces"),
        ("POST", b"/api/otlp/p/a/v1/tr%61ces"),
        ("GET", b"//api/badge/experiment/a.svg"),
        ("GET", b"/api/b%61dge/experiment/a.svg"),
        ("GET", b"//api/health"),
        ("GET", b"/%61pi/metrics?aggregate=1"),
        ("GET", b"//api/openapi.json"),
        ("GET", b"//evil.example/api/health"),
        ("GET", b"//"),
        ("GET", b"///sign-in"),
        ("GET", b"/s%69gn-in"),
        ("GET", b"//static/css/base.css"),
    ],
)
async def test_a_route_that_is_written_in_another_way_is_not_found(ways: Ways, method: str, target: bytes) -> None:
    answer = await ways.fast.request(method, httpx.URL(scheme="http", host="localhost", raw_path=target), headers=KEY)

    assert answer.status_code == 404
    assert "location" not in answer.headers


async def test_variable_parts_of_a_path_may_be_percent_encoded(ways: Ways) -> None:
    assert (await ways.same("GET", "/api/badge/experiment/%61%2Fb.svg")).status_code == 200


async def test_a_name_that_dev_mode_does_not_answer_to_is_refused(app: Quart) -> None:
    async with httpx.AsyncClient(transport=LineTransport(app), base_url="http://elsewhere") as client:
        answer = await client.post(INGEST, json=make_run(projectId="p"), headers=KEY)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


BODIES: dict[str, Any] = {
    "a run": make_run(runId="run-1"),
    "a batch": {"runs": [make_run(runId="run-2"), make_run(runId="run-3")]},
    "a duplicate": {"runs": [make_run(runId="run-4"), make_run(runId="run-4")]},
    "content": make_run(runId="run-5", prompt="never kept", metadata={"completion": "never kept"}),
    "a large batch": {"runs": [make_run(runId=f"run-{number}") for number in range(100)]},
    "a wrong field": make_run(inputTokens=-1),
    "a wrong field in a batch": {"runs": [make_run(runId="run-6"), make_run(latencyMs="soon")]},
    "no run": {"runs": []},
    "no array": {"runs": 5},
    "a project that is none": {"projectId": 7},
    "a project without a name": {"projectId": None},
    "no object": [],
}


@pytest.mark.parametrize("query", ["", "?onError=skip", "?onError=both"])
@pytest.mark.parametrize("name", BODIES)
async def test_both_ways_take_the_same_runs(ways: Ways, project_id: str, name: str, query: str) -> None:
    sent = BODIES[name]
    answers: list[httpx.Response] = []
    for client in (ways.fast, ways.through_quart):
        # Of its own, because what is sent twice is a duplicate.
        own = {"projectId": f"{project_id}-{len(answers)}", **sent} if isinstance(sent, dict) else sent
        answers.append(await client.post(f"{INGEST}{query}", json=own, headers=KEY))

    assert_same(*answers)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer another"},
        {"Authorization": f"Basic {INGEST_KEY}"},
        {"Authorization": f"bearer  {INGEST_KEY} "},
        {"X-Api-Key": INGEST_KEY},
        KEY | {"Content-Type": "text/plain"},
        KEY | {"Content-Type": "Application/Foo+JSON; charset=utf-8"},
        KEY | {"Content-Encoding": "gzip"},
        KEY | {"Content-Encoding": "br"},
        KEY | {"Content-Encoding": " Identity "},
    ],
    ids=str,
)
async def test_both_ways_make_the_same_of_headers(ways: Ways, project_id: str, headers: dict[str, str]) -> None:
    body = msgspec.json.encode(make_run(projectId=project_id, runId="run-1"))
    await ways.fast.post(INGEST, content=body, headers=JSON | KEY)

    await ways.same("POST", INGEST, content=body, headers=JSON | headers)


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"", b"[" * 10_000, b" " * (LARGEST + 1), gzip.compress(b" " * (LARGEST + 1), mtime=0)]
)
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_both_ways_refuse_the_same_bytes(ways: Ways, content: bytes, encoding: str) -> None:
    answer = await ways.same("POST", INGEST, content=content, headers=JSON | KEY | {"Content-Encoding": encoding})

    assert answer.status_code in {400, 413}


async def test_an_answer_depends_on_whether_it_may_be_packed(ways: Ways, project_id: str) -> None:
    runs = [make_run(runId=f"run-{number}") for number in range(200)]
    body = {"projectId": project_id, "runs": runs}
    await ways.fast.post(INGEST, json=body, headers=KEY)

    plain = await ways.same("POST", INGEST, json=body, headers=KEY | {"Accept-Encoding": "identity"})
    packed = await ways.same("POST", INGEST, json=body, headers=KEY | {"Accept-Encoding": "gzip"})

    assert (plain.headers["vary"], packed.headers["vary"]) == ("Accept-Encoding", "Accept-Encoding")
    assert ("content-encoding" in plain.headers, packed.headers["content-encoding"]) == (False, "gzip")
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])
    assert packed.json() == plain.json()


@pytest.mark.parametrize("fields", [{}, {"version": 0}, {"status": "fine", "costUSD": -1}, {"model": None}])
@pytest.mark.parametrize("secret", [SYNC_SECRET, OLD_SECRET, "another"])
async def test_both_ways_take_the_same_documents(
    ways: Ways, project_id: str, fields: dict[str, object], secret: str
) -> None:
    body = msgspec.json.encode(make_document(project_id, **fields))
    signed = JSON | {SIGNATURE_HEADER: sign(body, secret)}
    await ways.fast.post(SYNC_PATH, content=body, headers=signed)

    await ways.same("POST", SYNC_PATH, content=body, headers=signed)
    await ways.same("POST", SYNC_PATH, content=body, headers=signed | {"Content-Type": "text/plain"})
    await ways.same("POST", SYNC_PATH, content=body, headers=JSON)


@pytest.mark.parametrize("encoding", ["gzip, br", "identity"])
@pytest.mark.parametrize("accept", ["*/*", "image/svg+xml,image/*,*/*;q=0.8", "application/json"])
@pytest.mark.parametrize(
    "asked",
    [
        *("", ".svg", ".json", "?format=shields", "?format=x", ".svg?label=" + "W" * 64),
        *("?style=for-the-badge&label=", "%20%C3%A9/a.svg?label=%ff%C3%A9", "%00.svg", "?label=1&label=2"),
    ],
)
async def test_both_ways_show_the_same_badges(
    ways: Ways, project_id: str, asked: str, accept: str, encoding: str
) -> None:
    headers = {"Accept": accept, "Accept-Encoding": encoding}
    run = make_run(projectId=project_id, experimentId=project_id)
    await ways.fast.post(INGEST, json=run, headers=KEY)

    for experiment in (project_id, "none-such"):
        path = f"/api/badge/experiment/{experiment}{asked}"
        answer = await ways.same("GET", path, headers=headers)
        known = await ways.same("GET", path, headers=headers | {"If-None-Match": answer.headers.get("ETag", "")})
        assert known.status_code == (304 if "ETag" in answer.headers else answer.status_code)
        assert "accept-encoding" in answer.headers["vary"].lower()
        head = await ways.fast.head(path, headers=headers)
        assert (head.status_code, headers_of(head), head.content) == (answer.status_code, headers_of(answer), b"")
