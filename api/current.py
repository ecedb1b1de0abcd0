"""The objects of the current request, for views of Quart."""

from typing import Any, cast

from quart import current_app, g, request
from werkzeug.exceptions import RequestEntityTooLarge, RequestTimeout

from api.exchange import current_exchange
from api.request import Request, texts_of
from runtally.audit import ANYONE, Actor
from runtally.errors import BodyTooLarge, BodyTooSlow
from runtally.limits.rate import Decision
from runtally.services import Services

EXTENSION = "runtally"


def services() -> Services:
    return cast(Services, current_app.extensions[EXTENSION])


def incoming() -> Request:
    """Return the request in the form that functions shared with the fast path take."""
    if "incoming" not in g:
        scope = cast(dict[str, Any], request.scope)
        g.incoming = Request(scope, services(), texts_of(scope["headers"]), _body)
    return cast(Request, g.incoming)


async def _body() -> bytes:
    try:
        return cast(bytes, await request.get_data(cache=False))
    except RequestEntityTooLarge:
        raise BodyTooLarge from None
    except RequestTimeout:
        raise BodyTooSlow from None


def decision() -> Decision | None:
    """Return the decision of the rate limit on this request, if it was counted."""
    return incoming().decision if "incoming" in g else None


def actor() -> Actor:
    """Return the actor of this request, once the access hook has identified it; until then anyone."""
    return incoming().actor if "incoming" in g else ANYONE


def request_id() -> str | None:
    exchange = current_exchange()
    return exchange.request_id if exchange else None
