"""Plain ingest requests take the express lane; whichever way a request goes, the answer is the same."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any, cast

import httptools
import httpx
import msgspec
import pytest
import uvicorn
from quart import Quart
from uvicorn.server import ServerState

from api import limits
from runtally.limits.rate import Rate
from runtally.settings import Settings
from tests.factories import make_run
from tests.serving import INGEST_KEY
from webapp.express import connection, posts
from webapp.express.connection import ExpressProtocol
from webapp.express.lifespan import state_of
from webapp.tracing import Receive, Scope, Send

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


class Wire(asyncio.Transport):
    """The server's end of a connection: what was written to it, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.answers.put_nowait(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Line:
    """A connection to the service; what it does not answer itself goes on, here to an application that only echoes."""

    def __init__(self, quart: Quart, application: object = None) -> None:
        config = uvicorn.Config(
            cast(Any, application or self._echo), interface="asgi3", ws="none", log_config=None, access_log=False
        )
        config.load()
        self._state = ServerState()
        self.wire = Wire()
        self.protocol = ExpressProtocol(config, self._state, state_of(quart))
        self.protocol.connection_made(self.wire)
        self.went_on: list[bytes] = []
        """The bodies that the application found."""
        self.scopes: list[Scope] = []

    async def _echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.went_on.append(body)
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"echo"})

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.protocol.data_received(piece)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        async with asyncio.timeout(20):
            written = await self.wire.answers.get()
        head, _, body = written.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body

    async def end(self) -> None:
        """As when the client has gone; nothing of it is left to do."""
        self.protocol.connection_lost(None)
        async with asyncio.timeout(20):
            await asyncio.gather(*self._state.tasks)


@pytest.fixture
async def line(app: Quart) -> AsyncIterator[Line]:
    line = Line(app)
    yield line
    await line.end()


def request(body: bytes, version: str = "1.1", **changes: str) -> bytes:
    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "authorization": f"Bearer {INGEST_KEY}",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /api/ingest HTTP/{version}\r\n{lines}\r\n".encode() + body


@pytest.fixture
def run_of(project_id: str) -> Callable[[str], bytes]:
    return lambda run_id: msgspec.json.encode(make_run(projectId=project_id, runId=run_id))


async def test_a_plain_request_needs_no_quart(line: Line, run_of: Callable[[str], bytes]) -> None:
    line.send(request(run_of("run-1")))

    status, headers, body = await line.answer()

    assert (line.went_on, status, msgspec.json.decode(body)) == ([], 200, {"ok": True, "id": "run-1"})
    assert (headers["content-length"], headers["x-frame-options"]) == (str(len(body)), "deny")
    assert not line.wire.closed


async def test_a_body_may_come_behind_its_head(line: Line, run_of: Callable[[str], bytes]) -> None:
    whole = request(run_of("run-1"))
    size = whole.index(b"\r\n\r\n") + 4

    line.send(whole[:10], whole[10:size], whole[size:])

    assert (await line.answer())[0] == 200
    assert line.went_on == []


async def test_one_connection_serves_one_request_after_the_other(line: Line, run_of: Callable[[str], bytes]) -> None:
    for number in range(3):
        line.send(request(run_of(f"run-{number}")))
        _, _, body = await line.answer()
        assert msgspec.json.decode(body)["id"] == f"run-{number}"
    assert line.went_on == []


async def test_answers_come_in_the_order_of_requests_that_came_together(
    line: Line, run_of: Callable[[str], bytes]
) -> None:
    line.send(request(run_of("run-1")) + request(b"{}", content_type="text/plain") + request(run_of("run-2")))

    first, second, third = [await line.answer() for _ in range(3)]

    assert msgspec.json.decode(first[2])["id"] == "run-1"
    assert (second[2], third[2]) == (b"echo", b"echo")
    assert line.went_on == [b"{}", run_of("run-2")]


@pytest.mark.parametrize(("version", "connection_header"), [("1.0", "keep-alive"), ("1.1", "close")])
async def test_a_connection_that_is_not_kept_is_closed(
    line: Line, run_of: Callable[[str], bytes], version: str, connection_header: str
) -> None:
    line.send(request(run_of("run-1"), version, connection=connection_header))

    status, headers, _ = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)


async def test_a_client_that_has_gone_is_not_written_to(line: Line, run_of: Callable[[str], bytes]) -> None:
    line.send(request(run_of("run-1")))
    line.wire.close()

    await line.end()

    assert line.wire.answers.empty()


async def test_a_server_that_stops_answers_first(line: Line, run_of: Callable[[str], bytes]) -> None:
    line.send(request(run_of("run-1")))
    line.protocol.shutdown()
    assert not line.wire.closed

    status, headers, _ = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)


async def test_a_server_that_stops_waits_for_a_body(line: Line, run_of: Callable[[str], bytes]) -> None:
    whole = request(run_of("run-1"))
    size = len(run_of("run-1"))
    line.send(whole[:-size])
    line.protocol.shutdown()

    line.send(whole[-size:])

    assert (await line.answer())[0] == 200
    assert line.went_on == [run_of("run-1")]


@pytest.mark.parametrize(
    "changes",
    [
        {"authorization": "Bearer another"},
        {"authorization": f"Basic {INGEST_KEY}"},
        {"content_type": "text/plain"},
        {"content_encoding": "gzip"},
        {"host": "elsewhere.example"},
        {"expect": "100-continue"},
    ],
    ids=str,
)
async def test_what_is_out_of_the_ordinary_goes_on_untouched(
    line: Line, run_of: Callable[[str], bytes], changes: dict[str, str]
) -> None:
    line.send(request(run_of("run-1"), **changes))
    await line.answer()

    assert line.went_on == [run_of("run-1")]
    assert {(name.replace("_", "-").encode(), value.encode()) for name, value in changes.items()} <= set(
        line.scopes[0]["headers"]
    )


async def test_a_body_without_a_length_goes_on(line: Line) -> None:
    whole = request(b"{}").replace(b"content-length: 2", b"transfer-encoding: chunked")

    line.send(whole.removesuffix(b"{}") + b"2\r\n{}\r\n0\r\n\r\n")
    await line.answer()

    assert line.went_on == [b"{}"]


async def test_a_body_in_pieces_goes_on_whole(line: Line, run_of: Callable[[str], bytes]) -> None:
    whole = request(run_of("run-1"))

    line.send(whole[:-20], whole[-20:-5], whole[-5:])
    await line.answer()

    assert line.went_on == [run_of("run-1")]


@pytest.mark.parametrize(
    "bad",
    [
        b"no HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_comes_after_a_request_and_is_none_is_not_taken_for_its_answer(
    line: Line, run_of: Callable[[str], bytes], bad: bytes
) -> None:
    line.send(request(run_of("run-1")) + bad)

    status, headers, body = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)
    assert msgspec.json.decode(body)["id"] == "run-1"


async def test_a_header_that_comes_twice_goes_on(line: Line) -> None:
    line.send(request(b"{}").replace(b"\r\n\r\n", b"\r\nauthorization: Bearer another\r\n\r\n"))
    await line.answer()

    assert line.went_on == [b"{}"]


async def test_a_badge_on_condition_goes_on(line: Line) -> None:
    line.send(b'GET /api/badge/experiment/a.svg HTTP/1.1\r\nhost: localhost\r\nif-match: "another"\r\n\r\n')
    await line.answer()

    assert line.went_on == [b""]


async def test_another_path_or_query_goes_on(line: Line) -> None:
    for target in (b"/api/ingest?onError=skip", b"/api/ingest/", b"/api/%69ngest"):
        line.send(request(b"{}").replace(b"/api/ingest", target))
        await line.answer()

    assert line.went_on == [b"{}"] * 3


async def test_a_body_that_does_not_come_is_waited_for_by_quart(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HELD_SECONDS", 0.0)
    line.send(request(b"{}").removesuffix(b"{}"))
    await asyncio.sleep(0.01)

    line.send(b"{}")
    await line.answer()

    assert line.went_on == [b"{}"]


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    app: Quart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HELD_SECONDS", 0.0)
    monkeypatch.setitem(app.config, "BODY_TIMEOUT", 0.05)
    line = Line(app, app.asgi_app)
    line.send(request(b"{}").removesuffix(b"{}"))

    status, headers, body = await line.answer()

    assert (status, headers["connection"]) == (408, "close")
    assert msgspec.json.decode(body)["error"]["code"] == "request_timeout"
    await line.end()


@pytest.mark.parametrize("seed", range(12))
async def test_answers_are_the_same_however_the_bytes_are_cut(app: Quart, project_id: str, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311  # Nothing secret.
    sent, expected = b"", []
    for number in range(8):
        run = msgspec.json.encode(make_run(projectId=project_id, runId=f"{seed}-{number}"))
        stored = (200, {"ok": True, "id": f"{seed}-{number}"})
        kinds: list[tuple[bytes, tuple[int, Any]]] = [
            (request(run), stored),
            (request(run, x_api_key="ignored"), stored),
            (request(run).replace(b"/ingest", b"/ingest?onError=refuse"), stored),
            (request(b"["), (400, "invalid_json")),
            (request(run, authorization="Bearer another"), (401, "invalid_key")),
            (b"GET /api/badge/experiment/none.svg?style=none HTTP/1.1\r\nhost: localhost\r\n\r\n", (200, None)),
            (b"GET /api/badge/experiment/none.json HTTP/1.1\r\nhost: localhost\r\n\r\n", (404, "unknown_experiment")),
            (b"GET /api/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n", (200, {"ok": True, "status": "live"})),
        ]
        one, answer = choose.choice(kinds)
        sent += one
        expected.append(answer)
    line, heard = Line(app, app.asgi_app), Heard()
    cuts = sorted(choose.sample(range(1, len(sent)), choose.choice([0, 5, 40])))

    for start, end in pairwise([0, *cuts, len(sent)]):
        line.send(sent[start:end])
        if choose.random() < 0.5:
            await asyncio.sleep(0)
    async with asyncio.timeout(20):
        while len(heard.answers) < len(expected):
            heard.parser.feed_data(await line.wire.answers.get())

    assert [(status, known(body)) for status, body in heard.answers] == expected
    await line.end()


class Heard:
    """What a client makes of the bytes that come back."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.answers: list[tuple[int, bytes]] = []

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.answers.append((self.parser.get_status_code(), self._body))


def known(body: bytes) -> Any:  # noqa: ANN401  # JSON, or None for a picture.
    """An answer, of an error its code."""
    if body.startswith(b"<svg"):
        return None
    answer = msgspec.json.decode(body)
    return answer if answer["ok"] else answer["error"]["code"]


async def test_a_trusted_proxy_says_who_asks(
    line: Line, run_of: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def wrong_keys_of(address: str | None, settings: Settings) -> tuple[str, Rate]:
        asked.append(address)
        return limits.wrong_keys_of(address, settings)

    monkeypatch.setattr(posts, "wrong_keys_of", wrong_keys_of)
    line.send(request(run_of("run-1"), x_forwarded_for="203.0.113.7", x_forwarded_proto="https"))

    _, headers, _ = await line.answer()

    assert asked == ["203.0.113.7"]
    assert "strict-transport-security" in headers
