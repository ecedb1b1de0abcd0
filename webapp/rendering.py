"""A typed page object to HTML: the whole page, or its main fragment when htmx asks for that."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from markupsafe import Markup
from quart import Response, request

from api.current import actor, services
from runtally.audit import Actor, ActorKind
from webapp.templating import templates

THEME_COOKIE = "theme"
# Two forms of one URL: caches are told what tells them apart.
VARY = ("HX-Request", "HX-Request-Type", "Cookie")


class Theme(StrEnum):
    """How pages look; the button goes through them in this order."""

    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"

    @classmethod
    def parse(cls, text: str | None) -> "Theme":
        return cls(text) if text in set(cls) else cls.AUTO

    @property
    def next(self) -> "Theme":
        themes = list(Theme)
        return themes[(themes.index(self) + 1) % len(themes)]


@dataclass(frozen=True, slots=True)
class Page:
    """What a template may read; every page is a subclass with its own fields."""

    template: ClassVar[str]
    fragment: ClassVar[str]
    """The part that a change of range or filter swaps."""

    @property
    def document_title(self) -> str | None:
        """What the browser's tab says; None for a part that leaves it as it is."""
        return None


@dataclass(frozen=True, slots=True)
class Shell:
    """What the frame around every page shows."""

    actor: Actor
    is_dev_mode: bool
    theme: Theme
    path: str
    here: str
    """The path with its query."""

    @property
    def is_signed_in(self) -> bool:
        return self.actor.kind is ActorKind.KEY


def wants_part() -> bool:
    """Whether htmx asks for a part, to swap it in; what restores history is whole."""
    return request.headers.get("HX-Request-Type") == "partial" and "HX-History-Restore-Request" not in request.headers


async def render(page: Page, status: int = 200) -> Response:
    """The page, or its fragment when htmx wants a part; a fragment brings the tab's title along."""
    name = page.fragment if wants_part() else page.template
    html = templates.get_template(name).render(page=page, shell=_shell())
    if wants_part() and page.document_title is not None:
        html = Markup("<title>{}</title>\n").format(page.document_title) + Markup(html)  # noqa: S704  # Jinja escaped it.
    response = Response(html, status)
    response.vary.update(VARY)
    # Kept for Back, but never shown as new: the figures change with every run.
    response.headers["Cache-Control"] = "private, no-cache"
    return response


async def done(fragment: Page, else_to: str) -> Response:
    """The answer to a form: what it changed, when htmx sent it; else on to a page, so that a reload sends nothing."""
    if wants_part():
        return await render(fragment)
    return see_other(else_to)


def see_other(url: str) -> Response:
    """On to a page, by GET whatever the request was."""
    return Response(status=303, headers={"Location": url})


def nothing_new() -> Response:
    """Tells htmx to leave everything as it is."""
    return Response(status=204, headers={"Vary": ", ".join(VARY), "Cache-Control": "no-store"})


def _shell() -> Shell:
    theme = Theme.parse(request.cookies.get(THEME_COOKIE))
    return Shell(actor(), services().settings.service_dev_mode, theme, request.path, request.full_path.rstrip("?"))
