"""Uvicorn's HTTP protocol with time and size limits on heads; head and body of an answer are written together.

Uvicorn's parser would accept headers for ever, and two writes are two system calls and two packets for each run.
Requests that are not HTTP get our usual error answer, although no application sees them.

Uvicorn takes such a class as its `http`. It uses what any such class has: the methods of `asyncio.Protocol`, the
callbacks of httptools, and a few names of uvicorn's own class, which `tests/unit/server/test_protocol.py` lists.
"""

import asyncio
import re
from http import HTTPStatus
from typing import Any, cast

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from werkzeug.exceptions import BadRequest, HTTPException, RequestHeaderFieldsTooLarge, RequestURITooLarge

from api.errors import refusal
from runtally.ids import uuid7
from webapp.server.lingering import LINGER_BYTES, SILENT_SECONDS
from webapp.server.security_headers import headers_for

# Several times what proxies and browsers send.
MAX_HEAD_BYTES = 128 * 1024
# Each field is looked at many times for one request.
MAX_HEADERS = 2000
# The longest target that the parser can split.
MAX_TARGET_BYTES = 64 * 1024 - 1
# As long as a body may take.
HEAD_SECONDS = 60.0
# Longer answers are not held back, so that the bytes waiting for their reader are known.
MAX_HELD_BYTES = 64 * 1024
WHOLE = "runtally.whole"
"""The ASGI extension of a request whose body has arrived before the application is called."""
_WHOLE_EXTENSIONS: dict[str, dict[object, object]] = {WHOLE: {}}
# A name, as the labels that DNS allows, or an address; Quart fails on any other.
_HOST = re.compile(rb"(?:[\w-]{1,63}(?:\.[\w-]{1,63})*\.?|\[[\da-fA-F:.]+\])?(?::\d*)?")
_ONLY_READING = frozenset({b"GET", b"HEAD"})
_GO_ON = b"HTTP/1.1 100 "


class Joined:
    """A transport that joins all writes of one turn of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.has_answered = False
        """Whether anything but "100 Continue" was written; the code that reads it resets it."""
        self._transport = transport
        # Uvicorn asks this several times a request.
        self.is_closing = transport.is_closing
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
        """Refuse further writes."""
        self._flush()
        self._has_ended = True
        if not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        # The client may have disconnected in the meantime.
        if self._held and not self._transport.is_closing():
            held, self._held, self._held_bytes = b"".join(self._held), [], 0
            self._transport.write(held)


class _BadHead(Exception):
    """Ends parsing of a head that is well-formed but not accepted here."""


class _Parser(HttpRequestParser):
    """A parser that treats a request to upgrade the protocol like any other request.

    Java's client asks for HTTP/2 in this way with the first request of a connection, also if that has a body. Httptools
    drops that body, and everything after it.
    """

    def __init__(self, protocol: "LimitedProtocol") -> None:
        self._protocol = protocol
        self._begin()

    def _begin(self) -> None:
        super().__init__(self._protocol)
        # Uvicorn sets the same option.
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
        """Return the head of this request without the upgrade."""
        headers = b"".join(b"%b: %b\r\n" % header for header in self._protocol.headers if header[0] != b"upgrade")
        version = self.get_http_version().encode()
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self.get_method(), self._protocol.url, version, headers)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed if it sends no complete head in time, or anything but a body after one."""

    _is_in_head = True
    _is_in_body = False
    _head_bytes = 0
    _bytes_without_body = 0
    _unanswered = 0
    _timer: asyncio.TimerHandle | None = None
    _fault: HTTPException = BadRequest()
    # Bytes to read and drop from a client that was refused and may still be sending.
    _to_drop: int | None = None

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  # uvicorn's.
        super().__init__(*args, **options)
        self.parser = _Parser(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        self._joined = Joined(transport, self.loop)
        # The joined transport passes all other calls on.
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
        """Keep the connection of a client that has closed its sending half, as `nc -N` does, until it is answered.

        Half a request is dropped, and so is one that only reads: a browser that closes a page looks the same, and its
        query should end.
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
            if len(self.headers) == MAX_HEADERS:
                self._fault = RequestHeaderFieldsTooLarge()
                raise _BadHead
            super().on_header(name, value)
        # Headers after a body are not used.

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
            # CONNECT and absolute targets are for proxies.
            raise _BadHead
        # With two Host headers, each program on the way may use a different one; HTTP/1.1 requires exactly one.
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or not (hosts or self.parser.get_http_version() == "1.0"):
            raise _BadHead
        if not all(_HOST.fullmatch(host.strip(b" \t")) for host in hosts):
            raise _BadHead

    def on_body(self, body: bytes) -> None:
        self._bytes_without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._asks_for_upgrade:
            self._is_in_body = False
            self.scope["extensions"] = _WHOLE_EXTENSIONS
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
        """Answer an invalid request and close the connection: the start of the next request is unknown.

        While an earlier request is being answered, this answer would be taken for its own.
        """
        is_only_one = self._unanswered == 1 and self._is_in_body and not self._joined.has_answered
        if self._unanswered and not is_only_one:
            self.shutdown()
            return
        self._joined.write(self._encoded(error))
        self._joined.write_eof()
        # A client that is still sending would be cut off, and lose the answer.
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
