"""Sign in with OpenID Connect: redirect to the provider, and handle its answer."""

from quart import Blueprint, request, session, url_for
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import incoming, services
from api.limits import wrong_keys_limited
from runtally.access import identities
from runtally.access.openid import Attempt, OpenIdProvider, Person, ProviderUnavailable, SignInFailed
from runtally.errors import InvalidCredentials, NotFound, RateLimited
from runtally.settings import OpenIdSettings
from webapp import sessions
from webapp.addresses import safe_path, url_of
from webapp.form import Form
from webapp.pages.account.sign_in import refused
from webapp.rendering import see_other

blueprint = Blueprint("sign_in_openid", __name__)

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
    await sessions.begin_as(user)


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
    return url_of(url_for("sign_in_openid.back"))
