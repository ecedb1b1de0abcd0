"""HTTP as uvicorn speaks it, with an end to what comes before a body, and with head and body of an answer sent together.

Its parser would take headers for ever; and to write the two apart is two system calls and two packets for each run. What is no
HTTP gets the answer that any other error gets, although no application ever hears of it.
"""

import asyncio
import sys
from http import HTTPStatus
from typing import Any

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from werkzeug.exceptions import BadRequest, HTTPException, RequestHeaderFieldsTooLarge, RequestURITooLarge

from api.errors import refusal
from runtally.ids import uuid7
from webapp.security import headers_for

# Several times what proxies and browsers send.
MAX_HEAD_BYTES = 128 * 1024
# What the parser can tell the parts of.
MAX_TARGET_BYTES = 64 * 1024 - 1
# As long as a body may take.
HEAD_SECONDS = 60.0
# More of a long answer is not held back, so that what waits for its reader is known.
MAX_HELD_BYTES = 64 * 1024
_ONLY_READING = frozenset({b"GET", b"HEAD"})


class Joined:
    """A transport that writes at once what is written in one turn of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # Whatever a transport has.
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_HELD_BYTES:
            self._flush()

    def write_whole(self, data: bytes) -> None:
        """Write what nothing will be added to."""
        self._held.append(data)
        self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        # Until its turn came, the other end may have hung up.
        if self._held and not self._transport.is_closing():
            held, self._held, self._held_bytes = b"".join(self._held), [], 0
            self._transport.write(held)


class _BadHead(Exception):
    """Ends the parser's work on a head that is well-formed and still no request of ours."""


class Protocol(HttpToolsProtocol):
    """A connection that sends no whole head is closed; so is one that goes on with headers behind its body."""

    _is_in_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _fault: HTTPException = BadRequest()
    # Where a request for another protocol has its body.
    _behind_head: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        super().connection_made(transport)
        self.joined = Joined(transport, self.loop)
        self.transport = self.joined  # type: ignore[assignment]  # What it lacks it hands on.
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        while self._behind_head is not None:
            data = self._head_without_upgrade() + data[self._behind_head :]
            self._behind_head = None
            self.parser = HttpRequestParser(self)
            # As uvicorn has it.
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            super().data_received(data)
        if not self._is_in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            if self._is_free:
                self._refuse(RequestHeaderFieldsTooLarge())
            self.transport.close()
        elif self._head_timer is None:
            self._wait_for_head()

    def eof_received(self) -> bool:  # type: ignore[override]  # True keeps the connection, as asyncio has it.
        """Who sends no more, as `nc -N` does, still hears what became of a request that may have changed something.

        Half a request is dropped, and so is one that only reads: whoever closes a page looks the same, and its query should end.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body or self.parser.get_method() in _ONLY_READING:
            return False
        self.shutdown()
        if self._head_timer is None:
            self._wait_for_head()
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        if not self._asks_for_upgrade:
            self.on_head()
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._asks_for_upgrade:
            super().on_message_complete()

    @property
    def _asks_for_upgrade(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _unsupported_upgrade_warning(self) -> None:
        """Uvicorn's moment to say that it goes on without: it would, but the parser drops the body, and whatever comes after it.

        Java's client asks for HTTP/2 like that with the first request of a connection, also where that has a body.
        """
        upgrade = sys.exception()
        if isinstance(upgrade, HttpParserUpgrade) and self._asks_for_upgrade:
            self._behind_head = upgrade.args[0]

    def _head_without_upgrade(self) -> bytes:
        """The head of this request again, as whoever knows no other protocol reads it."""
        headers = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        version = self.parser.get_http_version().encode()
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self.parser.get_method(), self.url, version, headers)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self._fault = RequestURITooLarge()
            raise _BadHead

    def on_head(self) -> None:
        self._is_in_head = False
        self._stop_waiting()
        if self.parser.get_method() == b"CONNECT":
            # What follows is for somebody else, and we are no proxy.
            raise _BadHead
        # Of two, each program between us and the client may have taken another one; HTTP/1.1 asks for one.
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            raise _BadHead

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)
        # What follows a body is nothing that anybody here reads.

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's words; ours say what to do.
        """Answer what is no HTTP, and hang up: nobody knows where a next request would begin.

        While the request before it is being answered, this would be taken for its answer.
        """
        if self._is_free:
            self._refuse(self._fault)
            self.transport.close()
        else:
            self.shutdown()

    @property
    def _is_free(self) -> bool:
        """Whether an answer that is written now is that to the request that is being read."""
        cycle = self.cycle
        return (
            cycle is None
            or cycle.response_complete
            or (cycle.more_body and not cycle.response_started and not self.pipeline)
        )

    def _refuse(self, error: HTTPException) -> None:
        refused = refusal(error)
        headers = {
            **{name.decode(): value.decode("latin-1") for name, value in self.server_state.default_headers},
            **refused.headers,
            "Content-Length": str(len(refused.body)),
            "Connection": "close",
            "X-Request-Id": uuid7().hex,
            **headers_for(is_secure=False),
        }
        lines = (f"{name.lower()}: {value}\r\n" for name, value in headers.items())
        status = HTTPStatus(refused.status)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{''.join(lines)}\r\n"
        self.transport.write(head.encode("latin-1") + refused.body)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
