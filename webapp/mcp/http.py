"""The MCP server over HTTP, with the key of the `Authorization` header."""

import json
from http import HTTPStatus
from typing import Any

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from runtally.access.keys import verify
from runtally.audit import Actor
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import InvalidKey, MissingKey, RateLimited, RuntallyError, StoreUnavailable
from runtally.limits.limiter import Limiter
from runtally.limits.wrong_keys import WrongKeys
from runtally.settings import Settings
from webapp.mcp.server import asking

BODY_BYTES = 64 * 1024
_BEARER = b"bearer "
_MAX_KEY = 256


def http_app(server: MCPServer[Any], database: Database, limiter: Limiter, settings: Settings, clock: Clock) -> ASGIApp:
    """Return the application, at /mcp. It keeps no session, so that any process answers any request."""
    inner: Starlette = server.streamable_http_app(
        stateless_http=True,
        json_response=True,
        max_request_body_size=BODY_BYTES,
        # No page of a browser has a key, so another name for this machine gains nothing.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return _Keyed(inner, database, limiter, settings, clock)


class _Keyed:
    """Lets only requests with a key through."""

    def __init__(self, app: ASGIApp, database: Database, limiter: Limiter, settings: Settings, clock: Clock) -> None:
        self._app = app
        self._database = database
        self._limiter = limiter
        self._settings = settings
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            actor = await self._holder(scope)
        except RateLimited as error:
            await _refuse(send, HTTPStatus.TOO_MANY_REQUESTS, error)
            return
        except StoreUnavailable as error:
            await _refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, error)
            return
        except (MissingKey, InvalidKey) as error:
            await _refuse(send, HTTPStatus.UNAUTHORIZED, error)
            return
        token = asking.set(actor)
        try:
            await self._app(scope, receive, send)
        finally:
            asking.reset(token)

    async def _holder(self, scope: Scope) -> Actor:
        """Return the holder of the key. Raises `MissingKey`, `InvalidKey`, `RateLimited` and `StoreUnavailable`."""
        client = scope["client"]
        async with WrongKeys(self._limiter, self._settings, client[0] if client else None):
            key = _key_of(scope)
            async with self._database.connection() as connection:
                return await verify(connection, self._clock(), key)


def _key_of(scope: Scope) -> str:
    """Return the key. Raises `MissingKey` and `InvalidKey`."""
    sent: bytes = dict(scope["headers"]).get(b"authorization", b"")
    if not sent[: len(_BEARER)].lower() == _BEARER:
        raise MissingKey("Send a project key in the header Authorization: Bearer <key>.")
    key = sent[len(_BEARER) :].strip()
    if len(key) > _MAX_KEY or not key.isascii():
        raise InvalidKey
    return key.decode()


async def _refuse(send: Send, status: int, error: RuntallyError) -> None:
    body = json.dumps({"ok": False, "error": {"code": error.code, "message": error.message}}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *([(b"retry-after", b"%d" % error.retry_after_seconds)] if isinstance(error, RateLimited) else []),
        *([(b"www-authenticate", b'Bearer realm="runtally"')] if status == HTTPStatus.UNAUTHORIZED else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
