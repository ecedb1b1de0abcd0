"""What guards the pages: forms from other sites, and the rules for who may open what."""

from quart import request

import api
from api.access import AccessRule, access
from api.auth import DEVELOPER
from api.current import services
from api.request import Request
from runtally.access import embeds
from runtally.access.scopes import Permission, Scope, demand
from runtally.audit import Actor
from runtally.errors import Forbidden, NotFound, RuntallyError
from webapp import sessions
from webapp.links import host_of, project_asked_for

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class SignInRequired(RuntallyError):
    """Nobody is signed in; pages answer with the sign-in page."""

    code = "sign_in_required"
    message = "Sign in to see this page."


class ForeignForm(Forbidden):
    """Another site made a browser send it, in the name of whoever is signed in."""

    code = "foreign_form"
    message = "It came from another site, so nothing was changed. Open the page here and send it again."


async def refuse_foreign_forms() -> None:
    """Refuses what another site makes a browser send. Every browser of today says where a request comes from.

    Requests without a browser send neither header and carry no cookie worth abusing; the API takes keys, not cookies.
    Raises `ForeignForm`.
    """
    if request.method in _SAFE_METHODS or api.serves(request.path):
        return
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    # A page that tells nobody where it is, as that of an invitation, has its own forms sent with this.
    is_hidden = origin == "null" and site is not None
    if site not in {None, "same-origin", "none"} or not (origin is None or is_hidden or _is_own(origin)):
        raise ForeignForm


def _is_own(origin: str) -> bool:
    """Whether it is where the browser, or `PUBLIC_URL`, says that this server is."""
    own = {request.host, host_of(services().settings.public_url or "")}
    return host_of(origin).lower() in {host.lower() for host in own if host}


async def _signed_in_actor(_: Request) -> Actor:
    if services().settings.service_dev_mode:
        return DEVELOPER
    actor = await sessions.holder()
    if actor is None:
        raise SignInRequired
    return actor


def _rule(name: str, permission: Scope | Permission, *, of_project: bool) -> AccessRule:
    async def identify(incoming: Request) -> Actor:
        # Known before it is refused, because the error page has a frame too.
        incoming.actor = actor = await _signed_in_actor(incoming)
        demand(actor, permission, (request.view_args or {})["project_id"] if of_project else None)
        return actor

    return AccessRule(name, identify)


async def _chart_viewer(incoming: Request) -> Actor:
    """Whoever is signed in, or has the token of the project in the query. Raises `NotFound` for any other token."""
    token, project_id = request.args.get("token"), project_asked_for(request.args)
    if token is None:
        return await _signed_in_actor(incoming)
    async with services().database.connection() as connection:
        actor = await embeds.holder(connection, project_id, token) if project_id is not None else None
    if actor is None:
        raise NotFound("This picture is shown no more; ask for a new address of it.")
    return actor


chart_viewer = access(AccessRule("chart viewer", _chart_viewer))
"""For pictures that may be shown elsewhere; what they may show is asked by `runtally.access.scopes.demand`."""

signed_in = access(AccessRule("signed in", _signed_in_actor))
"""For pages: someone must be signed in; what they may see is asked by `runtally.access.scopes.demand`."""

project_editor = access(_rule("project editor", Permission.EDIT_PROJECT, of_project=True))
"""For pages that change the project of their path."""

admin = access(_rule("admin", Scope.ADMIN, of_project=False))
"""For pages about the installation, and for what cannot be undone."""
