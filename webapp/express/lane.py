"""The express lanes: what is asked for most is answered before Quart, and before ASGI: runs, by a client or by the relay, and badges.

Quart's request and response cost more time than decoding, pricing and storing a run do, and a server's side of ASGI half of that.

They decide nothing: each step is a call of what the route's own hooks call, in their order. Whatever is in any way out of the
ordinary, such as a project key, gzip, a run's query, a body in several pieces, goes on to Quart as if it had not been looked at.
"""

from collections.abc import Coroutine
from typing import Any

from api.badge import RULE as BADGE
from webapp.express import badges, posts
from webapp.express.exchange import Answer, Request

_POSTS = frozenset(path.encode() for path in posts.LANES)
_BADGES = badges.PREFIX.encode()


def may_take(method: bytes, target: bytes) -> bool:
    """Whether a request is worth looking at, from its first line."""
    return target in _POSTS if method == b"POST" else method == b"GET" and target.startswith(_BADGES)


def take(request: Request) -> Coroutine[Any, Any, Answer] | None:
    """The answer to a request that may be taken; None if it must go to Quart."""
    if request.is_foreign:
        return None
    return posts.take(request) if request.method == b"POST" else badges.show(request)


def route_of(request: Request) -> str:
    """The pattern of its route: there is nothing variable in the paths of posts."""
    return request.path if request.method == b"POST" else BADGE
