"""Who may call a route. Each view declares it; one hook, run before any limit or view, enforces it.

A view that declares nothing is refused: forgetting is not opening.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from quart import current_app, g, request

from runtally.audit import ANYONE, Actor
from runtally.errors import Forbidden

_ATTRIBUTE = "__access_rule__"

View = TypeVar("View", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class AccessRule:
    """How a view's caller is identified: answers an actor, or raises what is wrong with the credentials."""

    name: str
    identify: Callable[[], Awaitable[Actor]]


def access(rule: AccessRule) -> Callable[[View], View]:
    """Declare a view's rule; below the route decorator."""

    def declared(view: View) -> View:
        setattr(view, _ATTRIBUTE, rule)
        return view

    return declared


def rule_of(endpoint: str | None) -> AccessRule | None:
    """The rule that the view of this endpoint declares."""
    return declared_rule(current_app.view_functions.get(endpoint or ""))


def declared_rule(view: object) -> AccessRule | None:
    return cast(AccessRule | None, getattr(view, _ATTRIBUTE, None))


async def enforce_access() -> None:
    """The hook. Unknown paths pass: their 404 tells nothing. Static files have no secrets."""
    if request.endpoint is None or request.endpoint == "static":
        return
    rule = rule_of(request.endpoint)
    if rule is None:
        raise Forbidden
    g.actor = await rule.identify()


async def _anyone() -> Actor:
    return ANYONE


public = access(AccessRule("public", _anyone))
"""For views that show nothing that is not public."""
