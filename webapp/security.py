"""What guards the pages: response headers, forms from other sites, sessions, and who is signed in.

Signing in is by key: a project key opens its project, an admin key opens all. The session holds the id of the key and
nothing else, and the key is looked at again on every request, so that revoking it signs out.
"""

from datetime import timedelta
from urllib.parse import urlsplit

from quart import Quart, Response, current_app, request, session
from quart.sessions import SecureCookieSessionInterface

from api.access import AccessRule, access
from api.auth import DEVELOPER
from api.current import services
from api.limits import wrong_keys_limited
from runtally.access.keys import still_valid, verify
from runtally.audit import Actor
from runtally.errors import Forbidden, InvalidKey, NotConfigured, RuntallyError
from runtally.settings import Settings

IDLE_LIFETIME = timedelta(hours=12)
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_KEY_ID = "key_id"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class SignInRequired(RuntallyError):
    """Nobody is signed in; pages answer with the sign-in page."""

    code = "sign_in_required"
    message = "Sign in to see this page."


class _Sessions(SecureCookieSessionInterface):
    def get_cookie_secure(self, app: Quart) -> bool:  # noqa: ARG002  # The signature is Quart's.
        """Secure wherever there is TLS; a server without it, on a laptop, must still let one sign in."""
        return request.is_secure


def set_up_sessions(app: Quart, settings: Settings) -> None:
    app.session_interface = _Sessions()
    app.secret_key = settings.secret_key.get_secret_value() if settings.secret_key else None
    app.permanent_session_lifetime = IDLE_LIFETIME
    app.config["SESSION_COOKIE_NAME"] = "runtally_session"
    app.config["SESSION_COOKIE_SAMESITE"] = "Lax"


async def add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if request.is_secure:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    return response


async def refuse_foreign_forms() -> None:
    """Refuses what another site makes a browser send. Every browser of today says where a request comes from.

    Requests without a browser send neither header and carry no cookie worth abusing; the API takes keys, not cookies.
    Raises `Forbidden`.
    """
    if request.method in _SAFE_METHODS or request.path.startswith("/api/"):
        return
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    foreign = site not in {"same-origin", "none"} if site else bool(origin) and urlsplit(origin).netloc != request.host
    if foreign:
        raise Forbidden("This form came from another site; open the page here and send it again.")


async def sign_in(key: str) -> None:
    """Keep the holder of this key signed in. Raises `InvalidKey`, `RateLimited`, and `NotConfigured` without SECRET_KEY."""
    if not current_app.secret_key:
        raise NotConfigured("The server has no SECRET_KEY, so nobody can sign in; ask its operator to set it.")
    async with wrong_keys_limited(), services().database.session() as database:
        actor = await verify(database, services().clock(), key)
    session.clear()
    session.permanent = True
    session[_KEY_ID] = actor.name


def sign_out() -> None:
    session.clear()


async def _signed_in_actor() -> Actor:
    if services().settings.service_dev_mode:
        return DEVELOPER
    key_id = session.get(_KEY_ID)
    if key_id is None:
        raise SignInRequired
    try:
        async with services().database.session() as database:
            return await still_valid(database, services().clock(), key_id)
    except InvalidKey:
        sign_out()
        raise SignInRequired from None


signed_in = access(AccessRule("signed in", _signed_in_actor))
"""For pages: someone must be signed in; what they may see is asked by `runtally.access.scopes.demand`."""
