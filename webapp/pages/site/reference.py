"""The API reference as a page, rendered from the OpenAPI document, because existing viewers need inline styles."""

from typing import ClassVar

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.openapi import described
from webapp.addresses import server_url
from webapp.openapi_view import Group, NamedType, Scheme, Text, groups_of, prose, schemes_of, types_of
from webapp.rendering import Page, render
from webapp.security import open_to_all

blueprint = Blueprint("reference", __name__)


class ReferencePage(Page, frozen=True):
    """The API reference: operations, types and authentication."""

    template: ClassVar[str] = "site/reference.html"
    fragment: ClassVar[str] = "site/_reference.html"
    tab_title: ClassVar[str] = "API reference"

    version: str
    introduction: tuple[Text, ...]
    groups: tuple[Group, ...]
    schemes: tuple[Scheme, ...]
    types: tuple[NamedType, ...]


@blueprint.get("/docs")
@open_to_all
async def show() -> ResponseReturnValue:
    """The reference; it shows nothing that /api/openapi.json does not."""
    document = described()
    info = document["info"]
    return await render(
        ReferencePage(
            version=info["version"],
            introduction=prose(info["description"]),
            groups=groups_of(document, server_url()),
            schemes=schemes_of(document),
            types=types_of(document),
        )
    )
