"""Signing in with a key, and out."""

from dataclasses import dataclass
from typing import ClassVar

from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.access import public
from runtally.errors import InvalidKey
from webapp import security
from webapp.links import safe_path
from webapp.rendering import Page, render, see_other

NO_KEY = "Enter a key."

blueprint = Blueprint("sign_in", __name__)


@dataclass(frozen=True, slots=True)
class SignInPage(Page):
    """A form that takes a key; `error` is what was wrong with the last one."""

    template: ClassVar[str] = "sign_in/show.html"
    fragment: ClassVar[str] = "sign_in/_sign_in.html"

    next: str
    error: str | None = None

    @property
    def document_title(self) -> str:
        return "Sign in"


@blueprint.get("/sign-in")
@public
async def sign_in() -> ResponseReturnValue:
    """The form."""
    return await render(SignInPage(safe_path(request.args.get("next"))))


@blueprint.post("/sign-in")
@public
async def post_sign_in() -> ResponseReturnValue:
    """Sign in and go where one wanted to; a wrong key brings the form back with 422."""
    form = await request.form
    key, target = form.get("key", "").strip(), safe_path(form.get("next"))
    try:
        await security.sign_in(key)
    except InvalidKey as error:
        return await render(SignInPage(target, error.message if key else NO_KEY), 422)
    return see_other(target)


@blueprint.post("/sign-out")
@public
async def sign_out() -> ResponseReturnValue:
    """Sign out, wherever one was."""
    security.sign_out()
    response = see_other(url_for("sign_in.sign_in"))
    # Pages that the browser keeps for Back show costs.
    response.headers["Clear-Site-Data"] = '"cache"'
    return response
