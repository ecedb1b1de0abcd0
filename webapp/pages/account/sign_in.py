"""Sign in with a password or a key, and sign out."""

from contextlib import suppress
from typing import ClassVar

from msgspec import field
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import services
from runtally.access import users
from runtally.errors import Detail, InvalidKey, PasswordsBusy, RateLimited, StoreUnavailable
from webapp import sessions
from webapp.addresses import safe_path
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
