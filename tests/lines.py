"""A connection to the service in this process, with a hand on every byte that comes and goes."""

import asyncio
from typing import Any, cast

import httptools
import httpx
import msgspec
import uvicorn
from quart import Quart
from uvicorn.server import ServerState

from api.current import EXTENSION
from tests.serving import INGEST_KEY, PATIENCE_SECONDS
from webapp.server.fast_path import STATE, FastPath
from webapp.server.protocol import LimitedProtocol
from webapp.server.tracing import Receive, Scope, Send


class Wire(asyncio.Transport):
    """The server's end of a connection: what was written to it, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self.is_closed.is_set()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.answers.put_nowait(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.is_closed.set()

    def write_eof(self) -> None:
        """Nothing more is written."""
        self.is_closed.set()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Line:
    """A connection to the service; what is not answered by the connection goes on, and `/api/other` is only echoed."""

    def __init__(self, quart: Quart, application: object = None) -> None:
        config = uvicorn.Config(
            cast(Any, application or self._go_on),
            interface="asgi3",
            ws="none",
            log_config=None,
            access_log=False,
        )
        config.load()
        self._quart = quart
        self._config, self._state = config, ServerState()
        # What the application offers when it starts.
        is_own = application is None or application is quart.asgi_app
        self._offered = {STATE: FastPath(self._go_on, quart, quart.extensions[EXTENSION].settings)} if is_own else {}
        self.connect()
        self.went_on: list[bytes] = []
        """The bodies that were echoed."""
        self.scopes: list[Scope] = []
        """The requests that went on."""
        self.has_gone_on = asyncio.Event()

    def connect(self) -> None:
        """Open the connection, or another one after it was closed."""
        self.wire = Wire()
        self.protocol = LimitedProtocol(self._config, self._state, self._offered)
        self.protocol.connection_made(self.wire)

    async def _go_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.has_gone_on.set()
        answer: Any = self._echo if scope["path"] == "/api/other" else self._quart.asgi_app
        await answer(scope, receive, send)

    async def _echo(self, _scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.went_on.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"echo"})

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.protocol.data_received(piece)

    async def written(self) -> bytes:
        """What the service writes next."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.wire.answers.get()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        head, _, body = (await self.written()).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body

    async def end(self) -> None:
        """As when the client has gone; nothing of it is left to do."""
        self.protocol.connection_lost(None)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*self._state.tasks)


class LineTransport(httpx.AsyncBaseTransport):
    """Sends each request of a client over a connection of its own, head and body at once."""

    def __init__(self, quart: Quart) -> None:
        self._quart = quart

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        line, heard = Line(self._quart, self._quart.asgi_app), Heard()
        lines = b"".join(b"%b: %b\r\n" % header for header in request.headers.raw)
        head = b"%b %b HTTP/1.1\r\n%b\r\n" % (request.method.encode(), request.url.raw_path, lines)
        line.send(head + await request.aread())
        while not (heard.answers or (heard.headers and request.method == "HEAD")):
            heard.parser.feed_data(await line.written())
        await line.end()
        content = heard.answers[0][1] if heard.answers else b""
        return httpx.Response(heard.parser.get_status_code(), headers=heard.headers, content=content)


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


class Heard:
    """What a client makes of the bytes that come back."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.answers: list[tuple[int, bytes]] = []
        self.headers: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

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
