"""Connections on which whole, ordinary requests are answered without ASGI."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from uvicorn import Config
from uvicorn._types import HTTPScope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from webapp import tracing
from webapp.express import lane
from webapp.express.exchange import Answer, Request
from webapp.express.lifespan import services_in
from webapp.protocol import Protocol

# For a body that comes apart from its head, as many clients send it; one that takes longer is waited for by Quart.
HELD_SECONDS = 1.0
_FORWARDED = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})


@dataclass(slots=True)
class _Cycle:
    """What uvicorn looks at of a request that is being answered."""

    keep_alive: bool
    message_event: asyncio.Event
    disconnected: bool = False
    more_body: bool = False
    response_started: bool = False
    response_complete: bool = False


class ExpressProtocol(Protocol):
    """Holds back the head of a request that may be answered here, until its body is there.

    If the body does not come at one go, or there is anything else to the request, uvicorn hears of it as if it had just come.
    """

    # Of the request that is held back.
    _held: bytes | None = None
    _body_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  # uvicorn's.
        super().__init__(*args, **options)
        self._never_read = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_held()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            self._forget_held()
        elif self._held:
            self._go_on()
        elif self._held is not None and self._body_timer is None:
            self._body_timer = self.loop.call_later(HELD_SECONDS, self._go_on)

    def shutdown(self) -> None:
        if self._held is not None:
            self._go_on()
        super().shutdown()

    def on_headers_complete(self) -> None:
        if (
            self._is_free
            and lane.may_take(self.parser.get_method(), self.url)
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
        ):
            self.on_head()
            self._held = b""
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._held is None:
            super().on_body(body)
        else:
            self._held += body

    def on_message_complete(self) -> None:
        if self._held is None:
            super().on_message_complete()
            return
        request = self._request(self._held)
        answering = request and lane.take(request)
        if request is None or answering is None:
            self._go_on()
            super().on_message_complete()
        else:
            self._forget_held()
            self._begin(request, answering)

    def _request(self, body: bytes) -> Request | None:
        """The request that is held back; None for one with a header that comes twice."""
        headers = dict(self.headers)
        services = services_in(self.app_state)
        if services is None or len(headers) < len(self.headers):
            return None
        scope = self.scope if _FORWARDED.isdisjoint(headers) else _as_proxies_say(self.scope, self.config)
        address = scope["client"][0] if scope["client"] else None
        path, _, query = self.url.partition(b"?")
        return Request(
            method=self.parser.get_method(),
            path=path.decode("ascii"),
            query=query,
            headers=headers,
            body=body,
            address=address,
            is_secure=scope["scheme"] == "https",
            services=services,
        )

    def _go_on(self) -> None:
        """Give uvicorn what was held back."""
        body = self._held
        self._forget_held()
        super().on_headers_complete()
        if body:
            super().on_body(body)

    def _forget_held(self) -> None:
        self._held = None
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _begin(self, request: Request, answering: Coroutine[Any, Any, Answer]) -> None:
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self.cycle = cycle = _Cycle(keep_alive, self._never_read)  # type: ignore[assignment]  # All that is looked at.
        task = self.loop.create_task(self._answer(request, answering, cycle))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, request: Request, answering: Coroutine[Any, Any, Answer], cycle: _Cycle) -> None:
        try:
            with tracing.Exchange(request.method.decode(), request.headers.get(tracing.HEADER, b"")) as exchange:
                exchange.route = lane.route_of(request)
                answer = await answering
                if self.flow.write_paused:
                    await self.flow.drain()
                if not (cycle.disconnected or self.transport.is_closing()):
                    self._send(request, answer, exchange.request_id, cycle)
                    exchange.status, exchange.bytes_sent = answer.status, len(answer.body)
        finally:
            if not cycle.response_complete:
                self.transport.close()

    def _send(self, request: Request, answer: Answer, request_id: str, cycle: _Cycle) -> None:
        cycle.keep_alive = cycle.keep_alive and answer.headers.get("Connection") != "close"
        also = [*self.server_state.default_headers, (tracing.HEADER, request_id.encode())]
        if not cycle.keep_alive and "Connection" not in answer.headers:
            also.append((b"connection", b"close"))
        self.joined.write_whole(answer.encoded(also, is_secure=request.is_secure))
        cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


@lru_cache(1)
def _proxies(trusted: str) -> ProxyHeadersMiddleware:
    """Uvicorn's own reading of what proxies say, before an application that does nothing."""

    async def nothing(*_: object) -> None:
        pass

    return ProxyHeadersMiddleware(nothing, trusted)


def _as_proxies_say(scope: HTTPScope, config: Config) -> HTTPScope:
    """With the client's address and scheme as trusted proxies tell them."""
    told: Any = {**scope}
    trusted = config.forwarded_allow_ips
    reading = _proxies(trusted if isinstance(trusted, str) else ",".join(trusted))(
        told, cast(Any, None), cast(Any, None)
    )
    # Nothing is waited for, so it ends at once.
    with suppress(StopIteration):
        reading.send(None)
    return cast(HTTPScope, told)
