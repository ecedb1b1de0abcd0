"""Limit the memory of request bodies that arrive in pieces, over all requests of a process.

Each body may be as large as `MAX_BODY_BYTES`, but not all of them at once. Only requests whose body is incomplete are
refused; a complete body is small, or soon processed.
"""

from typing import Any

from quart import Request, request
from quart.wrappers import Body

import api
from api import otlp_answers
from runtally.errors import StoreBusy
from runtally.settings import Settings
from webapp.server.fast_path import headers_of
from webapp.server.tracing import Application, Message, Receive, Scope, Send

# Room for so many of the largest bodies, and of those of OTLP, which a Collector makes large.
MAX_IN_FLIGHT = 16
OTLP_MAX_IN_FLIGHT = 4
# A server reads larger pieces from a client that is not slow.
SMALL_PIECE = 4_096


class _Pieces:
    """Bytes in the pieces in which they arrived, joined once. Bytes that grow are copied many times.

    Small pieces after the first are joined to larger ones, since each is an object that takes more memory than its bytes.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self._small = bytearray()
        self._size = 0

    def extend(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._pieces and len(piece) < SMALL_PIECE:
            self._small += piece
            return
        self._collect()
        self._pieces.append(piece)

    def clear(self) -> None:
        self._pieces.clear()
        self._small.clear()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        self._collect()
        return b"".join(self._pieces)

    def _collect(self) -> None:
        if self._small:
            self._pieces.append(self._small)
            self._small = bytearray()


class BodyInPieces(Body):
    """A body of a request that takes little time to receive, however large it is."""

    def __init__(self, *limits: int | None) -> None:
        super().__init__(*limits)
        self._data = _Pieces()  # type: ignore[assignment]  # It has what Quart's body uses of a bytearray.


def sized_request(settings: Settings) -> type[Request]:
    """Return a request class that limits the body by its path, and is below the path of `PUBLIC_URL`."""

    class SizedRequest(Request):
        body_class: type[Body] = BodyInPieces

        def __init__(self, *args: Any, max_content_length: int | None = None, **options: Any) -> None:  # noqa: ANN401  # Quart's.
            path = args[2] if len(args) > 2 else options["path"]  # noqa: PLR2004  # Method, scheme, path.
            if otlp_answers.serves(path):
                max_content_length = settings.otlp_max_body_bytes
            super().__init__(*args, max_content_length=max_content_length, **options)
            # Put before every URL that is built.
            self.root_path = settings.base_path

    return SizedRequest


class BodyBudget:
    """Middleware with a budget of bytes for the bodies of unanswered requests."""

    def __init__(self, app: Application, settings: Settings) -> None:
        self._app = app
        self._left = max(MAX_IN_FLIGHT * settings.max_body_bytes, OTLP_MAX_IN_FLIGHT * settings.otlp_max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held, has_begun, is_refused = 0, False, False

        async def receive_within() -> Message:
            nonlocal held, is_refused
            message = await receive()
            if message["type"] == "http.request":
                size = len(message.get("body", b""))
                held += size
                self._left -= size
                if self._left < 0 and message.get("more_body") and not has_begun:
                    is_refused = True
                    return {"type": "http.disconnect"}
            return message

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            await send(message)
            # An answer that is broken off while it waits has not begun.
            has_begun = True

        try:
            await self._app(scope, receive_within, send_on)
        finally:
            self._left += held
        if is_refused and not has_begun:
            content_type = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
            refused = api.refusal_at(scope["path"], content_type.decode("latin-1"), StoreBusy())
            await send({"type": "http.response.start", "status": refused.status, "headers": headers_of(refused)})
            await send({"type": "http.response.body", "body": refused.body})


async def forget(_: BaseException | None) -> None:
    """Drop Quart's error for a body that is too large: error and body refer to each other until garbage collection."""
    request.body.clear()
