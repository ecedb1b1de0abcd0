"""Set the colour theme: light, dark, or that of the device."""

from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.access import public
from webapp.addresses import safe_path
from webapp.rendering import THEME_COOKIE, Page, Theme, done, keep

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
    keep(response, THEME_COOKIE, chosen)
    return response
