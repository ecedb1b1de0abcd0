"""How the connections of a server, which know nothing but ASGI, find the application's services."""

from collections.abc import Mapping
from typing import Any

from quart import Quart

from api.current import EXTENSION
from runtally.services import Services
from webapp.tracing import Application, Receive, Scope, Send

_STATE = "quart_extensions"


class Lifespan:
    """Quart's application, which hands its extensions to the server, in the state that ASGI has for that."""

    def __init__(self, app: Application, quart: Quart) -> None:
        self._app = app
        self._quart = quart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" and "state" in scope:
            scope["state"] |= state_of(self._quart)
        await self._app(scope, receive, send)


def state_of(quart: Quart) -> dict[str, Any]:
    return {_STATE: quart.extensions}


def services_in(state: Mapping[str, Any]) -> Services | None:
    """None before the application has started, and for any other."""
    extensions: Mapping[str, Any] = state.get(_STATE, {})
    return extensions.get(EXTENSION)
