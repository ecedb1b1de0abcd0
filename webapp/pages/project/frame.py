"""The head of a project's pages: its name and tabs, and the range control of those with a range."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from api.current import actor, services
from runtally.db.database import Connection
from runtally.models.dimension import KeyState
from runtally.tracking import list_keys
from runtally.usage.dimensions import MODEL, dimension_of_key
from runtally.usage.filter import ALL_RUNS
from runtally.usage.overview.project_queries import select_projects
from runtally.usage.window import Window
from webapp.pages.panel.grouping import GroupMenu
from webapp.pages.panel.narrowing import Chip, Choice, LiveSwitch, RangeMenu, live_switch, range_menu_of
from webapp.pages.panel.panel import overview_name
from webapp.project_pages import CACHE, ERRORS, OVERVIEW, SPEED, TABS, ProjectPage
from webapp.rendering import Page
from webapp.report import Figure
from webapp.view import View, is_open


class ProjectHeading(Struct, frozen=True):
    """The name, links and tabs of a project above each of its pages."""

    id: str
    name: str
    is_hidden: bool = False


class ReportFrame(Struct, frozen=True, kw_only=True):
    """What stands above a report: whose runs it shows, of which time, and what narrows and groups them."""

    view: View
    now: datetime
    project: ProjectHeading | None
    """None for all projects."""
    ranges: RangeMenu
    live: LiveSwitch | None
    heading: str = ""
    """What a report below the tabs of a project is called."""
    chips: tuple[Chip, ...] = ()
    group_menu: GroupMenu | None = None
    names: tuple[Choice, ...] = ()
    compared_with: str | None = None

    @property
    def name(self) -> str:
        """Whose runs it shows."""
        return self.project.name if self.project else overview_name(actor().project_id)

    @property
    def range_query(self) -> Mapping[str, object]:
        """The range, for links to other pages of the project."""
        return self.view.replace(filter=ALL_RUNS).filter_query

    @property
    def tab_urls(self) -> Mapping[str, str]:
        return tab_urls_of(self.view)

    @property
    def overview_url(self) -> str:
        """The overview of these runs."""
        return self.view.at(OVERVIEW).url

    @property
    def title(self) -> str:
        return f"{self.heading or self.view.report.label} · {self.view.period} · {self.name}"


class ReportPage(Page, frozen=True):
    """A report below its frame."""

    frame: ReportFrame

    @property
    def document_title(self) -> str:
        return self.frame.title


class QualityPage(ReportPage, frozen=True):
    """A page of the tab Quality, with its figures over all of the range."""

    figures: tuple[Figure, ...]

    @property
    def parts(self) -> tuple[Choice, ...]:
        """The links between these pages."""
        view = self.frame.view
        return tuple(Choice(one.label, view.at(one).url, one is view.report) for one in (ERRORS, SPEED, CACHE))


def tab_urls_of(view: View) -> Mapping[str, str]:
    """Return the addresses of the tabs that keep the range and the grouping of a report."""
    kept = view.replace(filter=ALL_RUNS, is_live=False)
    return {page.name: kept.at(page).url for page in TABS if page.is_report}


async def heading_of(connection: Connection, project_id: str) -> ProjectHeading:
    """Return the heading; a project without runs is called by its id."""
    for project in await select_projects(connection, project_id):
        return ProjectHeading(project.id, project.name, project.is_hidden)
    return ProjectHeading(project_id, project_id)


async def open_keys(project_id: str) -> list[str]:
    """Return the keys that the project tracks and whose values the reader may see."""
    async with services().cells.for_project(project_id).database.session() as session:
        keys = await list_keys(session, project_id, services().clock())
    return [key.key for key in keys if key.state is KeyState.TRACKED and is_open(dimension_of_key(key.key))]


def range_of(query: Mapping[str, str], project_id: str, report: ProjectPage) -> View:
    """Return the range that a query asks for, of all runs of a project: the rest of it is for the page to read."""
    return View.parse(query, project_id, report).replace(filter=ALL_RUNS, by=MODEL, notes=())


def frame_of(project: ProjectHeading | None, view: View, window: Window, **more: Any) -> ReportFrame:  # noqa: ANN401  # Further fields of the frame.
    return ReportFrame(
        view=view,
        now=window.now,
        project=project,
        ranges=range_menu_of(view, window),
        live=live_switch(view, window),
        **more,
    )
