"""What a soak bears meanwhile: OpenTelemetry data without a call of a model, and connections that are read or written slowly."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

import httpx

from tests.serving import INGEST_KEY
from tests.spans import make_request, make_span

SLOW_CONNECTIONS = 8
SPANS = 400
PAUSE_SECONDS = 0.2
SLOW_SECONDS = 5
ANSWERS_UNREAD = 50
ALLOWED = {HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_READ = b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
_WRITE = (
    "POST /api/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    f"Authorization: Bearer {INGEST_KEY}\r\nContent-Length: 100000\r\n\r\n"
)


class Attacks:
    """Go on until it is over, whatever a fault breaks."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.without_calls = 0
        self.slow = 0

    async def go_on(self, over: asyncio.Event) -> list[str]:
        """Return what was answered otherwise than it may be, in words."""
        found: set[str] = set()
        slow = [self._read_slowly, self._write_slowly] * (SLOW_CONNECTIONS // 2)
        async with asyncio.TaskGroup() as together:
            together.create_task(self._post_without_calls(over, found))
            for attack in slow:
                together.create_task(self._repeat(attack, over))
        return sorted(found)

    async def _repeat(self, attack: Callable[[], Awaitable[None]], over: asyncio.Event) -> None:
        while not over.is_set():
            # Faults end connections, and so does the service, which waits for nobody for ever.
            with suppress(OSError):
                await attack()
                self.slow += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _post_without_calls(self, over: asyncio.Event, found: set[str]) -> None:
        """Send what a whole service does that was told to trace everything."""
        spans = [make_span({"url.full": "x" * 500}, spanId=f"{place:016x}") for place in range(1, SPANS + 1)]
        body = make_request(*spans, resource={"service.name": "storm-spans"})
        headers = {"Authorization": f"Bearer {INGEST_KEY}"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self._port}", timeout=60, trust_env=False) as client:
            while not over.is_set():
                with suppress(httpx.TransportError):
                    answer = await client.post("/v1/traces", json=body, headers=headers)
                    self.without_calls += answer.is_success
                    if answer.status_code not in ALLOWED:
                        found.add(f"{answer.status_code} for spans without calls: {answer.text[:200]}")
                await asyncio.sleep(PAUSE_SECONDS)

    async def _read_slowly(self) -> None:
        """Ask for answers that fill every buffer, and leave them there."""
        loop = asyncio.get_running_loop()
        with socket.socket() as connection:
            connection.setblocking(False)  # noqa: FBT003  # It takes no name.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(connection, ("127.0.0.1", self._port))
            await loop.sock_sendall(connection, _READ * ANSWERS_UNREAD)
            await asyncio.sleep(SLOW_SECONDS)

    async def _write_slowly(self) -> None:
        """Promise a body, and send a byte of it now and then."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(_WRITE.encode())
            for _ in range(SLOW_SECONDS):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(1)
        finally:
            writer.close()
