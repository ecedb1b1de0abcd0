"""The badge of an experiment: its style, its snippets, and who may see it."""

from collections.abc import Mapping
from enum import StrEnum
from html import escape
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from msgspec import Struct
from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.badge import Format
from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.experiments import edit
from runtally.experiments.badge import Style, cleaned
from runtally.experiments.read import verdict_on
from runtally.experiments.verdict import Measured
from webapp.addresses import server_url, url_of
from webapp.rendering import Page, render, see_other, wants_part
from webapp.security import project_editor, signed_in
from webapp.view import choice

blueprint = Blueprint("badges", __name__)

SHIELDS = "https://img.shields.io/endpoint"
SUFFIXES = tuple(f".{format_}" for format_ in (Format.SVG, Format.JSON))
STYLE_NAMES = {Style.FLAT: "Flat", Style.FLAT_SQUARE: "Flat, square", Style.FOR_THE_BADGE: "For the badge"}


class Markup(StrEnum):
    """The formats in which a badge can be copied."""

    MARKDOWN = "markdown"
    HTML = "html"
    RST = "rst"
    ASCIIDOC = "asciidoc"
    JSON = "json"
    SHIELDS = "shields"


MARKUP_NAMES = {
    Markup.MARKDOWN: "Markdown",
    Markup.HTML: "HTML",
    Markup.RST: "reStructuredText",
    Markup.ASCIIDOC: "AsciiDoc",
    Markup.JSON: "JSON URL",
    Markup.SHIELDS: "Shields endpoint",
}


class Look(Struct, frozen=True):
    """The options of the panel, which are in the URL, so that a look can be linked to."""

    style: Style = Style.FLAT
    label: str | None = None
    markup: Markup = Markup.MARKDOWN

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Look":
        label = query.get("label")
        return cls(Style.parse(query.get("style")), label, choice(Markup, query.get("as"), Markup.MARKDOWN))

    def query(self, markup: Markup) -> dict[str, Any]:
        """The options that differ from the defaults."""
        found = {"style": self.style.value} if self.style is not Style.FLAT else {}
        if self.label is not None:
            found["label"] = self.label
        return found | ({"as": markup.value} if markup is not Markup.MARKDOWN else {})


class BadgePanel(Struct, frozen=True):
    """The panel: the badge of an experiment with this look, to be copied in one of the formats."""

    experiment: Measured
    look: Look
    label: str
    image_url: str
    snippet: str
    styles: ClassVar[Mapping[Style, str]] = STYLE_NAMES
    names: ClassVar[Mapping[Markup, str]] = MARKUP_NAMES

    @property
    def preview_url(self) -> str:
        """A browser keeps a badge for a minute, but the page has just computed its verdict."""
        return f"{self.image_url.removeprefix(url_of(''))}&at={int(services().clock().timestamp())}"

    @property
    def markups(self) -> list[Markup]:
        """The formats; the endpoint for shields.io has the id at its end, where a suffix would be the answer's format."""
        return [one for one in Markup if one is not Markup.SHIELDS or not self.experiment.id.endswith(SUFFIXES)]


class BadgePage(Page, frozen=True):
    """The panel of a badge alone, for changes of its options."""

    template: ClassVar[str] = "experiments/_badge_panel.html"
    fragment: ClassVar[str] = "experiments/_badge_panel.html"

    badge: BadgePanel


@blueprint.get("/experiments/<segment:project_id>/<segment:experiment_id>/badge")
@signed_in
async def panel(project_id: str, experiment_id: str) -> ResponseReturnValue:
    """The badge panel with the options of the query; the page around it takes their address, and is where else it leads."""
    demand(actor(), Scope.METRICS_READ, project_id)
    async with services().cells.for_project(project_id).database.snapshot() as connection:
        experiment = await verdict_on(
            connection, services().clock(), project_id, experiment_id, services().cells.for_project(project_id).memo
        )
    badge = badge_panel(experiment)
    page_url = _page_url(project_id, experiment_id, badge.look)
    if not wants_part():
        return see_other(page_url)
    response = await render(BadgePage(badge))
    response.headers["HX-Replace-Url"] = page_url
    return response


@blueprint.post("/experiments/<segment:project_id>/<segment:experiment_id>/badge")
@project_editor
async def change(project_id: str, experiment_id: str) -> ResponseReturnValue:
    """Make the badge private, with a token that no URL had before, or public."""
    is_private = (await request.form).get("visibility") == "private"
    async with services().cells.for_project(project_id).database.session() as session:
        experiment = await edit.get(session, project_id, experiment_id)
        was_private = experiment.badge_token is not None
        if is_private:
            edit.make_private(session, actor(), experiment)
        else:
            edit.make_public(session, actor(), experiment)
    said = "The badge is now public; its URL needs no token."
    if is_private:
        said = (
            "The badge has a new token; copy it again." if was_private else "The badge is now private; copy it again."
        )
    return see_other(_page_url(project_id, experiment_id, Look()), said)


def badge_panel(experiment: Measured) -> BadgePanel:
    """The panel, with the options of this request's query."""
    look = Look.parse(request.args)
    label = experiment.id if look.label is None else cleaned(look.label)
    options = {"style": look.style.value} if look.style is not Style.FLAT else {}
    if label != experiment.id:
        options["label"] = label
    image = badge_url(experiment, ".svg", **options)
    return BadgePanel(
        experiment, look, label, image, _snippet(look.markup, experiment, image, label or experiment.id, options)
    )


def badge_url(experiment: Measured, suffix: str = "", **query: str) -> str:
    """Absolute, because it is put elsewhere; with the project, so that no other project ever makes it ambiguous."""
    known = {"project": experiment.project_id}
    if experiment.badge_token:
        known["token"] = experiment.badge_token
    # Everything is escaped that ends a link in any of the markups.
    path = quote(f"/api/badge/experiment/{experiment.id}{suffix}", safe="/")
    return f"{server_url()}{path}?{urlencode(known | query, quote_via=quote)}"


def _snippet(markup: Markup, experiment: Measured, image: str, alt: str, options: Mapping[str, str]) -> str:
    plain = " ".join(alt.split())
    match markup:
        case Markup.MARKDOWN:
            return f"![{_escaped(plain, '[]')}]({image})"
        case Markup.HTML:
            return f'<img src="{escape(image)}" alt="{escape(plain)}">'
        case Markup.RST:
            return f".. image:: {image}\n   :alt: {plain}"
        case Markup.ASCIIDOC:
            return f'image:{image}["{_escaped(plain, chr(34))}"]'
        case Markup.JSON:
            return badge_url(experiment, ".json")
        case Markup.SHIELDS:
            label = {"label": options["label"]} if "label" in options else {}
            endpoint: dict[str, Any] = {"url": badge_url(experiment, format=Format.SHIELDS.value, **label)}
            return f"{SHIELDS}?{urlencode(endpoint, quote_via=quote, safe='')}"


def _escaped(text: str, characters: str) -> str:
    return "".join(f"\\{character}" if character in f"{characters}\\" else character for character in text)


def _page_url(project_id: str, experiment_id: str, look: Look) -> str:
    query = look.query(look.markup)
    url = url_for("experiment.experiment", project_id=project_id, experiment_id=experiment_id, **query)
    return f"{url}#badge-panel"
