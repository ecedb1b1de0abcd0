"""The guides: a list of them, and a page for each."""

import asyncio
from typing import ClassVar

from quart import Blueprint
from quart.typing import ResponseReturnValue

from runtally.errors import NotFound
from webapp import guides
from webapp.guides import GROUPS, NAMES, Guide, titles
from webapp.rendering import Page, render
from webapp.security import open_to_all

blueprint = Blueprint("guides", __name__)


class GuidesPage(Page, frozen=True):
    """One guide next to the list of all, or the list alone."""

    fragment: ClassVar[str] = "site/_guides.html"

    groups: dict[str, tuple[str, ...]]
    titles: dict[str, str]
    guide: Guide | None = None

    @property
    def document_title(self) -> str:
        return self.guide.title if self.guide else "Guides"


@blueprint.get("/guides")
@open_to_all
async def index() -> ResponseReturnValue:
    """The list of guides."""
    return await render(GuidesPage(GROUPS, titles()))


@blueprint.get("/guides/<name>")
@open_to_all
async def show(name: str) -> ResponseReturnValue:
    """A guide, as the documentation of this version has it."""
    if name not in NAMES:
        raise NotFound("No guide is at this address.")
    # The longest takes as long as a hundred requests, once.
    guide = await asyncio.to_thread(guides.read, name)
    return await render(GuidesPage(GROUPS, titles(), guide))
