"""Add security headers to every answer."""

from collections.abc import Sequence
from functools import cache, lru_cache

from webapp.server.tracing import Application, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@cache
def headers_for(*, is_secure: bool) -> tuple[tuple[bytes, bytes], ...]:
    headers = HEADERS | {"Strict-Transport-Security": "max-age=31536000"} if is_secure else HEADERS
    return tuple((name.lower().encode(), value.encode()) for name, value in headers.items())


def with_usual(own: Sequence[tuple[bytes, bytes]], *, is_secure: bool) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer with those of `headers_for` that it does not set itself."""
    return [*own, *_lacking(tuple([name for name, _ in own]), is_secure=is_secure)]


# Most answers set the same headers.
@lru_cache
def _lacking(names: Sequence[bytes], *, is_secure: bool) -> Sequence[tuple[bytes, bytes]]:
    return [header for header in headers_for(is_secure=is_secure) if header[0] not in names]


class SecurityHeaders:
    """Middleware that adds these headers, unless an answer sets them itself."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = with_usual(message["headers"], is_secure=scope["scheme"] == "https")
            await send(message)

        await self._app(scope, receive, send_on)
