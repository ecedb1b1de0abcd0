"""Set the colour theme: light, dark, or that of the device."""

from datetime import timedelta
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.access import public
from webapp.addresses import cookie_path, cookies_are_secure, safe_path
from webapp.rendering import THEME_COOKIE, Page, Theme, done

KEPT_FOR = timedelta(days=365)

blueprint = Blueprint("appearance", __name__)


class ThemeButton(Page, frozen=True):
    """The button after it was pressed."""

    template: ClassVar[str] = "site/_theme.html"
    fragment: ClassVar[str] = "site/_theme.html"

    theme: Theme
    here: str


@blueprint.post("/theme")
@public
async def theme() -> ResponseReturnValue:
    """Keep the theme in a cookie, so that pages come in it from their first byte."""
    form = await request.form
    chosen, here = Theme.parse(form.get("theme")), safe_path(form.get("here"))
    response = await done(ThemeButton(chosen, here), else_to=here)
    response.set_cookie(
        THEME_COOKIE,
        chosen,
        max_age=KEPT_FOR,
        path=cookie_path(),
        httponly=True,
        secure=cookies_are_secure(),
        samesite="Lax",
    )
    return response
