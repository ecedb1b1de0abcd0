"""Give every request an id, which is in its answer and in its log events; log and count it.

This is the outermost middleware, so that it sees what was really sent, also when the application failed.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from quart import request

from api.exchange import Exchange, current_exchange

# The parts of ASGI that are used here: https://asgi.readthedocs.io/en/latest/specs/main.html
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = b"x-request-id"
AGENT = b"user-agent"


class Tracing:
    """Middleware that counts and logs every exchange."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with exchange_of(scope) as exchange:

            async def send_on(message: Message) -> None:
                if message["type"] == "http.response.start":
                    exchange.status = message["status"]
                    message["headers"] = [*message["headers"], (HEADER, exchange.request_id.encode())]
                elif message["type"] == "http.response.body":
                    exchange.bytes_sent += len(message["body"])
                await send(message)

            await self._app(scope, receive, send_on)


def exchange_of(scope: Scope) -> Exchange:
    """Begin the exchange of a request."""
    given_id = agent = b""
    for name, value in scope["headers"]:
        if name == HEADER:
            given_id = value
        elif name == AGENT:
            agent = value
    return Exchange(scope["method"], given_id, agent)


async def begin() -> None:
    """Record the route for the log; the hook that runs first."""
    if request.url_rule is not None:
        matched(request.url_rule.rule)


def matched(route: str) -> None:
    """Record the pattern of the route that answers."""
    exchange = current_exchange()
    if exchange is not None:
        exchange.route = route
