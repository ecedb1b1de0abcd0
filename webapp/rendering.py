"""Render typed page objects to HTML: the whole page, or its main fragment if htmx asks for that.

Templates do no IO, so they are not rendered by Quart: in an async environment every loop and macro is a coroutine, at three times
the cost.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar
from urllib.parse import quote, unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct
from quart import Response, g, request, url_for

import api
from api.cells import choose_cell
from api.current import actor, incoming, services
from api.errors import status_of
from runtally import BUILD
from runtally.access import saved_views
from runtally.access.scopes import Permission, Scope, may, open_to
from runtally.access.shared_links import OpenLink
from runtally.audit import Actor, ActorKind
from runtally.cells.request import missing
from runtally.errors import PasswordsBusy, RateLimited, RuntallyError
from runtally.files import ROOT
from runtally.money import plain
from webapp import currency, formats, zone
from webapp.addresses import address_of, cookie_path, cookies_are_secure, here, path_to
from webapp.assets import asset_url, style_sheet_url
from webapp.caching import ASK_FIRST, VARY
from webapp.charts.look import HATCH
from webapp.charts.svg import first_paint
from webapp.guides import guide_url, titles
from webapp.project_pages import TABS
from webapp.sessions import are_passwords_off
from webapp.zone import local

FOLDER = ROOT / "templates"
# No stored text has a NUL, and no cell is a line break.
_BESIDE, _BELOW = "\0", "\0\n\0"


def figures(rows: Sequence[Sequence[str]], urls: Sequence[str] = ()) -> Markup:
    """Render the rows of a table, whose names link to these URLs. Cell by cell they would take half of a page's time."""
    texts = _escaped(_BELOW, [_BESIDE.join(row) for row in rows])
    links = [f'<a href="{url}">' for url in _escaped(_BELOW, urls)] or [""] * len(texts)
    written = []
    for text, link in zip(texts, links, strict=True):
        name, _, cells = text.partition(_BESIDE)
        linked = f"{link}{name}</a>" if link else name
        written.append(f'<tr><th scope="row">{linked}</th><td>{cells.replace(_BESIDE, "</td><td>")}</td></tr>')
    return Markup("".join(written))  # noqa: S704  # All of it was just escaped.


def _escaped(between: str, texts: Sequence[str]) -> list[str]:
    return str(escape(between.join(texts))).split(between) if texts else []


def apart(text: str) -> Markup:
    """Render the parts of a line that "·" divides; the direction in which one is written moves none of the others."""
    return Markup(" · ").join(Markup("<bdi>{}</bdi>").format(part) for part in text.split(" · "))


def address(text: str) -> Markup:
    """Render an address of mail, or another name: a line may break after its "@" before it breaks a word."""
    return Markup("@<wbr>").join(text.split("@"))


def replaces_itself(id_: str) -> Markup:
    """Return the attributes of a part that links and forms in it renew, the last one alone, with its address in the history."""
    return Markup(
        'hx-target:inherited="#{0}" hx-swap:inherited="outerMorph" hx-push-url:inherited="true" '
        'hx-sync:inherited="#{0}:replace" hx-indicator:inherited="#{0}"'
    ).format(id_)


templates = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    # A missing name is an error, not an empty place on the page.
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    # Code and templates change together, when the service starts.
    auto_reload=False,
)
templates.globals |= {
    "address_of": address_of,
    "asset": asset_url,
    "currency": currency,
    "style_sheet": style_sheet_url,
    "first_paint": first_paint,
    "guide_titles": titles,
    "guide_url": guide_url,
    "hatch": Markup(HATCH),  # noqa: S704  # Our own.
    "path_to": path_to,
    "project_tabs": TABS,
    "replaces_itself": replaces_itself,
    "url_for": url_for,
    "version": BUILD,
    "zone": zone,
}
templates.filters |= {
    "address": address,
    "ago": formats.ago,
    "apart": apart,
    "clock": lambda at: formats.clock(zone.local(at)),
    "count": formats.count,
    "day": formats.day,
    "figures": figures,
    "minute": lambda at: formats.minute(zone.local(at)),
    "moment": lambda at: formats.moment(zone.local(at)),
    "plain": plain,
    "runs": formats.runs,
    "tokens": formats.tokens,
}


THEME_COOKIE = "theme"
# The sentence to show on the page after a form.
FLASH_COOKIE = "flash"
FLASH_SECONDS = 60


class Theme(StrEnum):
    """The colour themes, in the order of the button."""

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


class Page(Struct, frozen=True):
    """The values that a template may read; every page is a subclass with its own fields."""

    template: ClassVar[str] = "page.html"
    """The whole page: the frame around the fragment, where the page has nothing else."""
    fragment: ClassVar[str]
    """The fragment that a change of range or filter swaps."""
    has_navigation: ClassVar[bool] = True
    """Whether the page shows the navigation."""
    tab_title: ClassVar[str | None] = None
    """The title of the browser tab, where it is always the same."""

    @property
    def document_title(self) -> str | None:
        """The title of the browser tab; None for a fragment that does not change it."""
        return self.tab_title


class Shell(Struct, frozen=True):
    """The values of the frame around every page."""

    actor: Actor
    is_dev_mode: bool
    theme: Theme
    path: str
    here: str
    """The path with its query."""
    flash: str | None = None
    """The result of the form before this page."""
    can_be_asked_again: bool = True
    """Whether the same request returns the same page, and changes nothing."""
    shared: str = ""
    """Who shared the page by a link, and until when; empty for who is signed in."""
    missing_cells: tuple[str, ...] = ()
    """The cells that are away, and whose projects the page therefore leaves out."""

    @property
    def is_signed_in(self) -> bool:
        return self.actor.kind in {ActorKind.KEY, ActorKind.USER}

    @property
    def is_let_in(self) -> bool:
        """Whether the reader may open pages, being signed in or in dev mode."""
        return self.is_signed_in or self.is_dev_mode or self.actor.kind is ActorKind.LINK

    @property
    def has_account(self) -> bool:
        return self.actor.kind is ActorKind.USER

    @property
    def is_admin(self) -> bool:
        return Scope.ADMIN in self.actor.scopes or (self.is_dev_mode and not self.is_signed_in)

    @property
    def is_link_reader(self) -> bool:
        """Whether the reader uses a shared link, and so sees one project."""
        return self.actor.kind is ActorKind.LINK

    @property
    def may_read_runs(self) -> bool:
        """Whether the reader may see single runs, of any project."""
        return open_to(self.actor, Scope.RUNS_READ) != []

    @property
    def may_save_views(self) -> bool:
        return saved_views.may_save(self.actor)

    def may_edit(self, project_id: str) -> bool:
        """Return whether the reader may change the project's settings, keys and experiments."""
        return may(self.actor, Permission.EDIT_PROJECT, project_id)


def wants_part() -> bool:
    """Return whether htmx asks for a fragment; a request that restores history is for the whole page."""
    return request.headers.get("HX-Request-Type") == "partial" and "HX-History-Restore-Request" not in request.headers


templates.globals["wants_part"] = wants_part
templates.globals["are_passwords_off"] = are_passwords_off


async def render(page: Page, status: int = 200) -> Response:
    """Render the page, or, for htmx, its fragment with the title of the tab."""
    name = page.fragment if wants_part() else page.template
    flash = None if wants_part() else request.cookies.get(FLASH_COOKIE)
    shell = _shell(flash)
    html = templates.get_template(name).render(page=page, shell=shell)
    if wants_part() and services().cells.directory is not None:
        html = templates.get_template("site/_missing_cells.html").render(shell=shell) + html
    if wants_part() and currency.note():
        html += templates.get_template("site/_currency_note.html").render()
    if wants_part() and page.document_title is not None:
        html = Markup("<title>{}</title>\n").format(page.document_title) + Markup(html)  # noqa: S704  # Jinja escaped it.
    response = Response(html, status)
    response.vary.update(VARY)
    response.headers["Cache-Control"] = ASK_FIRST
    if flash:
        response.delete_cookie(FLASH_COOKIE, path=cookie_path())
    return response


async def render_once(page: Page, status: int = 200) -> Response:
    """Render a page with a secret that is shown once: nothing on the way may keep it."""
    response = await render(page, status)
    response.headers["Cache-Control"] = "no-store"
    return response


async def render_refused(page: Page, error: RuntallyError) -> Response:
    """Render the page with a form that was refused; if waiting helps, the answer says how long."""
    wait = error.retry_after_seconds if isinstance(error, RateLimited | PasswordsBusy) else None
    response = await render(page, 422 if wait is None else status_of(error))
    if wait is not None:
        response.headers["Retry-After"] = str(wait)
    return response


async def done(fragment: Page, else_to: str) -> Response:
    """Answer a form: its fragment for htmx, else a redirect, so that a reload does not send the form again."""
    if wants_part():
        return await render(fragment)
    return see_other(else_to)


def see_other(url: str, flash: str | None = None) -> Response:
    """Redirect to a page by GET; `flash` is a sentence that the page shows once."""
    response = Response(status=303, headers={"Location": url})
    if flash:
        keep(response, FLASH_COOKIE, flash, timedelta(seconds=FLASH_SECONDS))
    return response


def keep(response: Response, cookie: str, text: str, lifetime: timedelta = timedelta(days=365)) -> None:
    """Have the browser keep this text, which no script may read."""
    response.set_cookie(
        cookie,
        quote(text),
        max_age=lifetime,
        path=cookie_path(),
        httponly=True,
        secure=cookies_are_secure(),
        samesite="Lax",
    )


def no_content() -> Response:
    """Answer htmx that nothing changes."""
    return Response(status=204, headers={"Vary": ", ".join(VARY), "Cache-Control": "no-store"})


def _shell(flash: str | None) -> Shell:
    theme = Theme.parse(request.cookies.get(THEME_COOKIE))
    is_dev_mode = services().settings.service_dev_mode
    can_be_asked_again = request.method == "GET" and not flash
    return Shell(
        actor(),
        is_dev_mode,
        theme,
        f"{request.root_path}{request.path}",
        here(),
        unquote(flash) if flash else None,
        can_be_asked_again,
        _shared(g.get("shared_link")),
        missing(),
    )


def _shared(link: OpenLink | None) -> str:
    if link is None:
        return ""
    until = f"until {formats.day(local(link.expires_at))}" if link.expires_at else "without an end"
    return f"Shared by {link.created_by} \u00b7 read-only \u00b7 {until}"


async def choose_cells() -> None:
    """Choose the cells of a request; the hook before access. Only a request to the API may name one."""
    await choose_cell(incoming(), request.view_args or {}, may_name=api.serves(request.path))
