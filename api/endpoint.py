"""A route without a framework: from the headers, body and address of a request to its whole answer.

The steps of such a request stand here once, in their order. A Quart view calls it, and so does `webapp.server.fast_path`
without Quart, which costs more than all the work of most of these requests.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import Concatenate, ParamSpec, cast

from quart import Response
from quart_rate_limiter import rate_exempt

from api.access import AccessRule, declared_rule, enforces_access
from api.cells import choose_cell, choose_own_cell
from api.current import incoming
from api.errors import refusal
from api.limits import Limit, count, declared_limits, limit_headers
from api.reply import Reply, gzipped, takes_gzip
from api.request import Request
from runtally.access.scopes import NameMask
from runtally.db import turns
from runtally.errors import Forbidden
from runtally.usage import masking
from runtally.waiter import Waiter

_ATTRIBUTE = "__endpoint__"

Path = ParamSpec("Path")
AtOnce = Callable[[Request, Waiter[Reply]], bool]
Answering = Callable[Concatenate[Request, Path], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route's access rule, its limits, and the function that answers."""

    rule: AccessRule | None
    limits: Sequence[Limit]
    answer: Callable[..., Awaitable[Reply]]
    at_once: AtOnce | None
    """Begins to answer without a task, in the same steps, and returns whether it did; if not, call the endpoint."""

    async def __call__(self, request: Request, **path: str) -> Reply:
        """Answer a request, or its error; `path` has the variable parts of the path."""
        try:
            reply = await self._answered(request, path)
        except Exception as error:  # noqa: BLE001  # Where Quart is asked, its handler of errors does the same.
            reply = refusal(error)
        finally:
            request.clear()
        return completed(reply, request)

    async def _answered(self, request: Request, path: dict[str, str]) -> Reply:
        if self.rule is None:
            raise Forbidden
        has_several = request.services.cells.directory is not None
        if has_several:
            await choose_cell(request, path)
        request.actor = await self.rule.identify(request)
        if has_several:
            await choose_own_cell(request)
        masking.use(NameMask(request.services.names, request.actor))
        turns.use(request.actor.reader)
        await count(request, self.limits)
        return await self.answer(request, **path)


def completed(reply: Reply, request: Request) -> Reply:
    """Return the reply with the headers of the limit, packed if the client takes that."""
    if request.decision is not None:
        reply.headers.update(limit_headers(request.decision))
    if "Content-Encoding" in reply.headers or not takes_gzip(request.headers.get("accept-encoding")):
        return reply
    packed = gzipped(reply.body)
    return reply if packed is None else Reply(packed, reply.status, {**reply.headers, "Content-Encoding": "gzip"})


def endpoint(answer: Answering[Path], at_once: AtOnce | None = None) -> Callable[Path, Awaitable[Response]]:
    """Make a Quart view of an endpoint's function; place it above the declarations of the function."""
    made = Endpoint(declared_rule(answer), declared_limits(answer), answer, at_once)

    @wraps(answer)
    async def view(*_: Path.args, **path: Path.kwargs) -> Response:
        reply = await made(incoming(), **cast(dict[str, str], path))
        response = Response(*reply)
        if reply.status == HTTPStatus.NOT_MODIFIED:
            # Quart sets the length of the body that HEAD leaves out.
            del response.headers["Content-Length"]
        return response

    setattr(view, _ATTRIBUTE, made)
    return rate_exempt(enforces_access(view))


def endpoint_of(view: object) -> Endpoint | None:
    """Return the endpoint that this view calls."""
    return cast(Endpoint | None, getattr(view, _ATTRIBUTE, None))
