"""Bodies that come in pieces, all of one process together: no more than there is room for.

Each may be as large as `MAX_BODY_BYTES`, but not all of them at once. Only who waits for a body that is not whole yet is sent
away; what is whole is small, or soon done with.
"""

from quart import request

from api.errors import refusal
from runtally.errors import StoreBusy
from webapp import tracing
from webapp.security import headers_for
from webapp.tracing import Application, Message, Receive, Scope, Send

# Room for so many of the largest bodies.
AT_ONCE = 16


class BodyRoom:
    """Quart's application, which keeps a body until it is whole."""

    def __init__(self, app: Application, max_body_bytes: int) -> None:
        self._app = app
        self._room = AT_ONCE * max_body_bytes

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
                self._room -= size
                if self._room < 0 and message.get("more_body") and not has_begun:
                    is_refused = True
                    return {"type": "http.disconnect"}
            return message

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive_within, send_on)
        finally:
            self._room += held
        if is_refused and not has_begun:
            await _refuse(scope, send)


async def _refuse(scope: Scope, send: Send) -> None:
    tracing.failed(StoreBusy())
    refused = refusal(StoreBusy())
    headers = headers_for(is_secure=scope["scheme"] == "https") | refused.headers
    headers |= {"Content-Length": str(len(refused.body)), "Connection": "close"}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": refused.body})


async def forget(_: BaseException | None) -> None:
    """What Quart raises of a body that is too large holds that body, and is held by it, until somebody collects garbage."""
    request.body.clear()
