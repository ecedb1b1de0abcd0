"""HTTP as uvicorn speaks it, with an end to what comes before a body, and with head and body of an answer sent together.

Its parser would take headers for ever; and to write the two apart is two system calls and two packets for each run. What is no
HTTP gets the answer that any other error gets, although no application ever hears of it.

Uvicorn takes such a class as its `http`. This one keeps to what any such class has: the methods of `asyncio.Protocol`, the
callbacks of httptools, and a few names of uvicorn's own class, which `tests/unit/test_protocol.py` lists.
"""

import asyncio
from http import HTTPStatus
from typing import Any, cast

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from werkzeug.exceptions import BadRequest, HTTPException, RequestHeaderFieldsTooLarge, RequestURITooLarge

from api.errors import refusal
from runtally.ids import uuid7
from webapp.lingering import LINGER_BYTES, SILENT_SECONDS
from webapp.security_headers import headers_for

# Several times what proxies and browsers send.
MAX_HEAD_BYTES = 128 * 1024
# What the parser can tell the parts of.
MAX_TARGET_BYTES = 64 * 1024 - 1
# As long as a body may take.
HEAD_SECONDS = 60.0
# More of a long answer is not held back, so that what waits for its reader is known.
MAX_HELD_BYTES = 64 * 1024
_ONLY_READING = frozenset({b"GET", b"HEAD"})
_GO_ON = b"HTTP/1.1 100 "


class Joined:
    """A transport that writes at once what is written in one turn of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.has_answered = False
        """Whether anything was written but the word to go on with a body; whoever reads it sets it back."""
        self._transport = transport
        self._loop = loop
        self._has_ended = False
        self._held: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # Whatever a transport has.
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._has_ended:
            return
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._held_bytes += len(data)
        self.has_answered = self.has_answered or not data.startswith(_GO_ON)
        if self._held_bytes > MAX_HELD_BYTES:
            self._flush()

    def write_eof(self) -> None:
        """Write no more, whoever may still want to."""
        self._flush()
        self._has_ended = True
        if not self._transport.is_closing():
            self._transport.write_eof()

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


class _Parser(HttpRequestParser):
    """A parser for which a request that asks for another protocol is one like any other.

    Java's client asks for HTTP/2 like that with the first request of a connection, also where that has a body. Httptools drops
    that body, and whatever comes after it.
    """

    def __init__(self, protocol: "LimitedProtocol") -> None:
        self._protocol = protocol
        self._begin()

    def _begin(self) -> None:
        super().__init__(self._protocol)
        # As uvicorn has it.
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed_data(self, data: Any) -> None:  # noqa: ANN401  # Any buffer.
        rest = memoryview(data)
        while True:
            try:
                super().feed_data(rest)
            except HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
                head = self._head_without_upgrade()
                self._begin()
                super().feed_data(head)
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """The head of this request again, as whoever knows no other protocol reads it."""
        headers = b"".join(b"%b: %b\r\n" % header for header in self._protocol.headers if header[0] != b"upgrade")
        version = self.get_http_version().encode()
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self.get_method(), self._protocol.url, version, headers)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that sends no whole head is closed; so is one that goes on with something else than a body."""

    _is_in_head = True
    _is_in_body = False
    _head_bytes = 0
    _bytes_without_body = 0
    _unanswered = 0
    _timer: asyncio.TimerHandle | None = None
    _fault: HTTPException = BadRequest()
    # Of a client that was refused, and may still be sending.
    _to_drop: int | None = None

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  # uvicorn's.
        super().__init__(*args, **options)
        self.parser = _Parser(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        self._joined = Joined(transport, self.loop)
        # What it lacks it hands on.
        super().connection_made(cast(asyncio.Transport, self._joined))
        self._close_in(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stay()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._to_drop is not None:
            self._to_drop -= len(data)
            if self._to_drop < 0:
                self._joined.close()
            return
        self._bytes_without_body += len(data)
        super().data_received(data)
        if self._is_in_head:
            self._look_at_head(len(data))
        elif self._is_in_body and self._bytes_without_body > MAX_HEAD_BYTES:
            self._joined.close()

    def _look_at_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES and not self._joined.is_closing():
            if self._unanswered:
                self._joined.close()
            else:
                self._refuse(RequestHeaderFieldsTooLarge())
        elif self._timer is None:
            self._close_in(HEAD_SECONDS)

    def eof_received(self) -> bool:  # type: ignore[override]  # True keeps the connection, as asyncio has it.
        """Who sends no more, as `nc -N` does, still hears what became of a request that may have changed something.

        Half a request is dropped, and so is one that only reads: whoever closes a page looks the same, and its query should end.
        """
        if not self._unanswered or self._is_in_body or self.parser.get_method() in _ONLY_READING:
            return False
        self.shutdown()
        if self._timer is None:
            self._close_in(HEAD_SECONDS)
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self._fault = RequestURITooLarge()
            raise _BadHead

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)
        # What follows a body is nothing that anybody here reads.

    def on_headers_complete(self) -> None:
        if not self._asks_for_upgrade:
            self._is_in_head = False
            self._stay()
            self._check_head()
            super().on_headers_complete()
            self._unanswered += 1
            self._is_in_body, self._bytes_without_body = True, 0

    def _check_head(self) -> None:
        if self.parser.get_method() == b"CONNECT":
            # What follows is for somebody else, and we are no proxy.
            raise _BadHead
        # Of two, each program between us and the client may have taken another one; HTTP/1.1 asks for one.
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            raise _BadHead

    def on_body(self, body: bytes) -> None:
        self._bytes_without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._asks_for_upgrade:
            self._is_in_body = False
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._unanswered -= 1
        self._joined.has_answered = False
        super().on_response_complete()

    @property
    def _asks_for_upgrade(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's words; ours say what to do.
        self._refuse(self._fault)

    def _refuse(self, error: HTTPException) -> None:
        """Answer what is no HTTP, and hang up: nobody knows where a next request would begin.

        While the request before it is being answered, this would be taken for its answer.
        """
        is_only_one = self._unanswered == 1 and self._is_in_body and not self._joined.has_answered
        if self._unanswered and not is_only_one:
            self.shutdown()
            return
        self._joined.write(self._encoded(error))
        self._joined.write_eof()
        # Whoever is still sending would be cut off, and lose the answer with what was not read.
        self._to_drop = LINGER_BYTES
        self._close_in(SILENT_SECONDS)

    def _encoded(self, error: HTTPException) -> bytes:
        reply = refusal(error)
        headers = [
            *self.server_state.default_headers,
            *((name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()),
            (b"content-length", b"%d" % len(reply.body)),
            (b"connection", b"close"),
            (b"x-request-id", uuid7().hex.encode()),
            *headers_for(is_secure=False),
        ]
        status = HTTPStatus(reply.status)
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status.value, status.phrase.encode(), lines, reply.body)

    def _close_in(self, seconds: float) -> None:
        self._stay()
        self._timer = self.loop.call_later(seconds, self._joined.close)

    def _stay(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
