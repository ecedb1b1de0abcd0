"""A request that may take an express lane, and what is sent to whoever made it."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from api.errors import refusal
from runtally.services import Services
from webapp import tracing
from webapp.hosts import is_foreign
from webapp.security import headers_for

Headers = Mapping[bytes, bytes]


class Request(NamedTuple):
    """A whole request. Of a header that comes twice, `headers` has the last."""

    method: bytes
    path: str
    query: bytes
    headers: Headers
    body: bytes
    address: str | None
    is_secure: bool
    services: Services

    @property
    def key(self) -> str:
        scheme, _, key = self.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return key.strip() if scheme.casefold() == "bearer" else ""

    @property
    def is_foreign(self) -> bool:
        """Whether it was sent to a name that is not this server's."""
        return is_foreign(self.headers.get(b"host", b"").decode("latin-1"), self.services.settings)


class Answer(NamedTuple):
    """What is sent, besides what every answer says to a browser; its headers win over those."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def encoded(self, also: Iterable[tuple[bytes, bytes]], *, is_secure: bool) -> bytes:
        """The answer in HTTP/1.1, with these headers too."""
        own = "".join([f"{name}: {value}\r\n" for name, value in self.headers.items()]).encode("latin-1")
        more = b"".join([b"%b: %b\r\n" % header for header in also])
        # What has no body, a 304, has no length either.
        length = b"content-length: %d\r\n" % len(self.body) if self.body else b""
        return b"%b%b%b%b%b\r\n%b" % (
            *(_status_line(self.status), _always(is_secure, frozenset(self.headers))),
            *(own, more, length, self.body),
        )


@lru_cache
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()


@lru_cache
def _always(is_secure: bool, but: frozenset[str]) -> bytes:  # noqa: FBT001  # A key of the cache.
    headers = headers_for(is_secure=is_secure)
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name not in but).encode("latin-1")


def refused(error: Exception, headers: Mapping[str, str]) -> Answer:
    """As Quart's handler of errors answers."""
    tracing.failed(error)
    answer = refusal(error)
    return Answer(answer.status, answer.body, {**headers, **answer.headers})
