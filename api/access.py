"""The access rules of routes. Each view declares one; a hook enforces it before any limit or view.

A view without a rule is refused, so that a forgotten rule opens nothing. An endpoint enforces its rule itself.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from quart import current_app, request

from api.cells import choose_own_cell
from api.current import incoming
from api.request import Request
from runtally.access.scopes import NameMask
from runtally.audit import ANYONE, Actor
from runtally.db import turns
from runtally.errors import Forbidden
from runtally.usage import masking

_ATTRIBUTE = "__access_rule__"
_ENFORCED = "__access_enforced__"

View = TypeVar("View", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Identifies the caller of a view: returns an actor, or raises what is wrong with the credentials."""

    name: str
    identify: Callable[[Request], Awaitable[Actor]]


def access(rule: AccessRule) -> Callable[[View], View]:
    """Declare a view's rule; place it below the route decorator."""

    def declared(view: View) -> View:
        setattr(view, _ATTRIBUTE, rule)
        return view

    return declared


def rule_of(endpoint: str | None) -> AccessRule | None:
    """Return the rule of the view of this Quart endpoint."""
    return declared_rule(current_app.view_functions.get(endpoint or ""))


def declared_rule(view: object) -> AccessRule | None:
    return cast(AccessRule | None, getattr(view, _ATTRIBUTE, None))


def enforces_access(view: View) -> View:
    """Exclude this view from the hook, because it applies its rule itself."""
    setattr(view, _ENFORCED, True)
    return view


async def enforce_access() -> None:
    """Enforce the rule of the view. Unknown paths pass, since their 404 reveals nothing; static files have no secrets."""
    if request.endpoint is None or request.endpoint == "static":
        return
    rule = rule_of(request.endpoint)
    if rule is None:
        raise Forbidden
    if not hasattr(current_app.view_functions[request.endpoint], _ENFORCED):
        incoming().actor = actor = await rule.identify(incoming())
        await choose_own_cell(incoming())
        masking.use(NameMask(incoming().services.names, actor))
        turns.use(actor.reader)


async def _anyone(_: Request) -> Actor:
    return ANYONE


public = access(AccessRule("public", _anyone))
"""The rule of views that show only public data."""
