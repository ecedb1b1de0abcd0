"""The head of a project's pages: its name and tabs, and the range control of those with a range."""

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

from runtally.db.database import Connection
from runtally.usage.overview.project_queries import select_projects
from runtally.usage.window import Window
from webapp.pages.panel.narrowing import LiveSwitch, RangeMenu, live_switch, range_menu_of
from webapp.view import View


class ProjectHeading(Struct, frozen=True):
    """The name, links and tabs of a project above each of its pages."""

    id: str
    name: str
    is_hidden: bool = False


class ProjectFrame(Struct, frozen=True):
    """The head of a project's page with a range."""

    project: ProjectHeading
    period: str
    ranges: RangeMenu
    now: datetime
    range_query: Mapping[str, object]
    """The range, for links to other pages of the project."""
    live: LiveSwitch | None = None


async def heading_of(connection: Connection, project_id: str) -> ProjectHeading:
    """Return the heading; a project without runs is called by its id."""
    for project in await select_projects(connection, project_id):
        return ProjectHeading(project.id, project.name, project.is_hidden)
    return ProjectHeading(project_id, project_id)


def range_of(query: Mapping[str, str], project_id: str) -> View:
    """Return the range that a query asks for, of all runs of a project: the rest of it is for the page to read."""
    asked = View.parse(query, project_id)
    return View(project_id, asked.range, is_live=asked.is_live, mistaken=asked.mistaken, calendar=asked.calendar)


def frame_of(
    project: ProjectHeading, view: View, window: Window, action: str, url_of: Callable[[View], str], **more: str
) -> ProjectFrame:
    """Return the head of a page with this address; `more` are query parameters besides the range."""
    return ProjectFrame(
        project,
        view.period,
        range_menu_of(view, window, action, url_of, **more),
        window.now,
        view.filter_query,
        live_switch(view, window, url_of),
    )
