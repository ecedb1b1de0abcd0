"""The express lanes: what is asked for most is answered before Quart: runs, by a client or by the relay, and badges.

Quart's request and response cost more time than decoding, pricing and storing a run do.

They decide nothing: each step is a call of what the route's own hooks call, in their order. Whatever is in any way out of the
ordinary, such as a project key, gzip, a query, a body that comes in pieces, goes on to Quart as if it had not been looked at.
"""

from quart import Quart

from api.current import EXTENSION
from runtally.services import Services
from webapp.express import badges, posts
from webapp.express.exchange import Request
from webapp.tracing import Application, Receive, Scope, Send


class ExpressLane:
    """Quart's application, with a shorter way beside it."""

    def __init__(self, app: Application, quart: Quart) -> None:
        self._app = app
        self._extensions = quart.extensions
        self._config = quart.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services: Services | None = self._extensions.get(EXTENSION)
        if scope["type"] == "http" and services is not None:
            request = Request(scope, dict(scope["headers"]), services)
            if not request.is_odd:
                if scope["method"] == "POST":
                    left = await posts.take(request, receive, send, patience=self._config["BODY_TIMEOUT"])
                    if left is None:
                        return
                    receive = left
                elif scope["method"] == "GET" and await badges.show(request, send):
                    return
        await self._app(scope, receive, send)
