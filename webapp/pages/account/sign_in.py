"""Sign in with a password, a key or OpenID Connect, and sign out."""

from contextlib import suppress
from typing import ClassVar

from msgspec import field
from quart import Blueprint, Response, request, session, url_for
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import incoming, services
from api.limits import wrong_keys_limited
from runtally.access import identities, users
from runtally.access.openid import Attempt, OpenIdProvider, Person, ProviderUnavailable, SignInFailed
from runtally.errors import (
    Detail,
    InvalidCredentials,
    InvalidKey,
    NotFound,
    PasswordsBusy,
    RateLimited,
    StoreUnavailable,
)
from runtally.settings import OpenIdSettings
from webapp import sessions
from webapp.addresses import safe_path, url_of
from webapp.form import Form, sent_form
from webapp.rendering import Page, render, render_refused, see_other

NO_KEY = InvalidKey("Enter a key.", details=(Detail("key", "Enter a key."),))

blueprint = Blueprint("sign_in", __name__)


class SignInPage(Page, frozen=True):
    """Three ways in: `openid` through the provider, `form` for an address and a password, `key` for a key."""

    fragment: ClassVar[str] = "account/_sign_in.html"
    tab_title: ClassVar[str] = "Sign in"
    has_navigation: ClassVar[bool] = False

    next: str
    has_users: bool
    form: Form = field(default_factory=Form)
    key: Form = field(default_factory=Form)
    openid: Form = field(default_factory=Form)

    @property
    def openid_name(self) -> str | None:
        """The name of the OpenID provider for the button; None without one."""
        provider = services().openid
        return provider.name if provider else None


@blueprint.get("/sign-in")
@public
async def sign_in() -> ResponseReturnValue:
    """The form."""
    return await render(SignInPage(safe_path(request.args.get("next")), await _has_users()))


@blueprint.post("/sign-in")
@public
async def post_sign_in() -> ResponseReturnValue:
    """Sign in and go to the requested page; errors show the form again with 422, or 429 or 503 after too many tries."""
    sent = await sent_form()
    target, by_key = safe_path(sent.value("next")), "key" in sent.values
    try:
        if by_key:
            await _with_key(sent.value("key").strip())
        else:
            await sessions.sign_in_with_password(sent.value("email"), sent.value("password"))
    except (InvalidKey, RateLimited, PasswordsBusy) as error:
        form = sent.refused(error, "key" if by_key else "")
        page = SignInPage(target, await _has_users(), **{"key" if by_key else "form": form})
        return await render_refused(page, error)
    return see_other(target)


@blueprint.post("/sign-out")
@public
async def sign_out() -> ResponseReturnValue:
    """Sign out, wherever one was."""
    await sessions.sign_out()
    response = see_other(url_for("sign_in.sign_in"))
    # Pages that the browser keeps for Back show costs.
    response.headers["Clear-Site-Data"] = '"cache"'
    return response


async def refused(target: str, form: Form, status: int) -> Response:
    """The sign-in page with what went wrong on the way through the provider."""
    return await render(SignInPage(target, await _has_users(), openid=form), status)


async def _with_key(key: str) -> None:
    if not key:
        raise NO_KEY
    await sessions.sign_in_with_key(key)


async def _has_users() -> bool:
    """Return whether any user exists; True while the database is away."""
    with suppress(StoreUnavailable):
        async with services().control.database.session() as database:
            return await users.any_exist(database)
    return True


# Where in the cookie, which is signed, the attempt is while the browser is away.
_ATTEMPT = "openid"


@blueprint.get("/sign-in/openid")
@public
async def start() -> ResponseReturnValue:
    """Redirect to the provider; from there the user returns to the page that they wanted."""
    sessions.demand_secret()
    provider, attempt, target = _provider(), Attempt.new(), safe_path(request.args.get("next"))
    try:
        url = await provider.start(_redirect_uri(), attempt)
    except ProviderUnavailable as error:
        return await refused(target, Form().refused(error), 503)
    session[_ATTEMPT] = {"state": attempt.state, "nonce": attempt.nonce, "verifier": attempt.verifier, "next": target}
    return see_other(url)


@blueprint.get("/sign-in/openid/back")
@public
async def back() -> ResponseReturnValue:
    """Back from the provider: signed in, or at the sign-in page with what is wrong."""
    # An attempt is used once, whatever its result.
    kept = session.pop(_ATTEMPT, None)
    target = safe_path(kept["next"]) if kept else url_for("overview.overview")
    try:
        if kept is None:
            raise SignInFailed
        async with wrong_keys_limited(incoming()):
            person = await _provider().finish(
                _redirect_uri(), Attempt(kept["state"], kept["nonce"], kept["verifier"]), request.args
            )
            await _enter(person)
    except RateLimited as error:
        return await refused(target, Form().refused(error), 429)
    except InvalidCredentials as error:
        return await refused(target, Form().refused(error), 422)
    except ProviderUnavailable as error:
        return await refused(target, Form().refused(error), 503)
    return see_other(target)


async def _enter(person: Person) -> None:
    role = _settings().role
    async with services().granting(role[1] if role else None) as (cell, database):
        user = await identities.signed_in(database, cell, services().clock(), person, _settings())
    await sessions.begin_as(user, _settings().session_lifetime)


def _provider() -> OpenIdProvider:
    """Return the provider. Raises `NotFound` if there is none."""
    provider = services().openid
    if provider is None:
        raise NotFound
    return provider


def _settings() -> OpenIdSettings:
    settings = services().settings.openid
    if settings is None:
        raise NotFound
    return settings


def _redirect_uri() -> str:
    return url_of(url_for("sign_in.back"))
