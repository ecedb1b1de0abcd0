"""A typed page object to HTML: the whole page, or its main fragment when htmx asks for that."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar
from urllib.parse import quote, unquote

from markupsafe import Markup
from quart import Response, request

from api.current import actor, services
from api.errors import status_of
from runtally.access.scopes import Permission, Scope, may
from runtally.audit import Actor, ActorKind
from runtally.errors import PasswordsBusy, RateLimited, RuntallyError
from webapp.caching import ASK_FIRST, VARY
from webapp.templating import templates

THEME_COOKIE = "theme"
# What to say on the page that a form leads to.
SAID_COOKIE = "said"
SAID_SECONDS = 60


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
    has_navigation: ClassVar[bool] = True
    """Whether its reader can go anywhere from here."""

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
    said: str | None = None
    """What the form before this page did."""
    can_be_asked_again: bool = True
    """Whether the same request gets the same page, and changes nothing."""

    @property
    def is_signed_in(self) -> bool:
        return self.actor.kind in {ActorKind.KEY, ActorKind.USER}

    @property
    def is_let_in(self) -> bool:
        """Whether there are pages to go to, because of a sign-in or of dev mode."""
        return self.is_signed_in or self.is_dev_mode or self.actor.kind is ActorKind.LINK

    @property
    def has_account(self) -> bool:
        return self.actor.kind is ActorKind.USER

    @property
    def is_admin(self) -> bool:
        return Scope.ADMIN in self.actor.scopes or (self.is_dev_mode and not self.is_signed_in)

    @property
    def came_by_link(self) -> bool:
        """Whether there is one project to see, and no account."""
        return self.actor.kind is ActorKind.LINK

    def may_read_runs(self, project_id: str) -> bool:
        return may(self.actor, Scope.RUNS_READ, project_id)

    def may_edit(self, project_id: str) -> bool:
        """Whether the project's settings, keys and experiments are the reader's to change."""
        return may(self.actor, Permission.EDIT_PROJECT, project_id)


def wants_part() -> bool:
    """Whether htmx asks for a part, to swap it in; what restores history is whole."""
    return request.headers.get("HX-Request-Type") == "partial" and "HX-History-Restore-Request" not in request.headers


templates.globals["wants_part"] = wants_part


async def render(page: Page, status: int = 200) -> Response:
    """The page, or its fragment when htmx wants a part; a fragment brings the tab's title along."""
    name = page.fragment if wants_part() else page.template
    said = None if wants_part() else request.cookies.get(SAID_COOKIE)
    html = templates.get_template(name).render(page=page, shell=_shell(said))
    if wants_part() and page.document_title is not None:
        html = Markup("<title>{}</title>\n").format(page.document_title) + Markup(html)  # noqa: S704  # Jinja escaped it.
    response = Response(html, status)
    response.vary.update(VARY)
    response.headers["Cache-Control"] = ASK_FIRST
    if said:
        response.delete_cookie(SAID_COOKIE)
    return response


async def render_refused(page: Page, error: RuntallyError) -> Response:
    """The page with a form that was refused; where waiting helps, the answer says how long."""
    wait = error.retry_after_seconds if isinstance(error, RateLimited | PasswordsBusy) else None
    response = await render(page, 422 if wait is None else status_of(error))
    if wait is not None:
        response.headers["Retry-After"] = str(wait)
    return response


async def done(fragment: Page, else_to: str) -> Response:
    """The answer to a form: what it changed, when htmx sent it; else on to a page, so that a reload sends nothing."""
    if wants_part():
        return await render(fragment)
    return see_other(else_to)


def see_other(url: str, said: str | None = None) -> Response:
    """On to a page, by GET whatever the request was; `said` is a sentence that this page shows once."""
    response = Response(status=303, headers={"Location": url})
    if said:
        response.set_cookie(
            SAID_COOKIE, quote(said), max_age=SAID_SECONDS, httponly=True, secure=request.is_secure, samesite="Lax"
        )
    return response


def nothing_new() -> Response:
    """Tells htmx to leave everything as it is."""
    return Response(status=204, headers={"Vary": ", ".join(VARY), "Cache-Control": "no-store"})


def _shell(said: str | None) -> Shell:
    theme = Theme.parse(request.cookies.get(THEME_COOKIE))
    is_dev_mode, here = services().settings.service_dev_mode, request.full_path.rstrip("?")
    can_be_asked_again = request.method == "GET" and not said
    return Shell(actor(), is_dev_mode, theme, request.path, here, unquote(said) if said else None, can_be_asked_again)
