"""Uvicorn's HTTP protocol with time and size limits on heads; head and body of an answer are written together.

A whole request to an endpoint that comes alone, plainly written, is answered by the fast path: uvicorn sees none of it.

Uvicorn's parser would accept headers for ever, and two writes are two system calls and two packets for each run.
Requests that are not HTTP get our usual error answer, although no application sees them.

Uvicorn takes such a class as its `http`. It uses what any such class has: the methods of `asyncio.Protocol`, the
callbacks of httptools, and a few names of uvicorn's own class, which `tests/unit/server/test_protocol.py` lists.
"""

import asyncio
from http import HTTPStatus
from typing import Any, cast

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from werkzeug.exceptions import BadRequest, HTTPException, RequestHeaderFieldsTooLarge, RequestURITooLarge

from api.errors import refusal
from runtally.ids import uuid7
from webapp.server.fast_path import STATE, FastPath, Headers, headers_of
from webapp.server.lingering import LINGER_BYTES, SILENT_SECONDS
from webapp.server.plain_heads import HOST
from webapp.server.plain_heads import MAX_BYTES as MAX_PLAIN_HEAD_BYTES
from webapp.server.security_headers import headers_for

# Several times what proxies and browsers send.
MAX_HEAD_BYTES = 128 * 1024
# Each field is looked at many times for one request.
MAX_HEADERS = 2000
# The longest target that the parser can split.
MAX_TARGET_BYTES = 64 * 1024 - 1
# A body may take as long.
HEAD_SECONDS = 60.0
# Longer answers are not held back, so that the bytes waiting for their reader are known.
MAX_HELD_BYTES = 64 * 1024
# So long, and so much, the fast path waits for a body that comes behind its head; then uvicorn does.
BEHIND_SECONDS = 0.2
MAX_BEHIND_BYTES = 64 * 1024
_ONLY_READING = frozenset({b"GET", b"HEAD"})
_END = b"\r\n\r\n"
_GO_ON = b"HTTP/1.1 100 "
_STATUS_LINES = {status.value: f"HTTP/1.1 {status} {status.phrase}\r\n".encode() for status in HTTPStatus}


class CoalescingTransport:
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
    # While the fast path answers a request: its method, what came behind it, and half of the next one.
    _answers: bytes | None = None
    _keeps = True
    _behind = b""
    _half = b""
    _answered_at = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  # uvicorn's.
        super().__init__(*args, **options)
        self.parser = _Parser(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        self._fast_path: FastPath | None = self.app_state.get(STATE)
        self._wire = transport
        self._joined = CoalescingTransport(transport, self.loop)
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
        elif self._answers is not None:
            self._behind += data
            self.flow.pause_reading()
        elif self._fast_path is None or not self._is_between_requests or not self._answer_fast(self._half + data):
            self._feed(data)

    @property
    def _is_between_requests(self) -> bool:
        return not (self._unanswered or self._is_in_body or self._head_bytes)

    def _answer_fast(self, data: bytes) -> bool:
        """Begin to answer these bytes, or wait for the rest of them; False if they are for uvicorn."""
        head, end, _ = data[:MAX_PLAIN_HEAD_BYTES].partition(_END)
        if not end or self._fast_path is None or self.flow.write_paused:
            return False
        asked = self._fast_path.asked(head + end, self.client, self.scheme, self.config)
        missing = 0 if asked is None else len(head) + len(_END) + asked.head.length - len(data)
        if asked is None or missing < 0 or (missing and asked.head.length > MAX_BEHIND_BYTES):
            return False
        if not self._half:
            self._stay()
        if missing:
            self._timer = self._timer or self.loop.call_later(BEHIND_SECONDS, self._feed, b"")
            self._half = data
            return True
        self._stay()
        self._half, self._answers, self._keeps = b"", asked.head.method, asked.head.keeps
        task = self._fast_path.answer(asked, data[len(head) + len(_END) :], self._write_answer)
        if task is not None:
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return True

    def _write_answer(self, status: int, headers: Headers, body: bytes) -> None:
        self._answers = None
        if self._wire.is_closing():
            return
        self._wire.write(self._encoded(status, headers if self._keeps else [*headers, (b"connection", b"close")], body))
        if not self._keeps:
            self._wire.close()
            return
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_handler()
        behind, self._behind = self._behind, b""
        if behind:
            self.flow.resume_reading()
            self.data_received(behind)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that has long been idle; one timer serves all requests that the fast path answers."""
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left <= 0 and self._answers is None and not self._half:
            super().timeout_keep_alive_handler()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(max(left, 1.0), self.timeout_keep_alive_handler)

    def _feed(self, data: bytes) -> None:
        if self._half:
            self._stay()
            data, self._half = self._half + data, b""
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
        if self._half:
            self._feed(b"")
        if self._answers is None:
            is_dropped = not self._unanswered or self._is_in_body or self.parser.get_method() in _ONLY_READING
        else:
            is_dropped = self._answers in _ONLY_READING
        if is_dropped:
            return False
        self.shutdown()
        if self._timer is None:
            self._close_in(HEAD_SECONDS)
        return True

    def shutdown(self) -> None:
        """Close the connection once all that was asked is answered."""
        if self._half:
            self._feed(b"")
        if self._answers is None:
            super().shutdown()
        else:
            self._keeps = False

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
            self._is_in_head, self._head_bytes = False, 0
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
        if not all(HOST.fullmatch(host.strip(b" \t")) for host in hosts):
            raise _BadHead

    def on_body(self, body: bytes) -> None:
        self._bytes_without_body = 0
        # One piece is passed on as it came, instead of two copies of it; further ones are put behind it.
        if not self.cycle.body:
            self.cycle.body = b""  # type: ignore[assignment]  # Uvicorn only adds to it, and makes bytes of it.
        elif isinstance(self.cycle.body, bytes):
            self.cycle.body = bytearray(self.cycle.body)
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
        """Answer an invalid request and close the connection: the start of the next request is unknown.

        While an earlier request is being answered, this answer would be taken for its own.
        """
        is_only_one = self._unanswered == 1 and self._is_in_body and not self._joined.has_answered
        if self._unanswered and not is_only_one:
            self.shutdown()
            return
        reply = refusal(error)
        headers = headers_of(reply)
        headers += [(b"connection", b"close"), (b"x-request-id", uuid7().hex.encode()), *headers_for(is_secure=False)]
        self._joined.write(self._encoded(reply.status, headers, reply.body))
        self._joined.write_eof()
        # A client that is still sending would be cut off, and lose the answer.
        self._to_drop = LINGER_BYTES
        self._close_in(SILENT_SECONDS)

    def _encoded(self, status: int, headers: Headers, body: bytes) -> bytes:
        lines = b"".join([b"%b: %b\r\n" % header for header in (*self.server_state.default_headers, *headers)])
        return b"%b%b\r\n%b" % (_STATUS_LINES[status], lines, body)

    def _close_in(self, seconds: float) -> None:
        self._stay()
        self._timer = self.loop.call_later(seconds, self._joined.close)

    def _stay(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
