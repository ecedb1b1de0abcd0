"""A client that closes its sending half behind a request, as `nc -N` does, hears what became of it."""

import asyncio
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from quart import Quart

from tests.lines import Heard, Line, known, request
from tests.serving import PATIENCE_SECONDS, Server
from webapp.server import protocol
from webapp.server.tracing import Receive, Scope, Send

READ = b"GET /api/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"


def heard(server: Server, sent: bytes) -> list[tuple[int, object]]:
    """The answers until the server hangs up."""
    heard = Heard()
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        for data in iter(lambda: connection.recv(65536), b""):
            heard.parser.feed_data(data)
    return [(status, known(body)) for status, body in heard.answers]


@pytest.mark.parametrize("query", [b"", b"?onError=refuse"])
def test_requests_are_answered_before_the_connection_is_closed(
    server: Server, run_of: Callable[[str], bytes], query: bytes
) -> None:
    posts = [request(run_of(f"run-{number}")) for number in range(3)]

    answers = heard(server, b"".join(posts).replace(b"/ingest", b"/ingest" + query))

    assert answers == [(200, {"ok": True, "id": f"run-{number}"}) for number in range(3)]


def test_a_half_closed_client_also_receives_an_error(server: Server) -> None:
    assert heard(server, request(b"[")) == [(400, "invalid_json")]


@pytest.mark.parametrize("sent", [b"", request(b"{}")[:20], request(b"{}")[:-1], READ[:-2]])
def test_half_a_request_is_dropped(server: Server, sent: bytes) -> None:
    assert heard(server, sent) == []


class Waiting:
    """An application that answers when a test says so."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.is_asked = asyncio.Event()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        self.is_asked.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("sent", [READ, READ.replace(b"GET", b"HEAD")])
async def test_a_half_closed_request_that_only_reads_is_dropped(app: Quart, sent: bytes) -> None:
    line = Line(app, Waiting())
    line.send(sent)

    assert not line.protocol.eof_received()


async def test_the_last_answer_closes_the_connection(app: Quart) -> None:
    application = Waiting()
    line = Line(app, application)
    line.send(request(b"{}"))
    await application.is_asked.wait()

    assert line.protocol.eof_received()
    assert not line.wire.closed
    application.may_answer.set()
    status, headers, _ = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)
    await line.end()


async def test_an_answer_is_not_waited_for_for_ever(app: Quart, monkeypatch: pytest.MonkeyPatch) -> None:
    application = Waiting()
    line = Line(app, application)
    line.send(request(b"{}"))
    await application.is_asked.wait()
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.0)
    closed = asyncio.Event()
    monkeypatch.setattr(line.wire, "close", closed.set)

    assert line.protocol.eof_received()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await closed.wait()

    application.may_answer.set()
    await line.end()
