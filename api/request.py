"""A request in the form that authentication, limits and endpoints take, over Quart or the fast path."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

from runtally.audit import ANYONE, Actor
from runtally.errors import UnsupportedMediaType
from runtally.ingest.decode import SentRequest, inflate, read_envelope
from runtally.limits.rate import Decision
from runtally.services import Services

Made = TypeVar("Made")


class Request:
    """An HTTP request; its body is read when it is first needed."""

    __slots__ = ("_made", "_query", "actor", "address", "decision", "headers", "sent", "services")

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        services: Services,
        headers: Mapping[str, str],
        body: bytes | Callable[[], Awaitable[bytes]],
    ) -> None:
        """Wrap an ASGI scope. What reads a body that has not arrived raises `BodyTooLarge` and `BodyTooSlow`."""
        self.headers = headers
        """Headers by name in lower case; of a repeated one, the first."""
        client = scope.get("client")
        self.address: str | None = client[0] if client else None
        """The client's address, as trusted proxies report it."""
        self.services = services
        self.actor: Actor = ANYONE
        """The actor of the request, once it is identified."""
        self.decision: Decision | None = None
        """The decision of the rate limit, if the request was counted."""
        self._query: bytes = scope["query_string"]
        self.sent = body
        self._made: dict[object, object] = {}

    @property
    def query(self) -> Mapping[str, str]:
        """The first value of each query parameter."""
        if not self._query:
            return {}
        return dict(reversed(parse_qsl(self._query.decode(errors="replace"), keep_blank_values=True)))

    @property
    def is_json(self) -> bool:
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return media_type == "application/json" or media_type.endswith("+json")

    @property
    def content_encoding(self) -> str:
        """The compression of the body; `identity` for none."""
        return self.headers.get("content-encoding", "").strip().lower() or "identity"

    @property
    def bearer_key(self) -> str | None:
        """The key in the header `Authorization: Bearer`; None for another scheme."""
        scheme, _, key = self.headers.get("authorization", "").partition(" ")
        return key.strip() or None if scheme.casefold() == "bearer" else None

    async def body(self) -> bytes:
        """Return the whole body, as it was sent."""
        return await self.once(_read)

    async def once(self, make: Callable[["Request"], Awaitable[Made]]) -> Made:
        """Call this function once for the request; later calls return, or raise, the same."""
        if make not in self._made:
            try:
                self._made[make] = await make(self)
            except Exception as error:
                self._made[make] = error
                raise
        made = self._made[make]
        if isinstance(made, Exception):
            try:
                raise made
            finally:
                # The error refers to this frame; if the frame referred back, a body that was refused would wait for a
                # collection.
                del made
        return cast(Made, made)

    def clear(self) -> None:
        """Clear the results of `once`: an error refers back to the request, and both would wait for garbage collection."""
        self._made.clear()


async def _read(request: Request) -> bytes:
    return request.sent if isinstance(request.sent, bytes) else await request.sent()


def texts_of(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Return headers of ASGI by name in lower case; of a repeated one, the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed([*headers])}


async def sent_request(request: Request) -> SentRequest:
    """Decode the request, but not its runs. Raises what is wrong with its body as a whole.

    Call it by `Request.once`.
    """
    if not request.is_json:
        raise UnsupportedMediaType
    return opened(request, await request.body())


def opened(request: Request, body: bytes) -> SentRequest:
    """Do the same with a body that has arrived."""
    if not request.is_json:
        raise UnsupportedMediaType
    encoding = request.content_encoding
    if encoding in {"gzip", "x-gzip"}:
        body = inflate(body, request.services.settings.max_body_bytes)
    elif encoding != "identity":
        raise UnsupportedMediaType("Send the body plain, or with Content-Encoding: gzip.")
    return read_envelope(body)
