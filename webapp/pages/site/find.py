"""Search for projects, pages, saved views, guides, models and runs by a part of their name."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import saved_views, teams
from runtally.access.scopes import Permission, Scope, may, open_to
from runtally.audit import Actor
from runtally.cells.cell import Cell
from runtally.fields import MAX_NAME, trimmed
from runtally.models.project import SavedView
from runtally.runs.queries import select_projects, select_projects_of_run
from runtally.runs.scan import select_names
from runtally.usage.filter import Period
from runtally.usage.snapshots import Snapshots
from webapp.addresses import address_of, path_to
from webapp.guides import guide_url, titles
from webapp.pages.project.settings import SECTIONS
from webapp.pages.runs.views import run_url, runs_url
from webapp.project_pages import BREAKDOWN, PROJECT_PAGES, REPORTS
from webapp.rendering import Page, render, wants_part
from webapp.security import signed_in

blueprint = Blueprint("find", __name__)

SHOWN = 6
# Several providers may have a model.
_MODELS_READ = 100
_PAGES = (
    ("Overview", "overview.overview"),
    ("Experiments", "experiments.experiments"),
    ("Compare experiments", "comparison.compare"),
    ("Guides", "guides.index"),
    ("API reference", "reference.show"),
)
_ADMIN_PAGES = (
    ("Prices", "prices.prices"),
    ("New price", "price_forms.new"),
    ("Change several prices", "price_bulk.bulk"),
    ("Test a price", "price_tester.tester"),
    ("Discounts", "price_discounts.discounts"),
    ("Repricing", "repricing.repricings"),
    ("Display currency", "currency.rates"),
    ("Import and export prices", "price_catalogue.form"),
    ("Bills", "admin_bills.bills"),
    ("Erase a person", "admin_erasures.erasures_list"),
    ("Budgets of all projects", "admin_budgets.budgets"),
    ("Users", "admin_users.users_list"),
    ("Teams", "admin_teams.teams_list"),
    ("Audit log", "admin_audit.audit"),
    ("Clients of OpenTelemetry", "admin_clients.clients"),
    ("Health", "admin_health.health"),
    ("Send runs", "send_runs.choose"),
)
_ACTIONS = (
    ("new key", "project_keys.show", ""),
    ("new budget", "project_budgets.budgets", "#new-budget"),
    ("share by a link", "shared_links.show", ""),
    ("rename, hide or delete", "project_general.show", ""),
)
_PART_WORDS = " ".join(
    (
        *(page.found_as for page in PROJECT_PAGES),
        *("send runs", "releases", "users", "settings"),
        *(name for name, _ in SECTIONS),
        *(label for label, *_ in _ACTIONS),
    )
).casefold()
"""What the pages of a project are called, together."""


class Result(Struct, frozen=True):
    """Something that was found; `kind` says what it is."""

    kind: str
    name: str
    url: str


_THEME = Result("Action", "Change the theme", "#theme-button")
"""The link leads to the button; with scripts it presses it."""


class FindPage(Page, frozen=True):
    """The results of a search, as a page or as the list of the palette."""

    template: ClassVar[str] = "site/find.html"
    fragment: ClassVar[str] = "site/_find.html"

    text: str
    results: tuple[Result, ...]

    @property
    def document_title(self) -> str | None:
        """The palette keeps the title of the page that it is on."""
        return None if wants_part() else "Search"


@blueprint.get("/find")
@signed_in
async def find() -> ResponseReturnValue:
    """Projects, pages, saved views, guides, models and runs with the text of the query in their name; of runs, the whole id."""
    text = trimmed(request.args.get("q", "")).replace("\0", "")[:MAX_NAME]
    reader = actor()
    async with services().cells.snapshots(None) as snapshots:
        results = [
            *(await _projects(snapshots, reader, text)),
            *_pages(reader, text),
            *(await _teams(reader, text)),
            *(await _views(reader, text)),
            *_guides(text),
            *(await _models(snapshots, reader, text)),
            *(await _runs(snapshots, reader, text)),
        ]
    return await render(FindPage(text, tuple(results)))


async def _projects(snapshots: Snapshots, reader: Actor, text: str) -> list[Result]:
    ids = open_to(reader, Scope.METRICS_READ)
    names = await snapshots.of_each(lambda connection: select_projects(connection, ids))
    known = sorted(((id_, name) for of_one in names for id_, name in of_one.items()), key=lambda one: (one[1], one[0]))
    found = [(id_, name) for id_, name in known if _has(name, text) or _has(id_, text)]
    results = [Result("Project", name, path_to("project.project", project_id=id_)) for id_, name in found[:SHOWN]]
    if text and len(found) == 1:
        [(project_id, name)] = found
        return results + [_part(name, *one) for one in _parts_of(reader, project_id)]
    return results + list(islice(_parts_named(reader, known, text), SHOWN))


def _part(name: str, label: str, url: str) -> Result:
    return Result("Project", f"{name}: {label}", url)


def _parts_named(reader: Actor, projects: Sequence[tuple[str, str]], text: str) -> Iterator[Result]:
    """Yield the pages of projects whose name has all words of the text that the name of their project has not."""
    words = text.casefold().split()
    # Pages of a thousand projects are not looked at where no word could be of one.
    if not any(word in _PART_WORDS for word in words):
        return
    for project_id, name in projects:
        rest = [word for word in words if word not in name.casefold() and word not in project_id.casefold()]
        if rest and all(word in _PART_WORDS for word in rest):
            for label, url in _parts_of(reader, project_id):
                if all(word in label.casefold() for word in rest):
                    yield _part(name, label, url)


def _parts_of(reader: Actor, project_id: str) -> Iterator[tuple[str, str]]:
    """Yield the pages of a project that the reader may open, and what can be done there."""
    sees_runs, may_edit = may(reader, Scope.RUNS_READ, project_id), may(reader, Permission.EDIT_PROJECT, project_id)
    for page in PROJECT_PAGES:
        if page.found_as and page.is_open_to(reader, project_id):
            yield page.found_as, page.address(project_id)
    if may_edit:
        for section, endpoint in SECTIONS:
            yield f"settings · {section}", path_to(endpoint, project_id=project_id)
        yield "send runs", path_to("send_runs.show", project_id=project_id)
    for dimension, label in (("metadata.release", "releases"), *([("user", "users")] if sees_runs else [])):
        yield label, BREAKDOWN.address(project_id, {"by": dimension})
    if may_edit:
        for label, endpoint, place in _ACTIONS:
            yield label, f"{path_to(endpoint, project_id=project_id)}{place}"


def _pages(reader: Actor, text: str) -> list[Result]:
    pages = _PAGES + (_ADMIN_PAGES if may(reader, Scope.ADMIN, None) else ())
    if open_to(reader, Scope.RUNS_READ) != []:
        pages = (*pages[:1], ("Runs", "runs.explorer"), *pages[1:])
    found = [Result("Page", name, path_to(endpoint)) for name, endpoint in pages if _has(name, text)]
    if text and _has(_THEME.name, text):
        found.append(_THEME)
    return found if text else found[:SHOWN]


async def _views(reader: Actor, text: str) -> list[Result]:
    """Return the saved views that the reader may open."""
    if not text or not saved_views.may_save(reader):
        return []

    async def of_cell(cell: Cell) -> Sequence[SavedView]:
        async with cell.database.session() as session:
            return await saved_views.find_by_text(session, text, open_to(reader, Scope.METRICS_READ), SHOWN)

    found = await services().cells.ask_each(of_cell)
    return [
        Result(
            "View", f"{view.name} in {view.project_id}", REPORTS[view.page].saved_address(view.project_id, view.query)
        )
        for view in sorted(
            (view for of_one in found for view in of_one), key=lambda one: (one.name.lower(), one.project_id)
        )[:SHOWN]
        if view.page in REPORTS and REPORTS[view.page].is_open_to(reader, view.project_id)
    ]


async def _teams(reader: Actor, text: str) -> list[Result]:
    """Return the teams with this text in their name or id, of which the reader may see the page."""
    if not text:
        return []
    async with services().control.database.session() as session:
        found = [
            one
            for one in await teams.list_all(session)
            if may(reader, Scope.METRICS_READ, one.id) and (_has(one.name, text) or _has(one.id, text))
        ]
    return [
        Result("Team", one.name, path_to("admin_teams.team_page", team=teams.short(one.id))) for one in found[:SHOWN]
    ]


def _guides(text: str) -> list[Result]:
    found = [Result("Guide", title, guide_url(name)) for name, title in titles().items() if _has(title, text)]
    return found if text else []


async def _models(snapshots: Snapshots, reader: Actor, text: str) -> list[Result]:
    """Return models that all projects use, for who may see all of them."""
    if not text or not may(reader, Scope.METRICS_READ, None):
        return []
    names = await snapshots.of_each(lambda connection: select_names(connection, None, _MODELS_READ, text.lower()))
    models = sorted({model for of_one in names for _, model in of_one})
    return [Result("Model", model, address_of("overview.overview", {"model": model})) for model in models[:SHOWN]]


async def _runs(snapshots: Snapshots, reader: Actor, text: str) -> list[Result]:
    """Return the runs with this id, and the way to runs and traces with it."""
    ids = open_to(reader, Scope.RUNS_READ)
    if not text or ids == []:
        return []
    projects = await snapshots.of_each(lambda connection: select_projects_of_run(connection, text, ids))
    found = [
        Result("Run", f"{text} in {project_id}", run_url(project_id, text))
        for of_one in projects
        for project_id in of_one
    ]
    return [
        *found,
        Result("Runs", f"Runs and traces with the id {text}", runs_url(search=text, range=Period.ALL)),
    ]


def _has(name: str, text: str) -> bool:
    return text.casefold() in name.casefold()
