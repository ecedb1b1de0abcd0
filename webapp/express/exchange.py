"""A request that may take an express lane, and what is sent to whoever made it."""

from collections.abc import Mapping
from dataclasses import dataclass

from api.errors import refusal
from api.reply import JSON
from runtally.services import Services
from webapp import tracing
from webapp.hosts import is_foreign
from webapp.security import headers_for
from webapp.tracing import Scope, Send

Headers = Mapping[bytes, bytes]


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_ALWAYS = {is_secure: dict(_raw(headers_for(is_secure=is_secure))) for is_secure in (False, True)}


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose body, if it has one, is still to come."""

    scope: Scope
    headers: Headers
    services: Services

    @property
    def address(self) -> str | None:
        client = self.scope.get("client")
        return client[0] if client else None

    @property
    def key(self) -> str:
        scheme, _, key = self.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return key.strip() if scheme.casefold() == "bearer" else ""

    @property
    def is_odd(self) -> bool:
        """Whether a header comes twice, or it was sent to a name that is not this server's."""
        host = self.headers.get(b"host", b"").decode("latin-1")
        return len(self.headers) < len(self.scope["headers"]) or is_foreign(host, self.services.settings)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent, besides what every answer says to a browser; its headers win over those."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    async def send_to(self, request: Request, send: Send, *, route: str) -> None:
        tracing.matched(route)
        sized = {**self.headers, "Content-Length": str(len(self.body))} if self.body else self.headers
        headers = _ALWAYS[request.scope["scheme"] == "https"] | dict(_raw(sized))
        await send({"type": "http.response.start", "status": self.status, "headers": list(headers.items())})
        await send({"type": "http.response.body", "body": self.body})


def refused(error: Exception, headers: Mapping[str, str]) -> Answer:
    """As Quart's handler of errors answers."""
    tracing.failed(error)
    answer = refusal(error)
    return Answer(answer.status, answer.body, {"Content-Type": JSON, **headers, **answer.headers})
