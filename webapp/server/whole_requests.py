"""Answer endpoints whose request has arrived whole, as nearly all do, without the other middleware.

What the others do to such a request is done here in one step: bounded headers, request id, log and security headers. The rest
of them is for requests and answers that take their time; for a run, all of them together cost more than storing it.
"""

from api.request import ClientGone
from webapp.server.fast_path import FastPath, headers_of
from webapp.server.heads import bounded
from webapp.server.protocol import WHOLE
from webapp.server.security_headers import with_usual
from webapp.server.spans import Spans
from webapp.server.tracing import HEADER, Application, Receive, Scope, Send, exchange_of


class WholeRequests:
    """Middleware that answers whole requests to endpoints, and passes on all others."""

    def __init__(self, app: Application, fast_path: FastPath, spans: Spans | None = None) -> None:
        self._app = app
        self._fast_path = fast_path
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if WHOLE not in scope.get("extensions", ()):
            await self._app(scope, receive, send)
            return
        scope["headers"] = bounded(scope["headers"])
        found = self._fast_path.find(scope, receive)
        if found is None:
            await self._app(scope, receive, send)
            return
        with exchange_of(scope, self._spans) as exchange:
            exchange.route = found.pattern
            try:
                reply = await found.endpoint(found.request, **found.path)
            except ClientGone:
                return
            exchange.status, exchange.bytes_sent = reply.status, len(reply.body)
            headers = with_usual(headers_of(reply), is_secure=scope["scheme"] == "https")
            headers.append((HEADER, exchange.request_id.encode()))
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": reply.body})
