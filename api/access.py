"""Who may call a route. Each view declares it; one hook, run before any limit or view, enforces it.

A view that declares nothing is refused: forgetting is not opening. An endpoint enforces its rule itself.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from quart import current_app, request

from api.current import incoming
from api.request import Request
from runtally.audit import ANYONE, Actor
from runtally.errors import Forbidden

_ATTRIBUTE = "__access_rule__"
_ENFORCED = "__access_enforced__"

View = TypeVar("View", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class AccessRule:
    """How a view's caller is identified: answers an actor, or raises what is wrong with the credentials."""

    name: str
    identify: Callable[[Request], Awaitable[Actor]]


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


def enforces_access(view: View) -> View:
    """Leave this view out of the hook, because it identifies its callers by its rule itself."""
    setattr(view, _ENFORCED, True)
    return view


async def enforce_access() -> None:
    """The hook. Unknown paths pass: their 404 tells nothing. Static files have no secrets."""
    if request.endpoint is None or request.endpoint == "static":
        return
    rule = rule_of(request.endpoint)
    if rule is None:
        raise Forbidden
    if not hasattr(current_app.view_functions[request.endpoint], _ENFORCED):
        incoming().actor = await rule.identify(incoming())


async def _anyone(_: Request) -> Actor:
    return ANYONE


public = access(AccessRule("public", _anyone))
"""For views that show nothing that is not public."""
