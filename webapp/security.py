"""Protect the pages: refuse cross-site forms, and enforce who may open what."""

from contextlib import suppress

from quart import request

import api
from api.access import AccessRule, access
from api.auth import DEVELOPER
from api.current import incoming, services
from api.request import Request
from runtally.access import embeds
from runtally.access.scopes import Permission, Scope, demand
from runtally.audit import ANYONE, Actor
from runtally.errors import Forbidden, MissingKey, NotFound, StoreUnavailable
from webapp import sessions
from webapp.addresses import host_of, requested_project

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class SignInRequired(MissingKey):
    """No user is signed in; pages answer with the sign-in page, and forms say where it is."""

    code = "sign_in_required"
    message = "You are not signed in any more. Sign in in another tab, then send it again from here."


class CrossSiteForm(Forbidden):
    """Another site made a browser send this form in the name of its user."""

    code = "foreign_form"
    message = "It came from another site, so nothing was changed. Open the page here and send it again."


async def check_csrf() -> None:
    """Refuse requests that another site makes a browser send; all current browsers report their origin.

    Requests without a browser send neither header and carry no cookie worth abusing; the API takes keys, not cookies, but
    nothing in dev mode. Raises `CrossSiteForm`.
    """
    takes_keys = api.serves(request.path) and not services().settings.service_dev_mode
    if request.method in _SAFE_METHODS or takes_keys:
        return
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    # A page that hides its address, such as an invitation, sends its own forms with this origin.
    is_hidden = origin == "null" and site is not None
    if site not in {None, "same-origin", "none"} or not (origin is None or is_hidden or _is_own(origin)):
        raise CrossSiteForm


def _is_own(origin: str) -> bool:
    """Return whether the origin is this server, by the Host header or by `PUBLIC_URL`."""
    own = {request.host, host_of(services().settings.public_url or "")}
    return host_of(origin).lower() in {host.lower() for host in own if host}


async def _signed_in_actor(_: Request) -> Actor:
    if services().settings.service_dev_mode:
        return DEVELOPER
    actor = await sessions.holder()
    if actor is None:
        raise SignInRequired
    return actor


async def recognise() -> None:
    """Set the actor of a request that no rule has looked at, for the frame of its error page."""
    incoming().actor = await _anyone(incoming())


async def _anyone(incoming: Request) -> Actor:
    """Return who is signed in, or anyone: without the database too, so that the guides are there when they are needed."""
    with suppress(SignInRequired, StoreUnavailable):
        return await _signed_in_actor(incoming)
    return ANYONE


def _rule(name: str, permission: Scope | Permission, *, of_project: bool) -> AccessRule:
    async def identify(incoming: Request) -> Actor:
        # The actor is set before it is refused, because the error page has a frame too.
        incoming.actor = actor = await _signed_in_actor(incoming)
        demand(actor, permission, (request.view_args or {})["project_id"] if of_project else None)
        return actor

    return AccessRule(name, identify)


async def _chart_viewer(incoming: Request) -> Actor:
    """Return the signed-in actor, or one for the token of the project in the query.

    Raises `NotFound` for any other token.
    """
    token, project_id = request.args.get("token"), requested_project(request.args)
    if token is None:
        return await _signed_in_actor(incoming)
    actor = None
    if project_id is not None:
        async with services().cells.for_project(project_id).database.connection() as connection:
            actor = await embeds.holder(connection, project_id, token)
    if actor is None:
        raise NotFound("This picture is shown no more; ask for a new address of it.")
    return actor


chart_viewer = access(AccessRule("chart viewer", _chart_viewer))
"""The rule of pictures that may be embedded elsewhere; `runtally.access.scopes.demand` limits what they show."""

open_to_all = access(AccessRule("public", _anyone))
"""The rule of public pages that keep the navigation of who is signed in."""

signed_in = access(AccessRule("signed in", _signed_in_actor))
"""The rule of pages for signed-in users; `runtally.access.scopes.demand` limits what they show."""

project_editor = access(_rule("project editor", Permission.EDIT_PROJECT, of_project=True))
"""The rule of pages that change the project in their path."""

admin = access(_rule("admin", Scope.ADMIN, of_project=False))
"""The rule of pages about the installation, and of changes that cannot be undone."""
